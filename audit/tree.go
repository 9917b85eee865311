package audit

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// tree is the edge of an RFC 6962 tree: its size and the hashes of its complete
// subtrees, by tlog's stored index. That is all that appending needs.
type tree struct {
	size int64
	edge map[int64]tlog.Hash
}

// edgeIndexes are the stored indexes of the complete subtrees of a tree with
// size leaves, largest first.
func edgeIndexes(size int64) []int64 {
	var out []int64
	for at := int64(0); at < size; {
		level := bits.Len64(uint64(size-at)) - 1
		out = append(out, tlog.StoredHashIndex(level, at>>level))
		at += 1 << level
	}
	return out
}

// readTree loads the edge of a tree from stored hashes.
func readTree(size int64, r tlog.HashReader) (tree, error) {
	t := tree{size: size, edge: map[int64]tlog.Hash{}}
	idx := edgeIndexes(size)
	hashes, err := r.ReadHashes(idx)
	if err != nil {
		return tree{}, err
	}
	for i, h := range hashes {
		t.edge[idx[i]] = h
	}
	return t, nil
}

func (t *tree) clone() tree { return tree{t.size, maps.Clone(t.edge)} }

// ReadHashes implements tlog.HashReader over the edge.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		h, ok := t.edge[x]
		if !ok {
			return nil, fmt.Errorf("read the tree: hash %d is not on its edge", x)
		}
		out[i] = h
	}
	return out, nil
}

// add appends one leaf and returns the hashes to store, from
// tlog.StoredHashIndex(0, n) on. The edge keeps them all until prune.
func (t *tree) add(raw []byte) ([]tlog.Hash, error) {
	hashes, err := tlog.StoredHashes(t.size, raw, t)
	if err != nil {
		return nil, err
	}
	first := tlog.StoredHashIndex(0, t.size)
	for i, h := range hashes {
		t.edge[first+int64(i)] = h
	}
	t.size++
	return hashes, nil
}

// prune forgets the hashes that are no longer on the edge.
func (t *tree) prune() {
	kept := make(map[int64]tlog.Hash, 64)
	for _, x := range edgeIndexes(t.size) {
		kept[x] = t.edge[x]
	}
	t.edge = kept
}

// root is the tree's root; of an empty tree, the hash of nothing.
func (t *tree) root() (tlog.Hash, error) { return tlog.TreeHash(t.size, t) }

// storedHashes reads stored hashes from a segment's bucket.
type storedHashes struct{ *bbolt.Bucket }

func (b storedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		v := b.Get(key(uint64(x)))
		if len(v) != tlog.HashSize {
			return nil, fmt.Errorf("read the tree: hash %d is missing", x)
		}
		copy(out[i][:], v)
	}
	return out, nil
}

// key is the form of numbers as bbolt keys: big endian, so that their order is
// the order of the numbers.
func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// checkpoint is a statement that a log had Size records whose tree has Root. Its
// text form is a C2SP tlog-checkpoint: origin, size and base64 root, one a line.
type checkpoint struct {
	origin string
	size   int64
	root   tlog.Hash
}

func (c checkpoint) text() string {
	return c.origin + "\n" + strconv.FormatInt(c.size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.root[:]) + "\n"
}

// sign returns the checkpoint as a signed note.
func (c checkpoint) sign(signers ...note.Signer) ([]byte, error) {
	out, err := note.Sign(&note.Note{Text: c.text()}, signers...)
	if err != nil {
		return nil, fmt.Errorf("sign the checkpoint: %w", err)
	}
	return out, nil
}

// openNote verifies a signed note. It is stricter than note.Open: every
// signature must be of a known key, and in the one form that base64 has for it.
func openNote(signed []byte, known note.Verifiers) (*note.Note, error) {
	n, err := note.Open(signed, known)
	if err != nil {
		return nil, fmt.Errorf("check the signature: %w", err)
	}
	for _, sig := range n.Sigs {
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return nil, fmt.Errorf("check the signature: %w", err)
		}
	}
	if len(n.UnverifiedSigs) > 0 {
		return nil, errors.New("check the signature: there is one of an unknown key")
	}
	return n, nil
}

// openCheckpoint verifies a signed note and reads the checkpoint in it.
func openCheckpoint(signed []byte, known note.Verifiers) (checkpoint, error) {
	n, err := openNote(signed, known)
	if err != nil {
		return checkpoint{}, err
	}
	return parseCheckpoint(n.Text)
}

func parseCheckpoint(text string) (checkpoint, error) {
	bad := func(what string) (checkpoint, error) {
		return checkpoint{}, fmt.Errorf("read the checkpoint: %s", what)
	}
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return bad("it is not three lines")
	}
	c := checkpoint{origin: lines[0]}
	if c.origin == "" {
		return bad("it has no origin")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return bad("its size is not a number")
	}
	c.size = size
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return bad("its root is not a SHA-256 in base64")
	}
	copy(c.root[:], root)
	return c, nil
}

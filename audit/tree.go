package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// tree is the edge of an RFC 6962 tree, which is all that appending needs: for
// each bit l that is set in size, edge[l] is the root of a complete subtree of
// 1<<l leaves, larger ones first. The zero tree is empty.
type tree struct {
	size int64
	edge [63]tlog.Hash
}

// edgeIndexes are tlog's stored indexes of a tree's edge, largest subtree first.
func edgeIndexes(size int64) []int64 {
	var out []int64
	for at := int64(0); at < size; {
		level := bits.Len64(uint64(size-at)) - 1
		out = append(out, tlog.StoredHashIndex(level, at>>level))
		at += 1 << level
	}
	return out
}

// hashes are those of the edge, in the order of edgeIndexes.
func (t *tree) hashes() []tlog.Hash {
	var out []tlog.Hash
	for level := len(t.edge) - 1; level >= 0; level-- {
		if t.size>>level&1 == 1 {
			out = append(out, t.edge[level])
		}
	}
	return out
}

// readTree loads the edge of a tree from stored hashes.
func readTree(size int64, r tlog.HashReader) (tree, error) {
	t := tree{size: size}
	hashes, err := r.ReadHashes(edgeIndexes(size))
	if err != nil {
		return tree{}, err
	}
	for level := range t.edge {
		if size>>level&1 == 1 {
			t.edge[level] = hashes[len(hashes)-1]
			hashes = hashes[:len(hashes)-1]
		}
	}
	return t, nil
}

// add appends a leaf by its hash and returns, appended to out, the hashes to
// store: those of tlog.StoredHashes, from tlog.StoredHashIndex(0, size) on.
func (t *tree) add(leaf tlog.Hash, out []tlog.Hash) []tlog.Hash {
	h, level := leaf, 0
	out = append(out, h)
	for ; t.size>>level&1 == 1; level++ {
		h = nodeHash(&t.edge[level], &h)
		out = append(out, h)
	}
	t.edge[level] = h
	t.size++
	return out
}

// nodeHash is tlog.NodeHash without its allocations: it is called once a record.
func nodeHash(left, right *tlog.Hash) tlog.Hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = 1 // RFC 6962, section 2.1
	copy(b[1:], left[:])
	copy(b[1+tlog.HashSize:], right[:])
	return sha256.Sum256(b[:])
}

// root is the tree's root; of an empty tree, the hash of nothing.
func (t *tree) root() tlog.Hash {
	hashes := t.hashes()
	if len(hashes) == 0 {
		return sha256.Sum256(nil)
	}
	r := hashes[len(hashes)-1]
	for i := len(hashes) - 2; i >= 0; i-- {
		r = nodeHash(&hashes[i], &r)
	}
	return r
}

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

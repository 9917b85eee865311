package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
)

// records walks a segment's records and hashes side by side: both must be there,
// without gap or surplus, and belong together.
func (v *verification) records(ctx context.Context, tx *bbolt.Tx, seg segment) error {
	hashes := tx.Bucket(bucketHashes).Cursor()
	hk, hv := v.edge(hashes, seg)
	c := tx.Bucket(bucketRecords).Cursor()
	for k, raw := c.First(); k != nil; k, raw = c.Next() {
		if v.tree.size%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		seq := Seq(v.tree.size)
		if got, err := seqOf(k); err != nil || got != seq {
			return fmt.Errorf("record %d is missing", seq)
		}
		at := tlog.StoredHashIndex(0, v.tree.size)
		want, err := v.tree.add(raw)
		if err != nil {
			return err
		}
		for i, h := range want {
			if !bytes.Equal(hk, key(uint64(at)+uint64(i))) || !bytes.Equal(hv, h[:]) {
				return fmt.Errorf("record %d does not match its stored hash", seq)
			}
			hk, hv = hashes.Next()
		}
		v.follow(seq, raw)
		v.passAnchors()
		if len(v.tree.edge) > 256 {
			v.tree.prune()
		}
	}
	if hk != nil {
		return errors.New("there are more stored hashes than records")
	}
	return nil
}

// edge skips the hashes of the tree before the segment, which must be exactly
// its edge, and returns the next entry.
func (v *verification) edge(c *bbolt.Cursor, seg segment) (hk, hv []byte) {
	want := edgeIndexes(int64(seg.first))
	slices.Sort(want)
	hk, hv = c.First()
	for _, x := range want {
		h := v.tree.edge[x]
		if !bytes.Equal(hk, key(uint64(x))) || !bytes.Equal(hv, h[:]) {
			v.problem(VerifyTampered, seg.first, "segment %s: hash %d of the tree before it was altered", filepath.Base(seg.path), x)
		}
		hk, hv = c.Next()
	}
	return hk, hv
}

// follow checks what a record says of itself and keeps the set of open intents.
func (v *verification) follow(seq Seq, raw []byte) {
	l, err := skim(raw)
	switch {
	case err != nil:
		v.problem(VerifyTampered, seq, "record %d: %v", seq, err)
	case l.seq != seq:
		v.problem(VerifyTampered, seq, "record %d says that it is number %d", seq, l.seq)
	case l.kind == KindIntent:
		v.open[seq] = true
	case l.kind == KindOutcome && !v.open[l.intent] && l.intent >= v.report.First:
		v.problem(VerifyTampered, seq, "record %d is the outcome of %d, which is not an open intent", seq, l.intent)
	case l.kind == KindOutcome:
		delete(v.open, l.intent)
	}
}

// end holds a segment's last words against what was read.
func (v *verification) end(seg segment, s segmentState, final bool) {
	name, last := filepath.Base(seg.path), Seq(max(v.tree.size, 1)-1)
	cp, err := openCheckpoint(s.head, v.known)
	root, rerr := v.tree.root()
	switch {
	case err != nil:
		v.problem(VerifyTampered, last, "the checkpoint of segment %s does not verify: %v", name, err)
	case cp.size > v.tree.size:
		v.problem(VerifyTruncated, last, "the signed checkpoint of segment %s covers %d records and %d are there", name, cp.size, v.tree.size)
	case rerr != nil || cp.size != v.tree.size || cp.root != root:
		v.problem(VerifyTampered, last, "the records of segment %s are not those its checkpoint signs", name)
	}
	for _, seq := range s.open {
		if !v.open[seq] {
			v.problem(VerifyTampered, seq, "record %d is listed as open and is not", seq)
		}
	}
	if len(s.open) != len(v.open) {
		v.problem(VerifyTampered, last, "segment %s lists %d open calls and %d are open", name, len(s.open), len(v.open))
	}
	if final && s.sealed {
		v.problem(VerifyTruncated, last, "segment %s was followed by another, which is missing", name)
	}
	v.head = s.head
}

func (v *verification) finish() Report {
	for _, a := range v.anchors {
		v.problem(VerifyTruncated, Seq(max(v.tree.size, 1)-1), "an anchor covers %d records and %d are there", a.size, v.tree.size)
	}
	rep := v.report
	rep.Records = v.tree.size
	if root, err := v.tree.root(); err == nil {
		rep.Root = base64.StdEncoding.EncodeToString(root[:])
	}
	switch {
	case v.bad != "":
		rep.Status = v.bad
	case rep.First > 0:
		rep.Status = VerifyIncomplete
	case rep.AnchoredThrough < rep.Records-1:
		rep.Status = VerifyNotAnchored
	default:
		rep.Status = VerifyOK
	}
	return rep
}

// skimmed is what can be read of a stored record without decoding it.
type skimmed struct {
	seq    Seq
	kind   Kind
	intent Seq
}

var (
	markSeq    = []byte(`{"v":` + strconv.Itoa(RecordVersion) + `,"seq":`)
	markKind   = []byte(`"kind":"`)
	markIntent = []byte(`"intent":`)
)

// skim reads the fixed start of a stored record. A quote inside of a string is
// escaped, so the marks can only be keys.
func skim(raw []byte) (skimmed, error) {
	var s skimmed
	rest, ok := bytes.CutPrefix(raw, markSeq)
	if !ok {
		return s, errors.New("it does not start as a record")
	}
	seq, rest := number(rest)
	s.seq = Seq(seq)
	_, rest, ok = bytes.Cut(rest, markKind)
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 {
		return s, errors.New("it has no kind")
	}
	switch s.kind = Kind(rest[:end]); s.kind {
	case KindCall, KindIntent, KindEvent:
		return s, nil
	case KindOutcome:
		_, rest, ok = bytes.Cut(rest, markIntent)
		if !ok {
			return s, errors.New("it is an outcome without intent")
		}
		n, _ := number(rest)
		s.intent = Seq(n)
		return s, nil
	}
	return s, fmt.Errorf("its kind %q is unknown", s.kind)
}

func number(b []byte) (n uint64, rest []byte) {
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		n = n*10 + uint64(b[0]-'0')
		b = b[1:]
	}
	return n, b
}

// checkMetaPages looks at both of a file's meta pages. bbolt goes on with the
// older one when the newer is damaged, which would silently undo a commit.
// The layout is bbolt's: a page header of 16 bytes, then the meta with an
// FNV-1a sum at its end.
func checkMetaPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	first := make([]byte, 80)
	if _, err := f.ReadAt(first, 0); err != nil {
		return fmt.Errorf("its first page cannot be read: %w", err)
	}
	size := int64(binary.NativeEndian.Uint32(first[24:]))
	for i := range int64(2) {
		page := make([]byte, 80)
		if _, err := f.ReadAt(page, i*size); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("its meta page %d cannot be read: %w", i, err)
		}
		sum := fnv.New64a()
		sum.Write(page[16:72])
		intact := binary.NativeEndian.Uint64(page[0:]) == uint64(i) && // page id
			binary.NativeEndian.Uint16(page[8:]) == 4 && // meta flag
			binary.NativeEndian.Uint32(page[16:]) == 0xED0CDAED && // magic
			binary.NativeEndian.Uint64(page[72:]) == sum.Sum64()
		if !intact {
			return fmt.Errorf("its meta page %d is damaged: the last commit may be undone", i)
		}
	}
	return nil
}

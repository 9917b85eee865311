package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	var want []tlog.Hash
	raws := make([][]byte, 0, 2048)
	leaves := make([]leaf, cap(raws))
	for k, raw := c.First(); k != nil; {
		raws = raws[:0]
		for next := uint64(v.tree.size); k != nil && len(raws) < cap(raws); k, raw = c.Next() {
			if !isKey(k, next) {
				return fmt.Errorf("record %d is missing", next)
			}
			raws = append(raws, raw)
			next++
		}
		if err := readLeaves(ctx, raws, leaves); err != nil {
			return err
		}
		for i, raw := range raws {
			seq, at := Seq(v.tree.size), tlog.StoredHashIndex(0, v.tree.size)
			want = v.tree.add(leaves[i].hash, want[:0])
			for j := range want {
				if !isKey(hk, uint64(at)+uint64(j)) || !bytes.Equal(hv, want[j][:]) {
					return fmt.Errorf("record %d does not match its stored hash", seq)
				}
				hk, hv = hashes.Next()
			}
			v.follow(seq, raw, &leaves[i])
			v.passAnchors()
		}
	}
	v.sealedArgs(tx, v.args)
	v.args = 0
	if hk != nil {
		return errors.New("there are more stored hashes than records")
	}
	return nil
}

func isKey(k []byte, n uint64) bool { return len(k) == 8 && binary.BigEndian.Uint64(k) == n }

// leaf is what a record says, and its hash in the tree.
type leaf struct {
	hash tlog.Hash
	says skimmed
	err  error // of reading what it says
}

// readLeaves hashes and skims records on two processors.
func readLeaves(ctx context.Context, raws [][]byte, out []leaf) error {
	some := func(from, to int) error {
		return guarded(func() error {
			for i := from; i < to; i++ {
				out[i].hash = tlog.RecordHash(raws[i])
				out[i].says, out[i].err = skim(raws[i])
			}
			return ctx.Err()
		})
	}
	other := make(chan error)
	go func() { other <- some(0, len(raws)/2) }()
	err := some(len(raws)/2, len(raws))
	if oerr := <-other; err == nil {
		err = oerr
	}
	return err
}

// edge skips the hashes of the tree before the segment, which must be exactly
// its edge, and returns the next entry.
func (v *verification) edge(c *bbolt.Cursor, seg segment) (hk, hv []byte) {
	want := map[int64]tlog.Hash{}
	for i, h := range v.tree.hashes() {
		want[edgeIndexes(v.tree.size)[i]] = h
	}
	hk, hv = c.First()
	for _, x := range slices.Sorted(maps.Keys(want)) {
		h := want[x]
		if !bytes.Equal(hk, key(uint64(x))) || !bytes.Equal(hv, h[:]) {
			v.problem(VerifyTampered, seg.first, "segment %s: hash %d of the tree before it was altered", filepath.Base(seg.path), x)
		}
		hk, hv = c.Next()
	}
	return hk, hv
}

// follow checks what a record says of itself and keeps the set of open intents.
func (v *verification) follow(seq Seq, raw []byte, read *leaf) {
	l, err := &read.says, read.err
	if l.args {
		v.args++
	}
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
	case l.kind == KindEvent && bytes.Contains(raw, markSealed):
		v.sawSealed(seq, raw)
	case l.kind == KindEvent && bytes.Contains(raw, markEpoch):
		v.sawEpoch(seq, raw)
	case l.kind == KindEvent && bytes.Contains(raw, markRetired):
		v.sawRetired(seq, raw)
	}
}

// sawSealed notes what a record tells of a full segment's file.
func (v *verification) sawSealed(seq Seq, raw []byte) {
	r, err := Decode(raw)
	var d sealedDetail
	if err == nil {
		err = json.Unmarshal(r.Detail, &d)
	}
	if err != nil {
		v.problem(VerifyTampered, seq, "record %d: %v", seq, err)
		return
	}
	v.sealed[d.First] = d
}

// sealedFiles holds the files of full segments against the digests that the log
// keeps of them.
func (v *verification) sealedFiles(segs []segment, checks []*fileCheck) {
	for i, seg := range segs {
		want, told := v.sealed[seg.first]
		waits := slices.Contains(v.left, seg.first)
		got := checks[i].digest
		switch {
		case i == len(segs)-1:
		case told == waits:
			v.problem(VerifyTampered, seg.first, "the log does not tell the digest of segment %s", filepath.Base(seg.path))
		case told && !got.same(want) && !digestSegment(context.Background(), seg).same(want): // again: it may have been sealed meanwhile
			v.problem(VerifyTampered, seg.first, "the file of segment %s was altered after it was full", filepath.Base(seg.path))
		}
	}
}

// same reports whether a file's digest is the one told: of the segment, or of
// what it was until it was compacted.
func (d sealedDetail) same(told sealedDetail) bool {
	return d.SHA256 == told.SHA256 && d.Bytes == told.Bytes || told.Was != "" && d.SHA256 == told.Was && d.Bytes == told.WasBytes
}

// digestSegment is the digest of a segment's file, without SHA256 when the file
// cannot be read.
func digestSegment(ctx context.Context, seg segment) sealedDetail {
	sum, size, err := digestFile(ctx, seg.path)
	if err != nil {
		return sealedDetail{}
	}
	return sealedDetail{First: seg.first, Bytes: size, SHA256: sum}
}

// fileCheck is what can be said of a segment's file before bbolt opens it.
type fileCheck struct {
	done   chan struct{}
	last   bool
	live   bool // being written: nothing is checked
	digest sealedDetail
	err    error
}

// checkFiles begins to check the files of all segments, beside the walk over
// their records.
func (r *Reader) checkFiles(ctx context.Context, segs []segment) []*fileCheck {
	checks := make([]*fileCheck, len(segs))
	for i := range segs {
		last := i == len(segs)-1
		checks[i] = &fileCheck{done: make(chan struct{}), last: last, live: last && r.isLive()}
	}
	go func() {
		for i, c := range checks {
			if !c.live && ctx.Err() == nil {
				c.look(ctx, segs[i])
				r.checked.Store(segs[i].first, c.err)
			}
			close(c.done)
		}
	}()
	return checks
}

// look reads a file once: its pages are walked and its bytes digested.
func (c *fileCheck) look(ctx context.Context, seg segment) {
	err := mapped(seg.path, func(b []byte) error {
		c.err = walkPages(b)
		sum, err := digestBytes(ctx, b)
		c.digest = sealedDetail{First: seg.first, Bytes: int64(len(b)), SHA256: sum}
		return err
	})
	if err != nil && c.err == nil {
		c.err = err
	}
}

// end holds a segment's last words against what was read.
func (v *verification) end(seg segment, s segmentState, final bool) {
	name, last := filepath.Base(seg.path), Seq(max(v.tree.size, 1)-1)
	cp, err := v.openCheckpoint(s.head)
	switch {
	case err != nil:
		v.problem(VerifyTampered, last, "the checkpoint of segment %s does not verify: %v", name, err)
	case cp.size > v.tree.size:
		v.problem(VerifyTruncated, last, "the signed checkpoint of segment %s covers %d records and %d are there", name, cp.size, v.tree.size)
	case cp.size != v.tree.size || cp.root != v.tree.root():
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
	v.head, v.left = s.head, s.left
}

func (v *verification) finish() Report {
	for _, a := range v.anchors {
		v.problem(VerifyTruncated, Seq(max(v.tree.size, 1)-1), "an anchor covers %d records and %d are there", a.size, v.tree.size)
	}
	v.retired()
	rep := v.report
	rep.Records = v.tree.size
	root := v.tree.root()
	rep.Root = base64.StdEncoding.EncodeToString(root[:])
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
	args   bool // it has sealed arguments
}

var (
	markSeq     = []byte(`{"v":` + strconv.Itoa(RecordVersion) + `,"seq":`)
	markKind    = []byte(`kind":"`) // a first byte that is rare before it finds it sooner
	markArgs    = []byte(`,"sealed_args":"`)
	markIntent  = []byte(`"intent":`)
	markSealed  = []byte(`"event":"` + eventSealed + `"`)
	markRetired = []byte(`"event":"` + eventRetired + `"`)
	markEpoch   = []byte(`"event":"` + eventEpoch + `"`)
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
		s.args = bytes.HasPrefix(rest[end+1:], markArgs)
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

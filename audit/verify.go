package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
)

// VerifyStatus is the answer of Verify in one word.
type VerifyStatus string

// The answers, best first.
const (
	VerifyOK          VerifyStatus = "ok"              // intact, and an anchor outside covers every record
	VerifyNotAnchored VerifyStatus = "ok_not_anchored" // intact; a tail cut after AnchoredThrough could not be seen
	VerifyIncomplete  VerifyStatus = "incomplete"      // intact, but the oldest segments were retired
	VerifyTruncated   VerifyStatus = "truncated"       // records are missing at the end
	VerifyTampered    VerifyStatus = "tampered"        // something was altered, removed or damaged
)

// VerifyOptions adjust Verify. The zero value checks against the keys in the
// log's directory and Options.AnchorFile.
type VerifyOptions struct {
	// Keys are the note verifier keys to trust instead of those beside the log,
	// which whoever can alter the log can replace.
	Keys []string
	// Anchors are signed checkpoints kept elsewhere.
	Anchors [][]byte
}

// Report is what Verify found. AnchoredThrough is the last record that an
// anchor covers, -1 when there is none.
type Report struct {
	Status          VerifyStatus `json:"status"`
	Records         int64        `json:"records"`
	First           Seq          `json:"first"` // oldest record that is kept
	Root            string       `json:"root"`  // base64
	AnchoredThrough int64        `json:"anchored_through"`
	Retired         []Tombstone  `json:"retired,omitempty"` // tombstones in the records that are kept
	Problems        []Problem    `json:"problems"`          // never nil
}

// Problem is one thing that is not as it must be.
type Problem struct {
	Seq    Seq    `json:"seq"` // the record it was found at
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

// Verify reads every record, computes the tree anew and holds it against the
// stored hashes, the signed checkpoint of every segment and the anchors. It
// returns an error only when it could not look.
func (r *Reader) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	trusted := o.Keys
	if len(trusted) == 0 {
		trusted = r.publicKeys()
	}
	known, err := newKeyRing(trusted)
	if err != nil {
		return Report{}, fmt.Errorf("verify the audit log: read the keys to trust: %w", err)
	}
	v := &verification{reader: r, known: known, open: map[Seq]bool{}, sealed: map[Seq]sealedDetail{}, report: Report{AnchoredThrough: -1, Problems: []Problem{}}}
	kept, err := r.fileAnchors()
	if err != nil {
		return Report{}, fmt.Errorf("verify the audit log: %w", err)
	}
	v.takeAnchors(append(kept, o.Anchors...))
	segs, _ := r.segments()
	checks := r.checkFiles(ctx, segs)
	for i, seg := range segs {
		v.segment(ctx, seg, checks[i])
	}
	v.sealedFiles(segs, checks)
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("verify the audit log: %w", err)
	}
	return v.finish(), nil
}

// verification is the state of one Verify, as it walks from record to record.
type verification struct {
	reader  *Reader
	known   *keyRing
	epoch   *note.Verifier // the key that must sign from here on; nil: any known
	tree    tree
	begun   bool         // a segment was read
	broken  bool         // the tree could not be followed: a segment is unreadable
	open    map[Seq]bool // intents without outcome so far
	head    []byte       // how the segment before ended
	anchors []anchored   // by size
	sealed  map[Seq]sealedDetail
	left    unsealed
	args    int // records of the segment that tell of sealed arguments
	report  Report
	bad     VerifyStatus
}

const restore = "treat the log as evidence of an alteration: keep a copy, and compare with a backup or an export"

func (v *verification) problem(status VerifyStatus, seq Seq, format string, args ...any) {
	if v.bad != VerifyTampered {
		v.bad = status
	}
	if len(v.report.Problems) < 100 {
		v.report.Problems = append(v.report.Problems, Problem{seq, fmt.Sprintf(format, args...), restore})
	}
}

// anchored is a checkpoint from outside, signature unchecked.
type anchored struct {
	checkpoint
	signed []byte
}

// takeAnchors reads the anchors. Their signatures are checked when the walk
// comes to them: the key may be one that the log introduces on the way.
func (v *verification) takeAnchors(signed [][]byte) {
	for _, text := range signed {
		body, _, _ := strings.Cut(string(text), "\n\n")
		cp, err := parseCheckpoint(body + "\n")
		if err != nil {
			v.problem(VerifyTampered, 0, "an anchor is not a checkpoint: %v", err)
			continue
		}
		v.anchors = append(v.anchors, anchored{cp, text})
	}
	slices.SortStableFunc(v.anchors, func(a, b anchored) int { return int(a.size - b.size) })
}

// passAnchors holds the tree against the anchors of its size.
func (v *verification) passAnchors() {
	for len(v.anchors) > 0 && v.anchors[0].size <= v.tree.size {
		a := v.anchors[0]
		v.anchors = v.anchors[1:]
		if a.size < v.tree.size {
			continue // of records that were retired
		}
		last := Seq(max(a.size, 1) - 1)
		if _, err := v.openCheckpoint(a.signed); err != nil {
			v.problem(VerifyTampered, last, "an anchor of %d records does not verify: %v", a.size, err)
			continue
		}
		if v.tree.root() != a.root {
			v.problem(VerifyTampered, last, "the first %d records are not those that were anchored", a.size)
			continue
		}
		v.report.AnchoredThrough = max(v.report.AnchoredThrough, a.size-1)
	}
}

// openCheckpoint verifies a checkpoint of what was walked so far, which the key
// of its time must have signed.
func (v *verification) openCheckpoint(signed []byte) (checkpoint, error) {
	n, err := openNote(signed, v.known)
	if err != nil {
		return checkpoint{}, err
	}
	if v.epoch != nil && !slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return s.Hash == (*v.epoch).KeyHash() }) {
		return checkpoint{}, errors.New("check the signature: the key was replaced before that")
	}
	return parseCheckpoint(n.Text)
}

func (v *verification) segment(ctx context.Context, seg segment, check *fileCheck) {
	name := filepath.Base(seg.path)
	<-check.done
	if check.last && !check.live {
		v.closed(seg, check.digest)
	}
	if check.err != nil {
		v.problem(VerifyTampered, seg.first, "segment %s cannot be read: %v", name, check.err)
		v.broken = true
		return
	}
	err := v.reader.view(seg, func(tx *bbolt.Tx) error {
		s, err := readState(tx)
		if err != nil {
			return err
		}
		v.start(tx, seg, s)
		if err := v.records(ctx, tx, seg); err != nil {
			return err
		}
		v.end(seg, s, check.last && !check.live)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		v.problem(VerifyTampered, seg.first, "segment %s cannot be read: %v", name, err)
		v.broken = true
	}
}

// start holds a segment's header against the tree so far. After a gap it goes
// on from the segment's own signed start.
func (v *verification) start(tx *bbolt.Tx, seg segment, s segmentState) {
	first := !v.begun
	v.begun = true
	if s.header.First != seg.first {
		v.problem(VerifyTampered, seg.first, "segment %s says that it starts at %d", filepath.Base(seg.path), s.header.First)
	}
	cp, err := v.openCheckpoint([]byte(s.header.Previous))
	if err != nil {
		v.problem(VerifyTampered, seg.first, "the start of segment %s does not verify: %v", filepath.Base(seg.path), err)
	}
	switch {
	case first && seg.first > 0:
		v.report.First = seg.first
	case !first && v.tree.size != int64(seg.first) && !v.broken:
		v.problem(VerifyTampered, seg.first, "records %d to %d are missing: a segment was removed", v.tree.size, int64(seg.first)-1)
	case !first && !v.broken && !bytes.Equal(v.head, []byte(s.header.Previous)):
		v.problem(VerifyTampered, seg.first, "segment %s does not follow the one before it", filepath.Base(seg.path))
	}
	if v.tree.size != int64(seg.first) || v.broken {
		v.broken = false
		if v.tree, err = readTree(int64(seg.first), storedHashes{tx.Bucket(bucketHashes)}); err != nil {
			v.problem(VerifyTampered, seg.first, "segment %s: %v", filepath.Base(seg.path), err)
			v.broken = true
			return
		}
		for _, seq := range s.open {
			v.open[seq] = true
		}
		maps.DeleteFunc(v.open, func(s Seq, _ bool) bool { return s >= seg.first })
	}
	if cp.size != v.tree.size || cp.root != v.tree.root() {
		v.problem(VerifyTampered, seg.first, "the tree before segment %s is not the one it was started with", filepath.Base(seg.path))
	}
	v.passAnchors()
}

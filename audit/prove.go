package audit

import (
	"fmt"
	"sort"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
)

// Proof shows that a record is in a log whose checkpoint somebody trusts. The
// program in docs/audit-verify checks one without this package.
type Proof struct {
	Seq        Seq      `json:"seq"`
	Size       int64    `json:"size"`                 // of the checkpoint
	Record     string   `json:"record"`               // the stored bytes, which are the leaf
	Hashes     [][]byte `json:"hashes"`               // RFC 6962 audit path, leaf to root
	Checkpoint string   `json:"checkpoint,omitempty"` // signed note
	Keys       []string `json:"keys,omitempty"`       // verifier keys of the log, oldest first
}

// Prove makes the proof that record seq is in the log as it is now.
func (r *Reader) Prove(seq Seq) (Proof, error) {
	p, err := r.prove(seq)
	if err != nil {
		return Proof{}, fmt.Errorf("prove record %d: %w", seq, err)
	}
	return p, nil
}

func (r *Reader) prove(seq Seq) (Proof, error) {
	signed, err := r.Checkpoint()
	if err != nil {
		return Proof{}, err
	}
	cp, err := openCheckpoint(signed, r.known)
	if err != nil {
		return Proof{}, err
	}
	p, err := r.proveIn(cp, seq)
	p.Checkpoint, p.Keys = string(signed), r.publicKeys()
	return p, err
}

// proveIn is the proof that record seq is in the tree of cp, without cp.
func (r *Reader) proveIn(cp checkpoint, seq Seq) (Proof, error) {
	raw, err := r.raw(seq)
	if err != nil {
		return Proof{}, err
	}
	path, err := tlog.ProveRecord(cp.size, int64(seq), tlog.HashReaderFunc(r.readHashes))
	if err != nil {
		return Proof{}, err
	}
	if err := tlog.CheckRecord(path, cp.size, cp.root, int64(seq), tlog.RecordHash(raw)); err != nil {
		return Proof{}, fmt.Errorf("%w; run `sallyport audit verify`", err)
	}
	p := Proof{Seq: seq, Size: cp.size, Record: string(raw), Hashes: [][]byte{}}
	for _, h := range path {
		p.Hashes = append(p.Hashes, append([]byte(nil), h[:]...))
	}
	return p, nil
}

// readHashes reads stored hashes from whichever segments have them.
func (r *Reader) readHashes(indexes []int64) ([]tlog.Hash, error) {
	segs, _ := r.segments()
	bySegment := map[int][]int{}
	for at, x := range indexes {
		level, n := tlog.SplitStoredHashIndex(x)
		writer := Seq((n+1)<<level - 1) // the record that completed this subtree
		i := sort.Search(len(segs), func(i int) bool { return segs[i].first > writer }) - 1
		bySegment[max(i, 0)] = append(bySegment[max(i, 0)], at) // before the first: on its edge
	}
	out := make([]tlog.Hash, len(indexes))
	for i, ats := range bySegment {
		want := make([]int64, len(ats))
		for j, at := range ats {
			want[j] = indexes[at]
		}
		err := r.view(i, func(tx *bbolt.Tx) error {
			got, err := storedHashes{tx.Bucket(bucketHashes)}.ReadHashes(want)
			for j, h := range got {
				out[ats[j]] = h
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

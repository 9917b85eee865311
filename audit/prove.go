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
	return proveRaw(cp, seq, raw, tlog.HashReaderFunc(r.readHashes))
}

func proveRaw(cp checkpoint, seq Seq, raw []byte, hashes tlog.HashReader) (Proof, error) {
	path, err := tlog.ProveRecord(cp.size, int64(seq), hashes)
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

// manyHashes reads hashes for many proofs: what was read once is kept, and of
// hashes that are missing it reads the neighbours too, which the next proofs ask for.
type manyHashes struct {
	r    *Reader
	kept map[int64]tlog.Hash
}

// hashesKept bounds manyHashes.kept, to about 40 MB.
const hashesKept = 1 << 19

func (m *manyHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		h, ok := m.kept[x]
		if !ok {
			if len(m.kept) > hashesKept {
				clear(m.kept)
			}
			got, err := m.r.readHashes([]int64{x})
			if err != nil {
				return nil, err
			}
			h = got[0]
			m.kept[x] = h
			m.neighbours(x)
		}
		out[i] = h
	}
	return out, nil
}

// neighbours reads ahead in the segment that has index x.
func (m *manyHashes) neighbours(x int64) {
	segs, _ := m.r.segments()
	level, n := tlog.SplitStoredHashIndex(x)
	i := segmentOf(segs, Seq((n+1)<<level-1))
	_ = m.r.view(segs[i], func(tx *bbolt.Tx) error { // a failure shows where a hash is needed
		c := tx.Bucket(bucketHashes).Cursor()
		k, v := c.Seek(key(uint64(x)))
		for range 8192 {
			at, err := seqOf(k)
			if err != nil || len(v) != tlog.HashSize {
				return nil
			}
			m.kept[int64(at)] = tlog.Hash(v)
			k, v = c.Next()
		}
		return nil
	})
}

// segmentOf finds the segment that has or had a record; the first for any before.
func segmentOf(segs []segment, seq Seq) int {
	return max(sort.Search(len(segs), func(i int) bool { return segs[i].first > seq })-1, 0)
}

// readHashes reads stored hashes from whichever segments have them.
func (r *Reader) readHashes(indexes []int64) ([]tlog.Hash, error) {
	segs, _ := r.segments()
	bySegment := map[int][]int{}
	for at, x := range indexes {
		level, n := tlog.SplitStoredHashIndex(x)
		writer := Seq((n+1)<<level - 1) // the record that completed this subtree
		i := segmentOf(segs, writer)    // before the first: on its edge
		bySegment[i] = append(bySegment[i], at)
	}
	out := make([]tlog.Hash, len(indexes))
	for i, ats := range bySegment {
		want := make([]int64, len(ats))
		for j, at := range ats {
			want[j] = indexes[at]
		}
		err := r.view(segs[i], func(tx *bbolt.Tx) error {
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

package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// eventSealed tells the digest of a full segment's file. With it verify sees
// also what no record covers, down to unused bytes of a page.
const eventSealed = "segment.sealed"

// sealedDetail is the Detail of an eventSealed.
type sealedDetail struct {
	Segment string `json:"segment"` // file name
	First   Seq    `json:"first"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	// Was and WasBytes are of the file before it was compacted: after a crash it may
	// still be there.
	Was      string `json:"was,omitempty"`
	WasBytes int64  `json:"was_bytes,omitempty"`
}

// sealer digests full segments beside the commits. What is left to do stands in
// the newest segment's meta bucket, so that a crash forgets none.
type sealer struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	one    sync.Mutex // one segment at a time
	start  sync.Mutex // nothing starts once stop was called
}

func newSealer() *sealer {
	s := &sealer{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// stop ends the work that is under way and waits for it.
func (s *sealer) stop() {
	s.start.Lock()
	s.cancel()
	s.start.Unlock()
	s.work.Wait()
}

// begin runs fn beside everything else, unless stop was called.
func (s *sealer) begin(fn func()) {
	s.start.Lock()
	defer s.start.Unlock()
	if s.ctx.Err() == nil {
		s.work.Go(fn)
	}
}

// startSeal seals the segment that begins at first.
func (l *Log) startSeal(first Seq) {
	l.sealer.begin(func() {
		l.sealer.one.Lock()
		defer l.sealer.one.Unlock()
		err := l.seal(first)
		if err == nil {
			_, err = l.Retire(l.sealer.ctx)
		}
		if err != nil && l.sealer.ctx.Err() == nil {
			l.opt.Logger.Warn("seal a full segment of the audit log; the next start tries again", "first", first, "err", err)
		}
	})
}

func (l *Log) seal(first Seq) error {
	path := segmentPath(l.dir, first)
	if err := trimSegment(path); err != nil {
		return err
	}
	if !l.opt.keepLoose {
		seg := segment{first, path}
		made, err := compactSegment(l.sealer.ctx, seg, &l.opt)
		if err == nil && made != "" {
			err = l.replaceSegment(seg, made)
		}
		if err != nil {
			return fmt.Errorf("compact it: %w", err)
		}
	}
	d := sealedDetail{Segment: filepath.Base(path), First: first}
	var err error
	if d.SHA256, d.Bytes, err = digestFile(l.sealer.ctx, path); err != nil {
		return err
	}
	detail, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := l.indexSegment(l.sealer.ctx, first); err != nil {
		return err
	}
	_, err = l.append(l.sealer.ctx, Record{Kind: KindEvent, Event: eventSealed, Detail: detail}, func(w *waiter) { w.sealed = &first })
	return err
}

// trimSegment gives back what bbolt reserved beyond a closed segment's last page.
func trimSegment(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end := int64(0)
	for i := range int64(2) {
		m, err := readMetaPage(f, i)
		if err != nil {
			return err
		}
		end = max(end, m.end)
	}
	if st, err := f.Stat(); err != nil || st.Size() <= end {
		return err
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	return f.Sync()
}

// digestFile is the SHA-256 of a file in hex, and its size.
func digestFile(ctx context.Context, path string) (string, int64, error) {
	var sum string
	var size int64
	err := mapped(path, func(b []byte) (err error) {
		sum, err = digestBytes(ctx, b)
		size = int64(len(b))
		return err
	})
	return sum, size, err
}

// digestBytes is the SHA-256 of bytes in hex.
func digestBytes(ctx context.Context, b []byte) (string, error) {
	h := sha256.New()
	for part := range slices.Chunk(b, 4<<20) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unsealed are the segments whose digest is still to be recorded, as the value
// of keyUnsealed: first numbers, eight bytes each.
type unsealed []Seq

func parseUnsealed(text []byte) (unsealed, error) {
	var u unsealed
	for v := range slices.Chunk(text, 8) {
		seq, err := seqOf(v)
		if err != nil {
			return nil, fmt.Errorf("read which segments are to be sealed: %w", err)
		}
		u = append(u, seq)
	}
	return u, nil
}

func (u unsealed) write(tx *bbolt.Tx) error {
	var v []byte
	for _, seq := range u {
		v = append(v, key(uint64(seq))...)
	}
	return tx.Bucket(bucketMeta).Put(keyUnsealed, v)
}

func (u unsealed) without(first Seq) unsealed {
	return slices.DeleteFunc(slices.Clone(u), func(s Seq) bool { return s == first })
}

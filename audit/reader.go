package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Reader reads a log. A Log is one too. Its methods may be called concurrently.
type Reader struct {
	keys
	dir   string
	opt   Options
	exact *knownSecrets

	mu    sync.RWMutex
	segs  []segment
	live  *bbolt.DB // the newest segment while a Log is open
	size  Seq       // records that may be read
	tails tails

	indexes indexes
	checked sync.Map // Seq of a segment -> error or nil: what checkPages said
}

func (r *Reader) init(dir string, o Options, k keys) {
	r.dir, r.opt, r.keys = dir, o, k
	r.exact = newKnownSecrets(o.Secrets)
	r.tails.cond.L = &r.tails.mu
}

// OpenReadOnly opens the log in dir for reading while nobody serves; while
// somebody does it returns ErrLocked. It sees the log as it is now and does not
// keep a sallyport from starting. There is nothing to close.
func OpenReadOnly(dir string, o Options) (*Reader, error) {
	held, err := lockHeld(dir)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if held {
		return nil, fmt.Errorf("open the audit log: %w", ErrLocked)
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	k, err := loadPublicKeys(dir)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	r := &Reader{}
	r.init(dir, o.withDefaults(), k)
	if r.segs, err = listSegments(dir); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	// A damaged newest segment leaves the size unknown, which is for Verify to
	// tell; what can be read can still be shown.
	if len(r.segs) > 0 {
		_ = r.view(r.segs[len(r.segs)-1], func(tx *bbolt.Tx) error {
			s, err := readState(tx)
			if err != nil {
				return err
			}
			cp, err := openCheckpoint(s.head, r.keys.known)
			r.size = Seq(cp.size)
			return err
		})
	}
	return r, nil
}

// segments is a snapshot of the list and the number of readable records.
func (r *Reader) segments() ([]segment, Seq) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.segs, r.size
}

// view runs fn over a segment. It is named by itself and not by its place in the
// list, from whose front segments are retired.
func (r *Reader) view(seg segment, fn func(*bbolt.Tx) error) error {
	r.mu.RLock()
	live := r.live
	if len(r.segs) == 0 || r.segs[len(r.segs)-1].first != seg.first {
		live = nil
	}
	r.mu.RUnlock()
	if live != nil {
		err := guarded(func() error { return live.View(fn) })
		if !errors.Is(err, berrors.ErrDatabaseNotOpen) {
			return err
		}
	}
	if err := r.checkOnce(seg); err != nil {
		return fmt.Errorf("read the log's segment %s: %w; run `sallyport audit verify`", filepath.Base(seg.path), err)
	}
	return viewSegment(seg, &r.opt, fn)
}

// checkOnce looks at a closed segment's pages before bbolt first opens it.
func (r *Reader) checkOnce(seg segment) error {
	if err, ok := r.checked.Load(seg.first); ok {
		if err == nil {
			return nil
		}
		return err.(error)
	}
	err := checkPages(seg.path)
	r.checked.Store(seg.first, err)
	return err
}

// Get returns the record with number seq.
func (r *Reader) Get(seq Seq) (Record, error) {
	raw, err := r.raw(seq)
	if err != nil {
		return Record{}, fmt.Errorf("get record %d: %w", seq, err)
	}
	return Decode(raw)
}

// ErrNoRecord means that a record is not in the log, or no longer.
var ErrNoRecord = errors.New("the audit log has no such record")

// raw returns the stored bytes of a record: the bytes that its leaf hashes.
func (r *Reader) raw(seq Seq) ([]byte, error) {
	var raw []byte
	err := r.viewAt(seq, func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		if b == nil {
			return errNoBuckets
		}
		raw = slices.Clone(b.Get(key(uint64(seq))))
		return nil
	})
	if err == nil && raw == nil {
		err = ErrNoRecord
	}
	return raw, err
}

// viewAt runs fn over the segment that a record is in.
func (r *Reader) viewAt(seq Seq, fn func(*bbolt.Tx) error) error {
	segs, size := r.segments()
	i := sort.Search(len(segs), func(i int) bool { return segs[i].first > seq }) - 1
	if i < 0 || seq >= size {
		return ErrNoRecord
	}
	return r.view(segs[i], fn)
}

// publish makes the records below size readable.
func (r *Reader) publish(size Seq) {
	r.mu.Lock()
	r.size = size
	r.mu.Unlock()
	r.tails.announce(size)
}

// tails wakes those who follow the log.
type tails struct {
	mu     sync.Mutex
	cond   sync.Cond
	size   Seq
	closed bool
}

func (t *tails) announce(size Seq) {
	t.mu.Lock()
	t.size = size
	t.mu.Unlock()
	t.cond.Broadcast()
}

func (t *tails) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cond.Broadcast()
}

// wait returns the size once it is above seq; false when the log closed or ctx
// ended.
func (t *tails) wait(ctx context.Context, seq Seq) bool {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.cond.Broadcast()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.size <= seq && !t.closed && ctx.Err() == nil {
		t.cond.Wait()
	}
	return t.size > seq && ctx.Err() == nil
}

// Wait returns true once record number seq is stored, and false when ctx ended or
// the log closed.
func (l *Log) Wait(ctx context.Context, seq Seq) bool {
	if _, size := l.segments(); seq < size {
		return true
	}
	return l.tails.wait(ctx, seq)
}

// Tail calls fn with every record from number from on, those to come included,
// until fn returns false, ctx ends or the log closes. It returns ctx's error or
// that of reading.
func (l *Log) Tail(ctx context.Context, from Seq, fn func(Record) bool) error {
	for next := from; ; {
		if _, size := l.segments(); next >= size {
			if !l.tails.wait(ctx, next) {
				return ctx.Err()
			}
		}
		stop := false
		err := l.Select(ctx, Filter{From: next}, func(rec Record) bool {
			next = rec.Seq + 1
			stop = !fn(rec)
			return !stop
		})
		if err != nil || stop {
			return err
		}
	}
}

// isNewest reports whether a segment is the newest.
func (r *Reader) isNewest(seg segment) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.segs) > 0 && r.segs[len(r.segs)-1].first == seg.first
}

// isRetired reports whether a segment is no longer in the list.
func (r *Reader) isRetired(seg segment) bool {
	segs, _ := r.segments()
	return !slices.ContainsFunc(segs, func(s segment) bool { return s.first == seg.first })
}

// isLive reports whether the newest segment is being written by this process.
func (r *Reader) isLive() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.live != nil
}

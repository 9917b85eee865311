package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// batchMost bounds the records of one commit, so that one commit stays short.
const batchMost = 512

// waiter is one record on its way into the log.
type waiter struct {
	body   []byte
	kind   Kind
	intent *Seq
	args   []byte      // sealed, beside the record
	sealed *Seq        // the segment whose digest this record tells
	signer note.Signer // the key that this record introduces
	seq    Seq
	err    error
	// identity is what an outcome takes over from this intent.
	identity *Record
	wake     chan bool // true: lead the next commit; false: done
}

// queue gathers records while a commit runs. The first to find no leader leads;
// when its commit is done it hands the lead to the first that waits. Nobody
// waits for time to pass, and nobody leads twice for one record.
type queue struct {
	mu      sync.Mutex
	waiting []*waiter
	led     bool
	closed  bool
	idle    sync.Cond
}

// join enters w and reports whether its caller must lead.
func (q *queue) join(w *waiter) (lead bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	q.waiting = append(q.waiting, w)
	lead = !q.led
	q.led = true
	return lead, nil
}

// take removes the records of the next commit.
func (q *queue) take() []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), batchMost)
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return batch
}

// pass hands the lead on.
func (q *queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		q.waiting[0].wake <- true
		return
	}
	q.led = false
	if q.closed {
		q.idle.Broadcast()
	}
}

// close refuses new records and waits for those that are in. It reports whether
// it was the first to close.
func (q *queue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	q.idle.L = &q.mu
	for q.led {
		q.idle.Wait()
	}
	return true
}

// Append redacts r, gives it a place and stores it. It returns once the record
// is on the disk together with a signed checkpoint that covers it. An outcome
// must name an open intent, and takes who, where and what from it where its own
// fields are empty. Once the record has entered, an ended ctx no longer
// takes it back; a caller that must record an outcome passes a ctx that lives.
func (l *Log) Append(ctx context.Context, r Record) (Seq, error) {
	return l.append(ctx, r, nil)
}

func (l *Log) append(ctx context.Context, r Record, with func(*waiter)) (Seq, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("append to the audit log: %w", err)
	}
	var args []byte
	if with == nil { // what the log says itself has keys and digests that look like secrets
		if ownEvent(r.Event) {
			return 0, fmt.Errorf("append to the audit log: the event %q is the log's own", r.Event)
		}
		raw := r.Args
		r.SealedArgs = ""
		l.redactRecord(&r)
		var err error
		if args, err = l.sealArgs(raw, &r); err != nil {
			return 0, fmt.Errorf("append to the audit log: %w", err)
		}
	}
	l.calls.complete(&r)
	w, err := prepare(r)
	if err != nil {
		return 0, fmt.Errorf("append to the audit log: %w", err)
	}
	w.args = args
	if with != nil {
		with(w)
	}
	lead, err := l.queue.join(w)
	if err != nil {
		return 0, err
	}
	if !lead {
		if lead = <-w.wake; lead {
			runtime.Gosched() // those whose record was just stored may have the next one ready
		}
	}
	if lead {
		l.lead()
	}
	if w.err != nil {
		return 0, fmt.Errorf("append to the audit log: %w", w.err)
	}
	return w.seq, nil
}

// ownEvent reports whether verify acts on an event, so that only the log itself
// may tell of it.
func ownEvent(event string) bool {
	return event == eventSealed || event == eventEpoch || event == eventRetired
}

// prepare does what needs no place in the log: it checks and encodes.
func prepare(r Record) (*waiter, error) {
	switch r.Kind {
	case KindCall, KindIntent, KindEvent:
	case KindOutcome:
		if r.Intent == nil {
			return nil, errors.New("an outcome must name its intent")
		}
	default:
		return nil, fmt.Errorf("kind %q is unknown", r.Kind)
	}
	body, err := encodeBody(&r)
	if err != nil {
		return nil, err
	}
	w := &waiter{body: body, kind: r.Kind, intent: r.Intent, wake: make(chan bool, 1)}
	if r.Kind == KindIntent {
		w.identity = identityOf(&r)
	}
	return w, nil
}

// appendAll stores records in one commit. It goes round the queue, so it is for
// Open alone, before anybody else (the sealer too) can append.
func (l *Log) appendAll(records []Record) error {
	var batch []*waiter
	for _, r := range records {
		l.redactRecord(&r)
		w, err := prepare(r)
		if err != nil {
			return err
		}
		batch = append(batch, w)
	}
	l.commit(batch)
	for _, w := range batch {
		if w.err != nil {
			return w.err
		}
	}
	return nil
}

// lead commits what waits, the caller's record first, and hands the lead on.
func (l *Log) lead() {
	batch := l.queue.take()
	l.commit(batch)
	for _, w := range batch[1:] {
		w.wake <- false
	}
	l.queue.pass()
}

// commit stores a batch, or marks every record of it with the error.
func (l *Log) commit(batch []*waiter) {
	if l.stopped != nil {
		refuse(batch, l.stopped)
		return
	}
	batch = l.admit(batch)
	if len(batch) == 0 {
		return
	}
	err := l.store(batch)
	if noSpace(err) && l.space.release() {
		l.opt.Logger.Error("the disk of the audit log is full: only outcomes are taken", "dir", l.dir)
		batch = l.admit(batch) // leaves only what the ballast is for
		if len(batch) == 0 {
			return
		}
		err = l.store(batch)
	}
	switch {
	case err == nil:
	case noSpace(err):
		refuse(batch, fmt.Errorf("%w: %w", ErrFull, err))
	default:
		l.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
		l.opt.Logger.Error("the audit log stops: a write failed", "dir", l.dir, "err", err)
		refuse(batch, l.stopped)
	}
}

func refuse(batch []*waiter, err error) {
	for _, w := range batch {
		w.err = err
	}
}

// noSpace reports whether err is a data write that found the disk full. Such a
// commit left no trace. A failed sync is another thing: then nobody knows what
// is on the disk, and bbolt returns the bare errno of fdatasync.
func noSpace(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && write.Op == "write" &&
		(errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// admit keeps the records that may be stored and marks the others: outcomes
// without an open intent, and new calls while the disk is full.
func (l *Log) admit(batch []*waiter) []*waiter {
	full := l.space.full()
	closing := map[Seq]bool{}
	var kept []*waiter
	for _, w := range batch {
		switch {
		case w.kind == KindOutcome:
			if _, open := l.pending[*w.intent]; !open || closing[*w.intent] {
				w.err = fmt.Errorf("the outcome names intent %d, which is not open", *w.intent)
				continue
			}
			closing[*w.intent] = true
		case full && (w.kind == KindIntent || w.kind == KindCall):
			w.err = ErrFull
			continue
		}
		kept = append(kept, w)
	}
	return kept
}

// store writes a batch in one transaction: records, tree, open intents and the
// signed checkpoint. On an error nothing of it counts.
func (l *Log) store(batch []*waiter) error {
	t := l.tree
	raws := make([][]byte, len(batch))
	now := l.opt.Now()
	for i, w := range batch {
		w.seq = Seq(l.tree.size) + Seq(i)
		raws[i] = encodeStored(stamp{w.seq, now, now.Sub(l.start), l.boot}, w.body)
	}
	var head []byte
	err := guarded(func() error {
		return l.db.Update(func(tx *bbolt.Tx) (err error) {
			head, err = l.fill(tx, &t, raws, batch)
			return err
		})
	})
	if err != nil {
		return err
	}
	l.tree, l.head = t, head
	for i, w := range batch {
		l.bytes += int64(len(raws[i])+len(w.args)) + 100 // tree and page overhead, measured
		switch w.kind {
		case KindIntent:
			l.pending[w.seq] = struct{}{}
			l.calls.begin(w.seq, w.identity)
		case KindOutcome:
			delete(l.pending, *w.intent)
			l.calls.end(*w.intent)
		}
		if w.sealed != nil {
			l.unsealed = l.unsealed.without(*w.sealed)
		}
		if w.signer != nil {
			l.keys.signer = w.signer
		}
	}
	l.publish(Seq(t.size))
	l.anchoring.note(t.size, head)
	l.turn()
	return nil
}

func (l *Log) fill(tx *bbolt.Tx, t *tree, raws [][]byte, batch []*waiter) ([]byte, error) {
	if !l.space.low {
		l.ahead.reserve(tx.Size())
	}
	records, hashes, open := tx.Bucket(bucketRecords), tx.Bucket(bucketHashes), tx.Bucket(bucketOpen)
	records.FillPercent, hashes.FillPercent = 1, 1 // keys only grow
	var added []tlog.Hash
	for i, w := range batch {
		next := uint64(t.size)
		at := uint64(tlog.StoredHashIndex(0, t.size))
		added = t.add(tlog.RecordHash(raws[i]), added[:0])
		if err := records.Put(key(next), raws[i]); err != nil {
			return nil, err
		}
		for j, h := range added {
			if err := hashes.Put(key(at+uint64(j)), bytes.Clone(h[:])); err != nil {
				return nil, err
			}
		}
		var err error
		switch w.kind {
		case KindIntent:
			err = open.Put(key(next), nil)
		case KindOutcome:
			err = open.Delete(key(uint64(*w.intent)))
		}
		if w.args != nil && err == nil {
			err = putArgs(tx, next, w.args)
		}
		if w.sealed != nil && err == nil {
			err = l.unsealed.without(*w.sealed).write(tx)
		}
		if err != nil {
			return nil, err
		}
	}
	signers := []note.Signer{l.keys.signer}
	for _, w := range batch {
		if w.signer != nil {
			signers = append(signers, w.signer) // a new key starts signed by the old
		}
	}
	head, err := checkpoint{l.keys.origin, t.size, t.root()}.sign(signers...)
	if err != nil {
		return nil, err
	}
	return head, tx.Bucket(bucketMeta).Put(keyHead, head)
}

// turn starts a new segment when the newest is large or old enough. When that
// fails the old one goes on, and the next commit tries again.
func (l *Log) turn() {
	if l.bytes < l.opt.SegmentBytes && l.opt.Now().Sub(l.born) < l.opt.SegmentAge {
		return
	}
	segs, _ := l.segments()
	old, first := l.db, segs[len(segs)-1].first
	next, err := l.prepareSegment(append(slices.Clip(l.unsealed), first))
	if err != nil {
		l.opt.Logger.Warn("the audit log could not start a segment and keeps the old one", "err", err)
		return
	}
	// Readers learn of the next segment when the old file has come to rest.
	err = old.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keySealed, sealedMark) })
	if cerr := old.Close(); err == nil {
		err = cerr
	}
	l.adopt(next)
	if err != nil {
		l.opt.Logger.Warn("close a full segment of the audit log", "err", err)
		return
	}
	l.startSeal(first)
}

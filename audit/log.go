package audit

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"filippo.io/age"
	"go.etcd.io/bbolt"
)

// Options adjust a log. The zero value is the default of every field.
type Options struct {
	Now          func() time.Time // time.Now; may be called concurrently
	SegmentBytes int64            // stored bytes that end a segment; 64 MiB
	SegmentAge   time.Duration    // age that ends a segment; 24 h
	Retain       time.Duration    // how long Retire keeps records; 190 days
	Secrets      []string         // exact values that are never stored
	// SealTo are the keys that redacted arguments are also kept encrypted to; see
	// ParseRecipients. None: what was redacted is gone.
	SealTo []age.Recipient
	// MinFree refuses new calls while the disk has fewer free bytes; 32 MiB, and
	// negative for no limit. Four times as much free space is worth a warning.
	MinFree int64
	// Ballast is the size of a file that is given up on a full disk, so that
	// outcomes of running calls can still be written; 4 MiB, negative for none.
	Ballast int64
	// State tells the hex SHA-256 of a file beneath a workspace, "" when it is
	// absent. It is asked at recovery for the files an open intent named.
	State  func(workspace, path string) (string, error)
	Logger *slog.Logger // slog.Default

	// Anchors keep checkpoints outside of the log, AnchorFile in a file: after
	// AnchorEvery records (1000), after AnchorAfter (1 min) and at Close.
	Anchors     []Anchor
	AnchorFile  string
	AnchorEvery int
	AnchorAfter time.Duration

	anchorTime time.Duration                                    // for tests
	pageSize   int                                              // of segments, bytes; for tests
	keepLoose  bool                                             // segments are not compacted; for tests
	openFile   func(string, int, os.FileMode) (*os.File, error) // for tests
}

func (o Options) withDefaults() Options {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.SegmentBytes, 64<<20)
	def((*int64)(&o.SegmentAge), int64(24*time.Hour))
	def((*int64)(&o.Retain), int64(190*24*time.Hour))
	def(&o.MinFree, 32<<20)
	def(&o.Ballast, 4<<20)
	def((*int64)(&o.AnchorAfter), int64(time.Minute))
	def((*int64)(&o.anchorTime), int64(anchorTime))
	if o.AnchorEvery <= 0 {
		o.AnchorEvery = 1000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Errors that callers tell apart.
var (
	// ErrLocked means that another process has the log open.
	ErrLocked = errors.New("the audit log is in use by another sallyport; ask that one through its control socket")
	// ErrFull means that the disk has no room for a new call; outcomes of calls
	// already begun are still taken.
	ErrFull = errors.New("the disk of the audit log is full; free space there, nothing was run")
	// ErrStopped means that the log saw a write go wrong and takes no more
	// records, since what is on the disk is no longer known.
	ErrStopped = errors.New("the audit log stopped after a failed write; restart sallyport and run `sallyport audit verify`")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("the audit log is closed")
)

// Log is the open, writable log. Its methods may be called concurrently.
type Log struct {
	Reader
	unlock io.Closer
	boot   string
	start  time.Time

	queue queue
	calls running

	// What follows belongs to whoever leads a commit.
	db      *bbolt.DB
	tree    tree
	head    []byte // signed checkpoint of tree
	pending map[Seq]struct{}
	born    time.Time // of the newest segment
	bytes   int64     // stored in the newest segment
	stopped error
	space   space
	ahead   ahead

	unsealed  unsealed
	sealer    *sealer
	anchoring *anchoring
	rotating  sync.Mutex
}

// Open opens the log in dir for writing, making it when there is none. One
// process can have it; for any other Open returns ErrLocked at once. Calls that
// were running when the log was last closed without their outcome are closed as
// StatusInterrupted, and a "start" event is written.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l, err := open(dir, o)
	if err != nil {
		_ = unlock.Close()
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l.unlock = unlock
	l.anchoring.run(&l.opt)
	if err := l.recover(); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return l, nil
}

func open(dir string, o Options) (*Log, error) {
	k, err := loadKeys(dir)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails (crypto/rand)
	l := &Log{boot: hex.EncodeToString(id), start: o.Now(), pending: map[Seq]struct{}{}, sealer: newSealer()}
	l.Reader.init(dir, o, k)
	l.space = newSpace(dir, &l.opt)
	l.anchoring = newAnchoring(&l.opt)
	if err := forgetClosed(dir); err != nil {
		return nil, err
	}
	if err := forgetCompacted(dir); err != nil {
		return nil, err
	}
	if l.segs, err = listSegments(dir); err != nil {
		return nil, err
	}
	if len(l.segs) == 0 {
		err = l.found()
	} else {
		err = l.resume()
	}
	if err != nil {
		return nil, err
	}
	l.live, l.size = l.db, Seq(l.tree.size)
	return l, nil
}

// found makes the first segment of a new log.
func (l *Log) found() error {
	next, err := l.prepareSegment(nil)
	if err != nil {
		return err
	}
	l.adopt(next)
	return nil
}

// nextSegment is one that is made and not yet written to.
type nextSegment struct {
	segment
	db *bbolt.DB
	carried
}

// prepareSegment makes the segment that starts where the log ends.
func (l *Log) prepareSegment(left unsealed) (nextSegment, error) {
	previous := l.head // so that the checkpoint after a new key keeps both signatures
	if previous == nil {
		var err error
		if previous, err = (checkpoint{l.keys.origin, l.tree.size, l.tree.root()}).sign(l.keys.signer); err != nil {
			return nextSegment{}, err
		}
	}
	c := carried{&l.tree, previous, slices.Sorted(maps.Keys(l.pending)), left}
	db, seg, err := createSegment(l.dir, &l.opt, c)
	return nextSegment{seg, db, c}, err
}

// adopt makes a segment the one that is written to.
func (l *Log) adopt(n nextSegment) {
	l.db, l.head, l.born, l.bytes, l.unsealed = n.db, n.previous, l.opt.Now(), 0, n.unsealed
	l.writeAhead(n.segment)
	l.mu.Lock()
	l.segs = append(slices.Clip(l.segs), n.segment)
	l.live = n.db
	l.mu.Unlock()
}

// resume opens the newest segment and takes up the tree where it ends.
func (l *Log) resume() error {
	seg := l.segs[len(l.segs)-1]
	if err := checkPages(seg.path); err != nil {
		return fmt.Errorf("the newest segment %s is damaged: %w; run `sallyport audit verify`, and restore it from a backup", filepath.Base(seg.path), err)
	}
	db, err := openSegment(seg.path, l.opt.boltOptions())
	if err != nil {
		return err
	}
	err = guarded(func() error { return db.View(func(tx *bbolt.Tx) error { return l.takeUp(tx, seg) }) })
	if err != nil {
		_ = db.Close()
		return fmt.Errorf("%w; run `sallyport audit verify`", err)
	}
	l.db = db
	l.writeAhead(seg)
	return nil
}

// writeAhead begins to keep room in a segment. It is only for speed, so that a
// failure is none.
func (l *Log) writeAhead(seg segment) {
	l.ahead.close()
	var end int64
	err := l.db.View(func(tx *bbolt.Tx) error {
		end = tx.Size()
		return nil
	})
	if err == nil {
		err = l.ahead.open(seg.path, end)
	}
	if err != nil {
		l.opt.Logger.Warn("the audit log's segment gets no room ahead", "err", err)
	}
}

func (l *Log) takeUp(tx *bbolt.Tx, seg segment) error {
	s, err := readState(tx)
	if err != nil {
		return err
	}
	cp, err := openCheckpoint(s.head, l.keys.known)
	if err != nil {
		return err
	}
	if l.tree, err = resume(tx, cp); err != nil {
		return err
	}
	if err := l.settleKey(s.head); err != nil {
		return err
	}
	if s.header.First != seg.first || int64(seg.first) > cp.size {
		return errors.New("the newest segment is not the one its name says")
	}
	l.head, l.unsealed = s.head, s.left
	for _, seq := range s.open {
		l.pending[seq] = struct{}{}
	}
	l.born = l.opt.Now()
	c := tx.Bucket(bucketRecords).Cursor()
	if _, first := c.First(); first != nil {
		if r, err := Decode(first); err == nil {
			l.born = r.Time
		}
	}
	l.bytes = int64(tx.Bucket(bucketRecords).Stats().LeafInuse)
	return nil
}

// recover closes the calls whose outcome is missing and writes the start event,
// all in one commit.
func (l *Log) recover() error {
	left := l.unsealed
	open := slices.Sorted(maps.Keys(l.pending))
	var records []Record
	for _, seq := range open {
		intent, err := l.Get(seq)
		if err != nil {
			return fmt.Errorf("close the interrupted call %d: %w", seq, err)
		}
		records = append(records, l.interrupted(intent))
	}
	detail, err := json.Marshal(map[string]any{"interrupted": len(open), "pid": os.Getpid()})
	if err != nil {
		return err
	}
	records = append(records, Record{Kind: KindEvent, Event: "start", Detail: detail})
	if err := l.appendAll(records); err != nil {
		return fmt.Errorf("close %d interrupted calls: %w", len(open), err)
	}
	for _, first := range left {
		l.startSeal(first)
	}
	// The newest segment's index is made now, so that the first ByKey need not
	// wait for it. A failure shows in the search that needs it.
	l.sealer.begin(func() { _, _ = l.ByKey(l.sealer.ctx, l.boot, "none") })
	return nil
}

// Close waits for running commits and closes the log. Appends after it fail
// with ErrClosed.
func (l *Log) Close() error {
	l.sealer.stop()
	if !l.queue.close() {
		return nil
	}
	l.mu.Lock()
	l.live = nil
	l.mu.Unlock()
	l.tails.close()
	l.ahead.close()
	err := l.db.Close()
	if err == nil && l.stopped == nil {
		segs, _ := l.segments()
		err = l.leaveClosed(segs[len(segs)-1].path)
	}
	if aerr := l.anchoring.close(); err == nil {
		err = aerr
	}
	if l.unlock != nil {
		if uerr := l.unlock.Close(); err == nil {
			err = uerr
		}
	}
	if err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}

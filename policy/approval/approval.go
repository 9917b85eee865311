// Package approval is the desk where calls wait for a person. A request is
// bound to a digest of everything the person decides on, is used at most once,
// expires, and survives a restart. Grants let one decision cover more than one
// call; a freeze stops everything.
//
// Every change of state is an Event. It is handed to Options.Record before it
// takes effect: what cannot be recorded does not happen.
package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// The defaults of Options.
const (
	DefaultTTL         = 30 * time.Minute
	DefaultApprovedTTL = 10 * time.Minute
	DefaultDeniedFor   = 10 * time.Minute
	DefaultGrantTTL    = 8 * time.Hour
	DefaultKeep        = 30 * 24 * time.Hour
	DefaultFade        = 24 * time.Hour
	DefaultMaxPending  = 100
	DefaultMaxBatch    = 20
)

// The sentinels that errors of this package wrap; the text of the error says
// what to do.
var (
	ErrNotFound = errors.New("no such request or grant")
	ErrRefused  = errors.New("this person may not decide it")
	ErrDecided  = errors.New("not open any more")
	ErrInvalid  = errors.New("not a valid request to the desk")
)

// Options configure a desk. The zero value is a working desk that records
// nothing outside its own file.
type Options struct {
	Now  func() time.Time // nil: time.Now
	Rand io.Reader        // source of ids; nil: crypto/rand

	TTL         time.Duration // how long a request waits for a person
	ApprovedTTL time.Duration // how long an approval waits to be used
	DeniedFor   time.Duration // how long an identical call is answered with an earlier denial
	GrantTTL    time.Duration // end of a grant that names none
	Keep        time.Duration // how long ended requests and grants are kept
	Fade        time.Duration // how long the arguments, texts and diffs of ended requests are kept
	MaxPending  int           // open requests one session may have
	MaxBatch    int           // calls one batch may announce

	// OtherUser refuses a decision by the very user the agent runs as. It is
	// for hosts where agents and people have different accounts.
	OtherUser bool
	// Role, when set, is held by everybody who decides. A caller gives it to the
	// members of a group, or to whoever the configuration names.
	Role string
	// GrantL3 permits grants that cover L3. It comes from the administrator's
	// policy, never from a request.
	GrantL3 bool

	// Redact replaces secrets in a text before the desk keeps it; nil leaves texts
	// as they are. Digests are of what was asked, not of what is kept.
	Redact func(string) string

	// Record is called with each event before it takes effect and while the
	// desk is locked: it MUST return once the event is durable, and MUST NOT
	// call the desk. An error refuses the decision.
	Record func(Event) error
}

// Desk holds requests, grants and freezes. Its methods may be called
// concurrently.
type Desk struct {
	o  Options
	db *bbolt.DB

	writing sync.Mutex // one change at a time, so that events leave in order
	frozen  atomic.Pointer[[]Freezing]
	freeze  sync.Mutex // changes of frozen

	mu      sync.Mutex
	subs    map[*subscriber]struct{}
	waiters map[string][]chan struct{}

	crash func(point string) // set by tests: dies at a named point
}

// Open opens the desk kept in the file at path, creating it with mode 0600. The
// file belongs to one desk: while another holds it, Open fails after a moment.
// Requests that were in use when the last desk ended become StateUnknown.
func Open(path string, o Options) (*Desk, error) {
	o = o.withDefaults()
	_, statErr := os.Stat(path)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, bbolt.ErrTimeout) {
		return nil, fmt.Errorf("open the approvals desk %s: another sallyport holds it; talk to that one through its control socket", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the approvals desk %s: %w", path, err)
	}
	d := &Desk{
		o: o, db: db,
		subs:    map[*subscriber]struct{}{},
		waiters: map[string][]chan struct{}{},
		crash:   func(string) {},
	}
	if err := d.start(path, os.IsNotExist(statErr)); err != nil {
		return nil, errors.Join(fmt.Errorf("open the approvals desk %s: %w", path, err), db.Close())
	}
	return d, nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Record == nil {
		o.Record = func(Event) error { return nil }
	}
	for _, f := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.TTL, DefaultTTL}, {&o.ApprovedTTL, DefaultApprovedTTL}, {&o.DeniedFor, DefaultDeniedFor},
		{&o.GrantTTL, DefaultGrantTTL}, {&o.Keep, DefaultKeep}, {&o.Fade, DefaultFade},
	} {
		if *f.v <= 0 {
			*f.v = f.def
		}
	}
	if o.MaxPending <= 0 {
		o.MaxPending = DefaultMaxPending
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = DefaultMaxBatch
	}
	return o
}

// start makes the buckets, loads the freezes and marks what was in use.
func (d *Desk) start(path string, created bool) error {
	err := d.db.Update(func(t *bbolt.Tx) error {
		for _, b := range buckets {
			if _, err := t.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return checkVersion(t)
	})
	if err != nil {
		return err
	}
	if created {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := d.loadFreezes(); err != nil {
		return err
	}
	return d.update(recoverUsed)
}

// syncDir makes a newly created file's name durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close ends every subscription and closes the file.
func (d *Desk) Close() error {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	for s := range d.subs {
		d.drop(s)
	}
	d.mu.Unlock()
	return d.db.Close()
}

// Run sweeps the desk every interval until ctx ends: requests whose time is
// over become expired and their waiters wake. The caller waits for it.
func (d *Desk) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := d.Sweep(); err != nil {
				return err
			}
		}
	}
}

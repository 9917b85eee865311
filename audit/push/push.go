// Package push sends the records of an audit log to other systems as they come:
// in order, each at least once, over any outage. The log is the spool: all that is
// kept beside it is how far each target is. No call ever waits for a target.
package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"sallyport/audit"
)

// Batch is a run of records without gap, From to To.
type Batch struct {
	Log      string // origin of the log
	From, To audit.Seq
	Entries  []audit.Entry
	Lines    [][]byte // of each entry, in the target's format
}

// A Sink takes batches. Send returns nil once the other side has the whole batch;
// the same batch may come again.
type Sink interface {
	Send(ctx context.Context, b Batch) error
}

// Target is one system that records go to.
type Target struct {
	Name   string // of its cursor file: small letters, digits and dashes
	URL    string // as people are shown it
	Format string // "record" (as stored) or "ocsf"
	Sink   Sink
	// Records and Bytes bound a batch; Every is how long it may fill. Zero Every
	// sends what there is.
	Records int
	Bytes   int
	Every   time.Duration
}

// Log is what a Pusher reads.
type Log interface {
	Wait(ctx context.Context, seq audit.Seq) bool
	Entries(ctx context.Context, from audit.Seq, records, size int) ([]audit.Entry, error)
	Ends() (first, next audit.Seq)
	Origin() string
	OCSF(*audit.Record) ([]byte, error)
}

// Options of a Pusher; Log, Dir and Targets are required.
type Options struct {
	Log     Log
	Dir     string // of the cursors, made if absent
	Targets []Target
	Logger  *slog.Logger
	// First and Most are the shortest and the longest wait between tries, 1 s and
	// 5 min by default.
	First, Most time.Duration
}

// Status is how a target stands. Its JSON form is stable.
type Status struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"`
	Next    audit.Seq `json:"next"`   // the first record it does not have
	Behind  int64     `json:"behind"` // records that it does not have
	Lost    int64     `json:"lost"`   // that were retired before it could take them
	Sent    time.Time `json:"sent,omitzero"`
	Failing time.Time `json:"failing,omitzero"` // since when tries fail
	Error   string    `json:"error,omitempty"`
}

// cursor is what a cursor file holds.
type cursor struct {
	Log  string    `json:"log"`
	Next audit.Seq `json:"next"`
	// Sending is the end of the batch that is under way, so that after a crash the
	// very same batch is sent again: a store that writes once knows it.
	Sending audit.Seq `json:"sending,omitempty"`
	Lost    int64     `json:"lost,omitempty"`
	Sent    time.Time `json:"sent,omitzero"`
}

// Pusher pushes until Close.
type Pusher struct {
	o       Options
	targets []*target
	stop    context.CancelFunc
	work    sync.WaitGroup
}

type target struct {
	Target
	p    *Pusher
	path string

	mu      sync.Mutex
	cursor  cursor
	failing time.Time
	err     error
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Start begins to push.
func Start(o Options) (*Pusher, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.First == 0 {
		o.First = time.Second
	}
	if o.Most == 0 {
		o.Most = 5 * time.Minute
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("push the audit log: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pusher{o: o, stop: stop}
	seen := map[string]bool{}
	for _, t := range o.Targets {
		if !nameForm.MatchString(t.Name) || seen[t.Name] {
			stop()
			return nil, fmt.Errorf("push the audit log: target %q needs a name of its own, of small letters, digits and dashes", t.Name)
		}
		seen[t.Name] = true
		made := &target{Target: t, p: p, path: filepath.Join(o.Dir, t.Name+".json")}
		if err := made.load(); err != nil {
			stop()
			return nil, fmt.Errorf("push the audit log to %s: %w", t.Name, err)
		}
		p.targets = append(p.targets, made)
	}
	for _, t := range p.targets {
		p.work.Go(func() { t.run(ctx) })
	}
	return p, nil
}

// lastTry bounds what Close waits for: the next start goes on where it ended.
const lastTry = 3 * time.Second

// Close sends what is left, in a few seconds at most, and ends.
func (p *Pusher) Close() {
	p.stop()
	p.work.Wait()
}

// Status tells how every target stands.
func (p *Pusher) Status() []Status {
	out := []Status{}
	for _, t := range p.targets {
		t.mu.Lock()
		s := statusOf(t.Target, t.cursor, p.o.Log)
		s.Failing = t.failing
		if t.err != nil {
			s.Error = t.err.Error()
		}
		t.mu.Unlock()
		out = append(out, s)
	}
	return out
}

func statusOf(t Target, c cursor, log interface{ Ends() (audit.Seq, audit.Seq) }) Status {
	_, next := log.Ends()
	return Status{Name: t.Name, URL: t.URL, Next: c.Next, Behind: max(0, int64(next)-int64(c.Next)), Lost: c.Lost, Sent: c.Sent}
}

// ReadStatus tells how targets stand while nobody pushes.
func ReadStatus(log *audit.Reader, dir string, targets []Target) ([]Status, error) {
	out := []Status{}
	for _, t := range targets {
		c, err := readCursor(filepath.Join(dir, t.Name+".json"))
		if err != nil {
			return nil, fmt.Errorf("read how far %s is: %w", t.Name, err)
		}
		if c.Log != log.Origin() {
			c = cursor{}
		}
		out = append(out, statusOf(t, c, log))
	}
	return out, nil
}

func readCursor(path string) (cursor, error) {
	var c cursor
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("%w (remove %s to send everything again)", err, path)
	}
	return c, nil
}

func (t *target) load() error {
	c, err := readCursor(t.path)
	if err != nil {
		return err
	}
	_, next := t.p.o.Log.Ends()
	if c.Log != t.p.o.Log.Origin() || c.Next > next { // another log stands there now
		c = cursor{Log: t.p.o.Log.Origin()}
	}
	t.cursor = c
	return nil
}

// run sends batch after batch until ctx ends, then what is left once more.
func (t *target) run(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = t.p.o.First, t.p.o.Most
	for t.filled(ctx) {
		err := t.one(ctx)
		if err == nil {
			wait.Reset()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		pause := wait.NextBackOff()
		t.p.o.Logger.Warn("push the audit log; the next try follows", "target", t.Name, "in", pause.Round(time.Millisecond), "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	for {
		if _, next := t.p.o.Log.Ends(); t.next() >= next || t.one(last) != nil {
			return
		}
	}
}

func (t *target) next() audit.Seq {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cursor.Next
}

// filled waits for a record to send and then, at most Every, for a full batch.
func (t *target) filled(ctx context.Context) bool {
	next := t.next()
	if !t.p.o.Log.Wait(ctx, next) {
		return false
	}
	if t.Every > 0 {
		fill, cancel := context.WithTimeout(ctx, t.Every)
		defer cancel()
		t.p.o.Log.Wait(fill, next+audit.Seq(t.Records)-1)
	}
	return ctx.Err() == nil
}

// one sends one batch and notes that it is sent.
func (t *target) one(ctx context.Context) error {
	b, err := t.batch(ctx)
	if err == nil {
		err = t.Sink.Send(ctx, b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.failing.IsZero() {
			t.failing = time.Now().UTC()
		}
		t.err = err
		return err
	}
	t.cursor.Next, t.cursor.Sending, t.cursor.Sent = b.To+1, 0, time.Now().UTC()
	t.failing, t.err = time.Time{}, nil
	return t.save()
}

// batch reads the next batch and notes its end.
func (t *target) batch(ctx context.Context) (Batch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.p.o.Log
	if first, _ := log.Ends(); t.cursor.Next < first {
		t.cursor.Lost += int64(first - t.cursor.Next)
		t.cursor.Next, t.cursor.Sending = first, 0
		t.p.o.Logger.Error("records were retired before they were pushed", "target", t.Name, "lost", t.cursor.Lost)
	}
	records, size := t.Records, t.Bytes
	if t.cursor.Sending > t.cursor.Next {
		records, size = int(t.cursor.Sending-t.cursor.Next), 1<<30
	}
	entries, err := log.Entries(ctx, t.cursor.Next, records, size)
	if err != nil {
		return Batch{}, err
	}
	if len(entries) == 0 {
		return Batch{}, errors.New("read the records to push: there are none")
	}
	b := Batch{Log: log.Origin(), From: entries[0].Record.Seq, To: entries[len(entries)-1].Record.Seq, Entries: entries}
	for i := range entries {
		line := entries[i].Raw
		if t.Format == "ocsf" {
			if line, err = log.OCSF(&entries[i].Record); err != nil {
				return Batch{}, err
			}
		}
		b.Lines = append(b.Lines, line)
	}
	t.cursor.Sending = b.To + 1
	return b, t.save()
}

// save writes the cursor whole or not at all.
func (t *target) save() error {
	text, err := json.Marshal(t.cursor)
	if err == nil {
		err = replaceFile(t.path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note how far %s is: %w", t.Name, err)
	}
	return nil
}

// replaceFile puts a file in place of another, durable when it returns.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	tmp, err := writeBeside(path, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

// besideOf is the temporary file that becomes path. It has one name, so that what
// a crash leaves is written over by the next try.
func besideOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// writeBeside writes and syncs the temporary file of path.
func writeBeside(path string, content []byte, mode os.FileMode) (string, error) {
	tmp := besideOf(path)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp))
	}
	return tmp, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

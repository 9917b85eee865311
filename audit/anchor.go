package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// An Anchor keeps signed checkpoints where whoever can alter the log cannot.
// Without one, a log whose tail was cut or that was rolled back as a whole looks
// like an earlier log. A checkpoint is a signed note in text.
type Anchor interface {
	Anchor(ctx context.Context, checkpoint []byte) error
}

// anchorMark stands before the base64 of a checkpoint in a line of an anchor
// file or of a system log.
const anchorMark = "sallyport-checkpoint:"

// anchorLine is a checkpoint as one line of text. The dot tells a whole line
// from one that was cut.
func anchorLine(checkpoint []byte) string {
	return anchorMark + base64.StdEncoding.EncodeToString(checkpoint) + "."
}

// FileAnchor appends checkpoints to a file, best on another disk or a mount that
// only takes appends. Each is on the disk when Anchor returns.
type FileAnchor string

// Anchor implements the interface of that name.
func (path FileAnchor) Anchor(_ context.Context, checkpoint []byte) error {
	if err := os.MkdirAll(filepath.Dir(string(path)), 0o700); err != nil {
		return fmt.Errorf("anchor the log in a file: %w", err)
	}
	f, err := os.OpenFile(string(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("anchor the log in a file: %w", err)
	}
	// A line starts with a newline too: the one before may have been cut short.
	_, err = f.WriteString("\n" + time.Now().UTC().Format(time.RFC3339) + " " + anchorLine(checkpoint) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("anchor the log in a file: %w", err)
	}
	return nil
}

// ReadAnchors finds the checkpoints in an anchor file, or in any text with such
// lines, as a system log has them. Lines that were cut short are passed over.
func ReadAnchors(r io.Reader) ([][]byte, error) {
	var out [][]byte
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, text, _ := bytes.Cut(lines.Bytes(), []byte(anchorMark))
		text, _, whole := bytes.Cut(text, []byte("."))
		if !whole {
			continue
		}
		if cp, err := base64.StdEncoding.AppendDecode(nil, text); err == nil {
			out = append(out, cp)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the anchors: %w", err)
	}
	return out, nil
}

// fileAnchors are the checkpoints in Options.AnchorFile.
func (r *Reader) fileAnchors() ([][]byte, error) {
	if r.opt.AnchorFile == "" {
		return nil, nil
	}
	f, err := os.Open(r.opt.AnchorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the anchors: %w", err)
	}
	defer f.Close()
	return ReadAnchors(f)
}

// anchoring hands checkpoints to the anchors, beside the commits.
type anchoring struct {
	to    []Anchor
	every int64
	after time.Duration
	limit time.Duration // of one try of all anchors

	// one lets one caller anchor at a time. mu is never held while an anchor works:
	// commits take it.
	one   sync.Mutex
	mu    sync.Mutex
	head  []byte    // newest checkpoint
	size  int64     // of head
	tried int64     // size of the last one that was handed out
	done  []int64   // size of the last one that each anchor has
	since time.Time // when an anchor began to fail
	err   error     // of the last try
	wake  chan struct{}
	stop  chan struct{}
	work  sync.WaitGroup
}

func newAnchoring(o *Options) *anchoring {
	a := &anchoring{to: o.Anchors, every: int64(o.AnchorEvery), after: o.AnchorAfter, limit: o.anchorTime, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if o.AnchorFile != "" {
		a.to = append([]Anchor{FileAnchor(o.AnchorFile)}, a.to...)
	}
	a.done = make([]int64, len(a.to))
	return a
}

// note takes the newest checkpoint.
func (a *anchoring) note(size int64, head []byte) {
	if len(a.to) == 0 {
		return
	}
	a.mu.Lock()
	a.head, a.size = head, size
	due := size-a.tried >= a.every
	a.mu.Unlock()
	if due {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// run anchors when enough records came or enough time went by, until stop.
func (a *anchoring) run(o *Options) {
	if len(a.to) == 0 {
		return
	}
	a.work.Go(func() {
		tick := time.NewTicker(a.after)
		defer tick.Stop()
		for {
			select {
			case <-a.wake:
			case <-tick.C:
			case <-a.stop:
				return
			}
			if err := a.now(context.Background()); err != nil {
				o.Logger.Warn("the audit log is not anchored; the next try follows", "err", err)
			}
		}
	})
}

// anchorTime bounds one try of all anchors.
const anchorTime = 10 * time.Second

// now hands the newest checkpoint to each anchor that does not have it.
func (a *anchoring) now(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	a.one.Lock()
	defer a.one.Unlock()
	a.mu.Lock()
	head, size := a.head, a.size
	a.tried = size
	a.mu.Unlock()
	var errs []error
	for i, to := range a.to {
		if a.done[i] == size { // only touched with one held
			continue
		}
		if err := to.Anchor(ctx, head); err != nil {
			errs = append(errs, err)
			continue
		}
		a.done[i] = size
	}
	err := errors.Join(errs...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err = err; err == nil {
		a.since = time.Time{}
	} else if a.since.IsZero() {
		a.since = time.Now().UTC()
	}
	return err
}

// Anchoring tells since when an anchor fails, and why; nil where all is well.
func (l *Log) Anchoring() (since time.Time, err error) {
	l.anchoring.mu.Lock()
	defer l.anchoring.mu.Unlock()
	return l.anchoring.since, l.anchoring.err
}

// close ends run and anchors the last checkpoint.
func (a *anchoring) close() error {
	close(a.stop)
	a.work.Wait()
	return a.now(context.Background())
}

// Verify does what Reader.Verify does, after the newest checkpoint has been
// anchored.
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	if err := l.anchoring.now(ctx); err != nil {
		l.opt.Logger.Warn("the audit log is not anchored", "err", err)
	}
	l.rotating.Lock() // no segment is retired meanwhile
	defer l.rotating.Unlock()
	return l.Reader.Verify(ctx, o)
}

// Checkpoint is the newest signed checkpoint.
func (r *Reader) Checkpoint() ([]byte, error) {
	segs, _ := r.segments()
	if len(segs) == 0 {
		return nil, ErrNoRecord
	}
	var s segmentState
	err := r.view(segs[len(segs)-1], func(tx *bbolt.Tx) (err error) {
		s, err = readState(tx)
		return err
	})
	return s.head, err
}

package sandbox

import (
	"context"
	"sync"
	"time"

	"sallyport/sandbox/cell"
)

// maxBlank is how many blanks are kept. One costs 1.5 MiB and saves the next
// command of a workspace nobody worked in yet two milliseconds.
const maxBlank = 2

// blanks are cells that were cloned but not told yet what to show: everything
// that does not depend on the workspace is done, no wall but the namespaces
// stands, and nothing can run in them. All have one key, that of the last use.
type blanks struct {
	keep int

	mu      sync.Mutex
	key     blankKey
	idle    []*cage
	filling int
	used    time.Time
	drain   *time.Timer
	closed  bool
}

// blankKey is what a clone fixes.
type blankKey struct {
	flags        uintptr
	own          owner
	memory, pids int64
	cpu          float64
}

// blanksFor is none where no ready cells are wanted either.
func blanksFor(warm int) int {
	if warm < 0 {
		return 0
	}
	return maxBlank
}

func blankFor(p plan, g rung) blankKey {
	return blankKey{g.flags, p.owner, p.limits.Memory, p.limits.Pids, p.limits.CPU}
}

// take gives a living blank or nil, and those of no more use.
func (b *blanks) take(k blankKey) (c *cage, stale []*cage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
	if b.key != k {
		stale, b.idle, b.key = b.idle, nil, k
		return nil, stale
	}
	for len(b.idle) > 0 {
		c, b.idle = b.idle[0], b.idle[1:]
		if c.alive() {
			return c, stale
		}
		stale = append(stale, c)
	}
	return nil, stale
}

// want reserves a place.
func (b *blanks) want() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.idle)+b.filling >= b.keep {
		return false
	}
	b.filling++
	return true
}

// put fills a reserved place; nil gives it back. One nobody wants any more
// comes back; now is what is wanted.
func (b *blanks) put(k blankKey, c *cage) (back *cage, now blankKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.filling--
	if c == nil || b.closed || b.key != k {
		return c, b.key
	}
	b.idle = append(b.idle, c)
	return nil, k
}

// empty takes all out, for good when the runner closes.
func (b *blanks) empty(closing bool) []*cage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = b.closed || closing
	if closing && b.drain != nil {
		b.drain.Stop()
	}
	all := b.idle
	b.idle = nil
	return all
}

// refillBlanks clones what is missing, off the caller's path.
func (r *Runner) refillBlanks(s *starter, k blankKey) {
	for r.blanks.want() {
		fill := func() {
			time.Sleep(refillAfter)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c, err := r.cloneBlank(ctx, s, k)
			if err != nil {
				c = nil // the next run meets the same error and tells it
			}
			back, now := r.blanks.put(k, c)
			if back != nil {
				r.release(back, false)
			}
			if now != k { // others were asked for while the place was taken
				r.refillBlanks(s, now)
			}
		}
		if !r.background(fill) {
			r.blanks.put(k, nil)
			return
		}
	}
	r.drainBlanks()
}

// drainBlanks lets go of blanks nobody used for a while.
func (r *Runner) drainBlanks() {
	b := &r.blanks
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drain != nil || b.closed || b.keep == 0 {
		return
	}
	b.drain = time.AfterFunc(idleAfter, func() {
		b.mu.Lock()
		left := idleAfter - time.Since(b.used)
		b.mu.Unlock()
		if left <= 0 {
			for _, c := range b.empty(false) {
				r.release(c, false)
			}
			left = idleAfter
		}
		b.drain.Reset(left)
	})
}

func (r *Runner) cloneBlank(ctx context.Context, s *starter, k blankKey) (*cage, error) {
	grp, err := r.group(Limits{Memory: k.memory, Pids: k.pids, CPU: k.cpu})
	if _, none := r.groups(); err != nil && none == nil {
		return nil, err
	}
	c, err := s.openCage(ctx, cell.Spec{Flags: k.flags, UID: k.own.uid, GID: k.own.gid}, nil, grp)
	if err != nil && grp != nil {
		_ = grp.remove()
	}
	return c, err
}

package sandbox

import (
	"context"
	"sync"
	"time"
)

// Bounds on ready cells. An idle one costs about 3 MiB.
const (
	defaultWarm = 2
	maxWarm     = 16 // of all slots together
	idleAfter   = 5 * time.Minute
	// refillAfter keeps the making of new cells out of the way of a burst.
	refillAfter = 15 * time.Millisecond
)

// pool keeps ready cells, walls up and waiting for their one command. A slot
// holds cells of one workspace, profile, write mode and set of limits; all of
// them have the same key, and a plan with another key empties the slot.
type pool struct {
	perSlot int

	mu     sync.Mutex
	slots  map[string]*slot
	count  int
	closed bool
}

type slot struct {
	key     string
	idle    []*cage
	filling int
	used    time.Time
	drain   *time.Timer
}

func newPool(warm int) *pool {
	switch {
	case warm == 0:
		warm = defaultWarm
	case warm < 0:
		warm = 0
	}
	return &pool{perSlot: min(warm, maxWarm), slots: map[string]*slot{}}
}

// take gives a living cell that fits the plan, or nil, and the dead ones it met.
func (p *pool) take(pl plan) (c *cage, dead []*cage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[pl.slot]
	if s == nil || s.key != pl.key {
		return nil, nil
	}
	s.used = time.Now()
	for len(s.idle) > 0 {
		c := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		p.count--
		if c.alive() {
			return c, dead
		}
		dead = append(dead, c)
	}
	return nil, dead
}

// alive reports whether the cell's first process has not ended.
func (c *cage) alive() bool { return !c.ended(0) }

// want reserves places for cells to be made for the plan, and hands back the
// stale ones of its slot.
func (p *pool) want(pl plan) (s *slot, n int, stale []*cage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.perSlot == 0 {
		return nil, 0, nil
	}
	s = p.slots[pl.slot]
	if s == nil {
		s = &slot{key: pl.key}
		p.slots[pl.slot] = s
	}
	if s.key != pl.key {
		stale, s.idle, s.key = s.idle, nil, pl.key
		p.count -= len(stale)
	}
	s.used = time.Now()
	for s.filling+len(s.idle) < p.perSlot && p.count < maxWarm {
		s.filling++
		p.count++
		n++
	}
	return s, n, stale
}

// put gives a slot a cell for a reserved place; nil gives the place back. A
// cell the pool has no use for any more comes back.
func (p *pool) put(s *slot, pl plan, c *cage) *cage {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.filling--
	if p.slots[pl.slot] != s { // drained or closed meanwhile: counted out there
		return c
	}
	if c == nil || s.key != pl.key {
		p.count--
		return c
	}
	s.idle = append(s.idle, c)
	return nil
}

// idleSlot empties a slot nobody used for a while, or says when to look again.
func (p *pool) idleSlot(name string, now time.Time) (drained []*cage, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[name]
	if s == nil {
		return nil, 0
	}
	if left := idleAfter - now.Sub(s.used); left > 0 {
		return nil, left
	}
	delete(p.slots, name)
	p.count -= len(s.idle) + s.filling
	return s.idle, 0
}

// close empties the pool for good.
func (p *pool) close() []*cage {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var all []*cage
	for name, s := range p.slots {
		all = append(all, s.idle...)
		if s.drain != nil {
			s.drain.Stop()
		}
		delete(p.slots, name)
	}
	p.count = 0
	return all
}

// refill makes the cells a slot lacks, off the caller's path.
func (r *Runner) refill(p plan) {
	s, n, stale := r.pool.want(p)
	for _, c := range stale {
		r.release(c, true)
	}
	if n == 0 {
		return
	}
	r.watch(p.slot, s)
	p.spec.Warm = true
	fill := func() {
		time.Sleep(refillAfter)
		for range n {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			c, err := r.cage(ctx, p)
			cancel()
			if err != nil {
				c = nil // the next run meets the same error and tells it
			}
			if back := r.pool.put(s, p, c); back != nil {
				r.release(back, true)
			}
		}
	}
	if !r.background(fill) {
		for range n {
			r.pool.put(s, p, nil)
		}
	}
}

// watch drains a slot once it has been idle for long.
func (r *Runner) watch(name string, s *slot) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if s.drain != nil {
		return
	}
	s.drain = time.AfterFunc(idleAfter, func() {
		drained, again := r.pool.idleSlot(name, time.Now())
		for _, c := range drained {
			r.release(c, true)
		}
		if again > 0 {
			s.drain.Reset(again)
		}
	})
}

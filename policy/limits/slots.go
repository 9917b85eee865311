package limits

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// perProcessor is how many commands share a processor by default: most of them
// wait for something else most of the time.
const perProcessor = 4

// slots is the gate of what runs at once: so many in all, and one of each name.
type slots struct {
	all   chan struct{}
	mu    sync.Mutex
	named map[string]*named
}

type named struct {
	gate  chan struct{}
	users int
}

func (s *slots) init(size int) {
	if size <= 0 {
		size = perProcessor * runtime.NumCPU()
	}
	s.all = make(chan struct{}, size)
	s.named = map[string]*named{}
}

// Slot waits until one more command may run and returns the function that gives
// the slot back, which must be called once. A name, such as a workspace's
// build, lets only one holder of that name run at a time.
func (l *Limiter) Slot(ctx context.Context, name string) (release func(), err error) {
	s := &l.slots
	leave := func() {}
	if name != "" {
		if leave, err = s.enter(ctx, name); err != nil {
			return nil, err
		}
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for one of %d slots: %w", cap(s.all), ctx.Err())
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			<-s.all
			leave()
		})
	}, nil
}

// enter waits for the name; a name nobody uses is forgotten.
func (s *slots) enter(ctx context.Context, name string) (leave func(), err error) {
	s.mu.Lock()
	n, ok := s.named[name]
	if !ok {
		n = &named{gate: make(chan struct{}, 1)}
		s.named[name] = n
	}
	n.users++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(s.named, name)
		}
	}
	select {
	case n.gate <- struct{}{}:
		return func() {
			<-n.gate
			forget()
		}, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("wait for the slot %q: %w", name, ctx.Err())
	}
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lane is where one session's requests run: a client can neither fill another's
// lane nor cancel what runs there. An identity's requests without a session
// (protocol 2026-07-28) share its direct lane, where nothing can be cancelled by
// id.
type lane struct {
	id      string // the Mcp-Session-Id, a secret; "" for a direct lane
	session string // what records call it
	owner   *owner
	slots   chan struct{}
	now     func() time.Time

	mu       sync.Mutex
	used     time.Time
	cancels  map[string]context.CancelFunc // by raw JSON id
	unnamed  int                           // counts requests of a direct lane
	streams  int
	standing context.CancelFunc // ends the standing stream
	opened   int                // counts standing streams
	closed   bool
	events   *sseConn // of a connection by /sse
}

// reserve takes a share of an identity's memory.
func (o *owner) reserve(ctx context.Context, size int64) (free func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, o.slotTime)
	defer cancel()
	if o.bytes.Acquire(ctx, size) != nil {
		return nil, false
	}
	return func() { o.bytes.Release(size) }, true
}

// as is a peer in this lane: the identity and the powers of this very request,
// the lane's session.
func (l *lane) as(p *Peer) *Peer {
	q := *p
	q.Conn = l.session
	if q.Session == "" {
		q.Session = l.session
	}
	return &q
}

// enter waits for a slot. leave gives it back and may be called twice.
func (l *lane) enter(ctx context.Context) (leave func(), ok bool) {
	late := time.NewTimer(l.owner.slotTime)
	defer late.Stop()
	select {
	case l.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-l.slots; l.touch() }), true
	case <-ctx.Done():
	case <-late.C:
	}
	return nil, false
}

// claim registers a running request. Two requests under one id at a time could
// not be told apart by a cancellation and are refused, but where cancelling by id
// does not exist.
func (l *lane) claim(id json.RawMessage, unnamed bool, cancel context.CancelFunc) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := string(id)
	if unnamed {
		l.unnamed++
		name = fmt.Sprint("#", l.unnamed) // no JSON value begins so
	}
	if _, busy := l.cancels[name]; busy {
		return nil, errBusyID
	}
	if l.closed {
		return nil, errClosed
	}
	if l.cancels == nil {
		l.cancels = map[string]context.CancelFunc{}
	}
	l.cancels[name] = cancel
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cancels, name)
	}, nil
}

var (
	errBusyID = errors.New("a request with this id is still running: use a fresh id")
	errClosed = errors.New("the server is stopping: try again in a few seconds")
)

func (l *lane) cancel(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop, ok := l.cancels[id]; ok {
		stop()
	}
}

// stream counts one more subscription stream.
func (l *lane) stream() (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= ownStreams {
		return nil, false
	}
	l.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
	}, true
}

// listen makes a stream the session's standing one and ends the one before.
func (l *lane) listen(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standing != nil {
		l.standing()
	}
	if l.closed {
		cancel()
	}
	l.opened++
	mine := l.opened
	l.standing = cancel
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.used = l.now()
		if l.opened == mine {
			l.standing = nil
		}
	}
}

func (l *lane) setSSE(c *sseConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = c
}

func (l *lane) sse() *sseConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// close cancels all that runs in the lane.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || l.id != ""
	for _, stop := range l.cancels {
		stop()
	}
	if l.standing != nil {
		l.standing()
	}
}

func (l *lane) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *lane) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = l.now()
}

func (l *lane) idleSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used.Before(t) && len(l.cancels) == 0 && l.standing == nil && l.streams == 0 && len(l.slots) == 0
}

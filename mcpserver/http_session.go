package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sync/semaphore"
)

const (
	// ownMemory is how many bytes of messages one identity may have in flight.
	ownMemory = 4 * MaxLine
	// ownStreams is how many subscription streams one identity may hold open.
	ownStreams = 64
)

// table holds the sessions of an Endpoint.
type table struct {
	max, maxOwn int
	idle        time.Duration
	now         func() time.Time

	mu     sync.Mutex
	lanes  map[string]*lane // by session id
	owners map[string]*owner
	closed bool
}

// owner is one identity: what its sessions share.
type owner struct {
	key      string
	bytes    *semaphore.Weighted
	sessions int   // guarded by table.mu
	direct   *lane // for requests without a session
}

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

func newTable(o HTTPOptions, now func() time.Time) *table {
	return &table{
		max: o.MaxSessions, maxOwn: o.MaxOwnSessions, idle: o.SessionIdle, now: now,
		lanes: map[string]*lane{}, owners: map[string]*owner{},
	}
}

func (t *table) newLane(id, session string, o *owner) *lane {
	return &lane{id: id, session: session, owner: o, slots: make(chan struct{}, inFlight), now: t.now, used: t.now(), closed: t.closed}
}

// key tells identities apart. A credential is its own identity, so that no token
// reaches into the session of another.
func key(p *Peer) string {
	return fmt.Sprintf("%q %q %q %q", p.Credential, p.Agent, p.User, p.Workspace)
}

// ownerOf is the owner of a peer's sessions. t.mu is held.
func (t *table) ownerOf(p *Peer) *owner {
	k := key(p)
	o, ok := t.owners[k]
	if !ok {
		o = &owner{key: k, bytes: semaphore.NewWeighted(ownMemory)}
		o.direct = t.newLane("", "h-"+p.Agent, o)
		if p.Credential != "" {
			o.direct.session = p.Credential
		}
		t.owners[k] = o
	}
	return o
}

// stateless is the lane of a peer's requests that belong to no session.
func (t *table) stateless(p *Peer) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.ownerOf(p).direct
	l.touch()
	return l
}

// open starts a session; it is false when too many are open.
func (t *table) open(p *Peer, session string) (*lane, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.ownerOf(p)
	if t.closed || len(t.lanes) >= t.max || o.sessions >= t.maxOwn {
		return nil, false
	}
	l := t.newLane(rand.Text(), session, o)
	o.sessions++
	t.lanes[l.id] = l
	return l, true
}

// find is a peer's own session of that id.
func (t *table) find(id string, p *Peer) (*lane, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.lanes[id]
	if !ok || l.owner.key != key(p) {
		return nil, false
	}
	l.touch()
	return l, true
}

func (t *table) remove(l *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lanes[l.id] == l {
		delete(t.lanes, l.id)
		l.owner.sessions--
	}
}

// shut lets no further call in.
func (t *table) shut() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	for _, l := range t.all() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
	}
}

// running counts the calls in flight.
func (t *table) running() int {
	n := 0
	for _, l := range t.all() {
		n += len(l.slots)
	}
	return n
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lanes)
}

// all lists every lane, those without a session too.
func (t *table) all() []*lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*lane
	for _, l := range t.lanes {
		out = append(out, l)
	}
	for _, o := range t.owners {
		out = append(out, o.direct)
	}
	return out
}

// expired lists the sessions that have been idle for too long, and forgets
// identities that have been.
func (t *table) expired() []*lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*lane
	before := t.now().Add(-t.idle)
	for _, l := range t.lanes {
		if l.idleSince(before) {
			out = append(out, l)
		}
	}
	for k, o := range t.owners {
		if o.sessions == 0 && o.direct.idleSince(before) {
			delete(t.owners, k)
		}
	}
	return out
}

func (e *Endpoint) sweepUntil(ctx context.Context) {
	tick := time.NewTicker(max(e.o.SessionIdle/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.sweep()
		}
	}
}

// sweep ends the sessions that have been idle for too long.
func (e *Endpoint) sweep() {
	for _, l := range e.table.expired() {
		e.end(l)
	}
}

// reserve takes a share of an identity's memory.
func (o *owner) reserve(ctx context.Context, size int64) (free func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, slotTime)
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
	late := time.NewTimer(slotTime)
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

type laneKey struct{}

func withLane(ctx context.Context, l *lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

// resolver gives the library the one session id that a request may name: the
// Endpoint has looked it up already.
type resolver struct{}

func (resolver) ResolveSessionIdManager(r *http.Request) server.SessionIdManager {
	if r == nil {
		return onlySession("")
	}
	l, ok := r.Context().Value(laneKey{}).(*lane)
	if !ok {
		return onlySession("")
	}
	return onlySession(l.id)
}

type onlySession string

func (o onlySession) Generate() string { return string(o) }

func (o onlySession) Validate(id string) (terminated bool, err error) {
	if id != string(o) {
		return false, errors.New("no such session")
	}
	return false, nil
}

func (onlySession) Terminate(string) (notAllowed bool, err error) { return false, nil }

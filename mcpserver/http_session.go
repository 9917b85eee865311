package mcpserver

import (
	"context"
	"crypto/rand"
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
	idle, slot  time.Duration
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
	slotTime time.Duration
	sessions int   // guarded by table.mu
	direct   *lane // for requests without a session
}

func newTable(o HTTPOptions, now func() time.Time) *table {
	return &table{
		max: o.MaxSessions, maxOwn: o.MaxOwnSessions, idle: o.SessionIdle, slot: o.SlotTime, now: now,
		lanes: map[string]*lane{}, owners: map[string]*owner{},
	}
}

func (t *table) newLane(id, session string, o *owner) *lane {
	return &lane{id: id, session: session, owner: o, slots: make(chan struct{}, inFlight), now: t.now, used: t.now(), closed: t.closed}
}

// key tells identities apart. A credential is its own identity, and so are its
// rights: neither another token nor a weaker JWT of the same subject reaches into
// a session.
func key(p *Peer) string {
	return fmt.Sprintf("%q %q %q %q %s %q %t", p.Credential, p.Agent, p.User, p.Workspace, p.MaxTier, p.Tools, p.Tools == nil)
}

// ownerOf is the owner of a peer's sessions. t.mu is held.
func (t *table) ownerOf(p *Peer) *owner {
	k := key(p)
	o, ok := t.owners[k]
	if !ok {
		o = &owner{key: k, bytes: semaphore.NewWeighted(ownMemory), slotTime: t.slot}
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
// identities that have been: gone are their direct lanes.
func (t *table) expired() (out, gone []*lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.now().Add(-t.idle)
	for _, l := range t.lanes {
		if l.idleSince(before) {
			out = append(out, l)
		}
	}
	for k, o := range t.owners {
		if o.sessions == 0 && o.direct.idleSince(before) {
			delete(t.owners, k)
			gone = append(gone, o.direct)
		}
	}
	return out, gone
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
	out, gone := e.table.expired()
	for _, l := range out {
		e.end(l)
	}
	for _, l := range gone {
		e.ended(l)
	}
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"sallyport/mcpserver"
)

// relay carries one host's messages to the daemon and back. It outlives the
// daemon: when the connection breaks it answers the calls that were in flight
// with what the log knows of them, connects anew, starting a daemon if it must,
// and opens the session again. No call is ever sent twice.
//
// It reads as much of a message as that needs: id, method, and of a call the
// tool and the arguments.
type relay struct {
	place place
	hello hello // with the session that the first welcome named

	hostMu sync.Mutex // held for one whole line to the host
	host   io.Writer

	// sendMu is held while a line is sent and while a connection is replaced,
	// so that a request is either wholly sent or surely not.
	sendMu sync.Mutex
	link   *link // nil when there is no daemon

	mu      sync.Mutex
	opening [][]byte            // initialize and initialized, to be said again
	openID  string              // the key of initialize's id; "" before it is answered
	open    map[string]*request // in flight, by the key of their id
	asked   map[string]bool     // what the daemon asked the host
	given   map[string]bool     // what the shim answered and this daemon still may
	owed    int                 // answers claimed and not yet written to the host
	version string              // of the daemon
}

// link is one connection to one daemon.
type link struct {
	*relayConn
	ended chan struct{} // closed when everything it sent was relayed
}

func newRelay(p place, h hello, host io.Writer) *relay {
	return &relay{place: p, hello: h, host: host, open: map[string]*request{}, asked: map[string]bool{}, given: map[string]bool{}}
}

// run relays until the host closes its side or ctx ends. An orderly end is nil.
func (r *relay) run(ctx context.Context, host io.Reader) error {
	r.sendMu.Lock()
	err := r.connect(ctx)
	r.sendMu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer r.hangUp()
	go r.watch(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.fromHost(ctx, host) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			r.finish(ctx)
			return nil
		}
		return err
	}
}

// hangUp ends the connection without waiting for a sender that may be blocked.
func (r *relay) hangUp() {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// finish lets the answers in flight go out after the host's last message: a
// scripted client pipes its requests in and reads on. It ends at once when
// nothing is owed any more and when nobody reads any more.
func (r *relay) finish(ctx context.Context) {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l != nil {
		_ = l.CloseWrite()
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(r.place.wait.finishTime()); r.owes() && time.Now().Before(end); {
		if f, ok := r.host.(*os.File); ok && readerGone(f) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (r *relay) owes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)+r.owed > 0
}

// connect makes a new connection and opens the session again. The caller holds
// sendMu.
func (r *relay) connect(ctx context.Context) error {
	c, w, err := connect(ctx, r.place, r.hello)
	if err != nil {
		return err
	}
	r.hello.Session, r.hello.Again = w.Session, true
	if err := r.reopen(c); err != nil {
		c.Close()
		return fmt.Errorf("open the session again: %w", err)
	}
	l := &link{c, make(chan struct{})}
	r.mu.Lock()
	other := r.version != "" && r.version != w.Version
	r.link, r.version = l, w.Version
	clear(r.asked)
	clear(r.given)
	r.mu.Unlock()
	if other {
		r.tell([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	go r.fromDaemon(ctx, l)
	return nil
}

// reopen repeats the host's initialize to a new daemon and keeps the answer from
// the host, who has one already.
func (r *relay) reopen(c *relayConn) error {
	r.mu.Lock()
	lines, id := r.opening, r.openID
	r.mu.Unlock()
	if id == "" {
		return nil
	}
	if err := c.SetDeadline(time.Now().Add(r.place.wait.greetTime())); err != nil {
		return err
	}
	if _, err := c.Write(lines[0]); err != nil {
		return err
	}
	for {
		line, err := mcpserver.ReadLine(c.in)
		if err != nil {
			return err
		}
		m, ok := parse(line)
		if !ok || m.Method != "" || m.key() != id {
			continue
		}
		if m.Error != nil {
			return fmt.Errorf("the daemon refuses: %s", m.Error)
		}
		break
	}
	for _, line := range lines[1:] {
		if _, err := c.Write(line); err != nil {
			return err
		}
	}
	return c.SetDeadline(time.Time{})
}

// replace settles what was in flight on a broken connection. Where nothing was,
// the next message of the host brings the next connection. unsent is a request
// that its sender will send again. The caller holds sendMu.
func (r *relay) replace(ctx context.Context, l *link, unsent *request) {
	r.mu.Lock()
	if r.link != l {
		r.mu.Unlock()
		return
	}
	r.link = nil
	var flight []*request
	for _, q := range r.open {
		if q != unsent {
			flight = append(flight, q)
		}
	}
	r.mu.Unlock()
	if len(flight) == 0 || ctx.Err() != nil {
		return
	}
	err := r.connect(ctx)
	for _, q := range flight {
		if err == nil && q.line != nil { // changes nothing, so it may be asked again
			if _, werr := r.link.Write(q.line); werr == nil {
				continue
			}
		}
		if r.claim(q) {
			r.answer(q, lost(q, r.fate(ctx, q, err), err))
		}
	}
}

// watch looks at a daemon that has been silent while answers are owed: one that
// is stopped would keep its host waiting for ever.
func (r *relay) watch(ctx context.Context) {
	t := time.NewTicker(r.place.wait.frozeTime() / 2)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		r.mu.Lock()
		l := r.link
		var late []*request
		for _, q := range r.open {
			if time.Since(q.sent) > r.place.wait.frozeTime() {
				late = append(late, q)
			}
		}
		r.mu.Unlock()
		if l == nil || len(late) == 0 || !stopped(l.pid) {
			continue
		}
		for _, q := range late {
			if r.claim(q) {
				r.mu.Lock()
				r.given[q.key] = true
				r.mu.Unlock()
				r.answer(q, frozen(q, l.pid))
			}
		}
	}
}

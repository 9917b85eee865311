package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sallyport/mcpserver"
)

// fromHost relays the host's lines until it closes its side.
func (r *relay) fromHost(ctx context.Context, host io.Reader) error {
	in := bufio.NewReaderSize(host, 64<<10)
	for {
		line, err := mcpserver.ReadLine(in)
		if errors.Is(err, mcpserver.ErrTooLong) {
			r.tell(tooLong())
			continue
		}
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
			r.send(ctx, append(line, '\n')) // the last line of a script
		}
		if err != nil {
			return err
		}
		r.send(ctx, line)
	}
}

// send brings one line of the host to a daemon. What cannot be sent is answered
// here.
func (r *relay) send(ctx context.Context, line []byte) {
	m, ok := parse(line)
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	q, wanted := r.note(m, ok, line)
	if !wanted {
		return
	}
	for {
		if r.link == nil {
			if err := r.connect(ctx); err != nil {
				if q != nil && r.claim(q) {
					r.answer(q, unreachable(q, err))
				}
				return
			}
		}
		l := r.link
		if _, err := l.Write(line); err == nil {
			return
		}
		// The daemon never got the line's end, so it cannot have acted on it: the
		// line goes to the next daemon. What it answered before is relayed first.
		l.Close()
		<-l.ended
		r.replace(ctx, l, q)
	}
}

// note keeps what a later reconnect has to know of a host's line, and tells
// whether the line is for the daemon at all.
func (r *relay) note(m message, ok bool, line []byte) (*request, bool) {
	if !ok || m.Version != "2.0" {
		return nil, true // the daemon says what is wrong with it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.Method == "" && m.ID != nil: // an answer to the daemon
		known := r.asked[m.key()]
		delete(r.asked, m.key())
		return nil, known
	case m.Method == "notifications/cancelled":
		delete(r.open, keyOf(m.Params.RequestID))
	case m.Method == "notifications/initialized" && len(r.opening) == 1:
		r.opening = append(r.opening, line)
	case m.Method != "" && m.ID != nil:
		q := newRequest(m, line)
		if _, busy := r.open[q.key]; busy { // its answer could not be told from the first one's
			r.tell(twice(q))
			return nil, false
		}
		r.open[q.key] = q
		if m.Method == "initialize" {
			r.opening, r.openID = [][]byte{line}, ""
		}
		return q, true
	}
	return nil, true
}

// fromDaemon relays a connection's lines to the host until it breaks, and then
// replaces it if answers are still owed.
func (r *relay) fromDaemon(ctx context.Context, l *link) {
	for {
		line, err := mcpserver.ReadLine(l.in)
		if err != nil {
			break
		}
		r.relay(line)
	}
	l.Close()
	close(l.ended)
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	r.replace(ctx, l, nil)
}

// relay hands one line of the daemon to the host. An answer that the host was
// given already is dropped.
func (r *relay) relay(line []byte) {
	m, ok := parse(line)
	if !ok || m.ID == nil || m.Method != "" {
		if ok && m.ID != nil {
			r.mu.Lock()
			r.asked[m.key()] = true
			r.mu.Unlock()
		}
		r.tell(line)
		return
	}
	r.mu.Lock()
	q, given := r.open[m.key()], r.given[m.key()]
	delete(r.given, m.key())
	r.mu.Unlock()
	if given {
		return
	}
	if q == nil || !r.claim(q) { // to a message that the relay could not read
		r.tell(line)
		return
	}
	if q.method == "initialize" && m.Error == nil {
		r.mu.Lock()
		r.openID = q.key
		r.mu.Unlock()
	}
	r.tell(line)
	r.paid()
}

// claim takes the right, and the duty, to answer a request.
func (r *relay) claim(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[q.key] != q {
		return false
	}
	delete(r.open, q.key)
	r.owed++
	return true
}

func (r *relay) paid() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owed--
}

// answer gives the host an answer of the shim's own to a claimed request.
func (r *relay) answer(q *request, v any) {
	defer r.paid()
	b, err := json.Marshal(v)
	if err != nil { // plain values: cannot be
		b = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"encode an answer"}}`, q.id)
	}
	r.tell(append(b, '\n'))
}

// tell writes one line to the host.
func (r *relay) tell(line []byte) {
	if line[len(line)-1] != '\n' {
		line = append(line, '\n')
	}
	r.hostMu.Lock()
	defer r.hostMu.Unlock()
	_, _ = r.host.Write(line) // a host that has gone shows as end of file
}

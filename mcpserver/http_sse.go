package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

// HTTP+SSE of protocol 2024-11-05: GET /sse is a connection like any other, but
// that its client writes by POST /message. When it ends, its calls are cancelled.

// sseConn is an open connection.
type sseConn struct {
	owner    string // who may post to it
	dispatch func(line []byte) error
}

// sse serves GET /sse until the client hangs up.
func (e *Endpoint) sse(w http.ResponseWriter, r *http.Request, p *Peer) {
	in, ok := e.table.open(p, "h-"+e.s.o.ID())
	if !ok {
		busy(w)
		return
	}
	defer e.ended(in)
	defer e.table.remove(in)
	peer := in.as(p)
	ctx, stop := in.listen(r.Context())
	defer stop()
	st := newStream(w, e.o)
	st.keepAlive()
	defer st.end(false)

	sess := newSession(peer)
	if err := e.s.mcp.RegisterSession(ctx, sess); err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	defer e.s.mcp.UnregisterSession(ctx, sess.SessionID())
	c := &conn{s: e.s, out: eventWriter{st, stop}, sess: sess, slots: in.slots, cancels: map[string]context.CancelFunc{}}
	ctx = e.s.mcp.WithContext(c.telling(withPeer(ctx, peer)), sess)

	in.setSSE(&sseConn{owner: in.owner.key, dispatch: func(line []byte) error { return c.dispatch(ctx, line) }})
	notes := make(chan struct{})
	go func() { defer close(notes); c.notify(ctx) }()
	if st.event("endpoint", []byte("/message?sessionId="+in.id)) {
		<-ctx.Done()
	}
	stop()
	in.setSSE(nil)
	c.work.Wait()
	<-notes
}

// eventWriter writes each message as one event; a client that does not read them
// is hung up on.
type eventWriter struct {
	st   *stream
	stop func()
}

func (w eventWriter) Write(line []byte) (int, error) {
	if !w.st.event("message", line) {
		w.stop()
		return 0, io.ErrClosedPipe
	}
	return len(line), nil
}

// message serves POST /message: the answer goes to the connection's stream.
func (e *Endpoint) message(w http.ResponseWriter, r *http.Request, p *Peer) {
	in, ok := e.table.find(r.URL.Query().Get("sessionId"), p)
	if !ok {
		http.Error(w, "no such session: open /sse again", http.StatusNotFound)
		return
	}
	c := in.sse()
	if c == nil {
		http.Error(w, "that session is not of /sse", http.StatusNotFound)
		return
	}
	if in.isClosed() {
		stopping(w)
		return
	}
	body, free, ok := e.body(w, r, in)
	if !ok {
		return
	}
	defer free()
	if !json.Valid(body) {
		rpcError(w, http.StatusBadRequest, nil, mcp.PARSE_ERROR, "the body is not one JSON-RPC message")
		return
	}
	if err := c.dispatch(body); err != nil {
		http.Error(w, "the connection has ended: open /sse again", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// HTTPOptions say who may speak to an Endpoint and how much. The zero value of
// everything but Authenticate is the default.
type HTTPOptions struct {
	// Authenticate establishes who sends a request. Its error only goes to the
	// log: the sender learns no more than that it has no valid identity. Session
	// and Conn of the Peer may be left empty.
	Authenticate func(*http.Request) (*Peer, error)
	// Hosts are Host values that are right for this server besides the loopback
	// names. With none, a connection that does not arrive over loopback may name
	// any.
	Hosts []string
	// Origins are the web origins ("https://host:port") besides the server's own
	// whose pages may call it.
	Origins []string
	// ResourceMetadata is the URL of the RFC 9728 document that a challenge
	// names; empty for none.
	ResourceMetadata string
	// MaxSessions is how many sessions may be open at a time, 40,000 by default;
	// MaxOwnSessions how many of one identity, 1,024 by default.
	MaxSessions, MaxOwnSessions int
	// SessionIdle is how long a session lives unused, 30 minutes by default.
	SessionIdle time.Duration
	// BodyTime is how long a request's body may take to arrive, WriteTime how long
	// a client may leave one write unread, SlotTime how long a request waits for a
	// slot of its session or for memory before it is told to come back; each 30 s by
	// default. BeatTime is how often an open stream carries a comment, so that a
	// peer that has gone is noticed and nothing between cuts a silent one; 20 s.
	BodyTime, WriteTime, SlotTime, BeatTime time.Duration
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	o.MaxSessions = orDefault(o.MaxSessions, 40_000)
	o.MaxOwnSessions = orDefault(o.MaxOwnSessions, 1024)
	o.SessionIdle = orDefault(o.SessionIdle, 30*time.Minute)
	o.BodyTime = orDefault(o.BodyTime, 30*time.Second)
	o.WriteTime = orDefault(o.WriteTime, 30*time.Second)
	o.SlotTime = orDefault(o.SlotTime, 30*time.Second)
	o.BeatTime = orDefault(o.BeatTime, 20*time.Second)
	return o
}

// Endpoint is the server over HTTP: /mcp (streamable HTTP, every revision that
// the library serves) and /sse with /message (HTTP+SSE of 2024-11-05). Close
// ends its sessions.
type Endpoint struct {
	s     *Server
	o     HTTPOptions
	lib   *server.StreamableHTTPServer
	table *table
	h     http.Handler
	stop  context.CancelFunc
	swept sync.WaitGroup
}

// HTTP is the server as an http.Handler. Every request passes Guard and
// Authenticate before any of its body is read.
func (s *Server) HTTP(o HTTPOptions) *Endpoint {
	o = o.withDefaults()
	e := &Endpoint{s: s, o: o, table: newTable(o, s.o.Now)}
	e.lib = server.NewStreamableHTTPServer(s.mcp,
		server.WithSessionIdManagerResolver(resolver{}),
		server.WithStreamableHTTPLogger(slog.New(errorsOnly{s.o.Logger.Handler()})), // what is less names session ids
	)
	m := http.NewServeMux()
	m.HandleFunc("/mcp", e.authenticated(e.streamable))
	m.HandleFunc("GET /sse", e.authenticated(e.sse))
	m.HandleFunc("POST /message", e.authenticated(e.message))
	e.h = Guard(o, m)
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	e.swept.Go(func() { e.sweepUntil(ctx) })
	return e
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// errorsOnly hands on errors.
type errorsOnly struct{ slog.Handler }

func (h errorsOnly) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.h.ServeHTTP(w, r) }

// Sessions counts the open sessions.
func (e *Endpoint) Sessions() int { return e.table.size() }

// Close takes no new calls, gives those that run until ctx ends, and then ends
// every session and stream; calls that still run are cancelled and recorded. Call
// it before http.Server.Shutdown, which waits for the streams.
func (e *Endpoint) Close(ctx context.Context) {
	e.stop()
	e.swept.Wait()
	e.table.shut()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for e.table.running() > 0 && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	for _, s := range e.table.all() {
		e.end(s)
	}
}

// authenticated hands a request on with the Peer that sent it.
func (e *Endpoint) authenticated(next func(http.ResponseWriter, *http.Request, *Peer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := e.o.Authenticate(r)
		if err == nil && p != nil {
			next(w, r, p)
			return
		}
		e.s.o.Logger.Debug("refuse a request without a valid identity", "from", r.RemoteAddr, "path", r.URL.Path, "err", err)
		challenge := `Bearer realm="sallyport"`
		if r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		if e.o.ResourceMetadata != "" {
			challenge += `, resource_metadata=` + strconv.Quote(e.o.ResourceMetadata)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "a valid bearer token is needed: `sallyport token create` makes one", http.StatusUnauthorized)
	}
}

// streamable serves /mcp.
func (e *Endpoint) streamable(w http.ResponseWriter, r *http.Request, p *Peer) {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch r.Method {
	case http.MethodPost:
		e.post(w, r, p)
	case http.MethodGet:
		if s, ok := e.sessionOf(w, r, p); ok && !modern {
			e.listen(w, r, s)
		}
	case http.MethodDelete:
		if s, ok := e.sessionOf(w, r, p); ok && !modern {
			e.end(s)
			w.WriteHeader(http.StatusOK)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// message is as much of a JSON-RPC message as routing needs.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		Cursor    json.RawMessage `json:"cursor"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// post serves one message. The sender's slot and its share of memory are taken
// before the body is read.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request, p *Peer) {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	in := e.table.stateless(p)
	if r.Header.Get(server.HeaderKeySessionID) != "" && !modern {
		s, ok := e.sessionOf(w, r, p)
		if !ok {
			return
		}
		in = s
	}
	leave, ok := in.enter(r.Context())
	if !ok {
		busy(w)
		return
	}
	defer leave()
	body, free, ok := e.body(w, r, in)
	if !ok {
		return
	}
	defer free()
	var m message
	if err := json.Unmarshal(body, &m); err != nil && !isObject(body) {
		rpcError(w, http.StatusBadRequest, nil, mcp.PARSE_ERROR, "the body is not one JSON-RPC message")
		return
	}
	modern = modern || mcp.IsModernProtocol(m.Params.Meta.Version)
	switch {
	case modern:
		in = e.table.stateless(p)
	case m.Method == string(mcp.MethodInitialize):
		if in, ok = e.table.open(p, "h-"+e.s.o.ID()); !ok {
			e.s.o.Logger.Warn("refuse a session: too many are open", "agent", p.Agent)
			busy(w)
			return
		}
	case in.id == "":
		http.Error(w, "the "+server.HeaderKeySessionID+" header is missing: initialize first", http.StatusBadRequest)
		return
	}
	e.deliver(w, r, post{message: m, in: in, peer: in.as(p), body: body, modern: modern, leave: leave})
}

// isObject tells a JSON object with a field of the wrong type, which the library
// answers better, from what is no message at all.
func isObject(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '{' && json.Valid(body)
}

// post is one message that came in by POST.
type post struct {
	message
	in     *lane
	peer   *Peer
	body   []byte
	modern bool
	leave  func() // gives the slot back; a stream that stays open needs none
}

// deliver hands a message to the library under a context of its own, so that
// nobody but its sender can cancel it. A sender that hangs up cancels it too:
// nobody would get the answer.
func (e *Endpoint) deliver(w http.ResponseWriter, r *http.Request, m post) {
	if m.Method == "notifications/cancelled" {
		if !m.modern { // a modern client hangs up instead, and ids mean nothing between requests
			m.in.cancel(string(m.Params.RequestID))
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	ctx, cancel := context.WithCancel(withPeer(r.Context(), m.peer))
	defer cancel()
	if err := e.s.checkCursor(ctx, m.Method, m.Params.Cursor); err != nil {
		rpcError(w, http.StatusOK, m.ID, mcp.INVALID_PARAMS, err.Error()) // an answer like any other, not a transport's failure
		return
	}
	if len(m.ID) > 0 && m.Method != "" {
		done, err := m.in.claim(m.ID, m.modern, cancel)
		if errors.Is(err, errClosed) {
			stopping(w)
			return
		}
		if err != nil {
			rpcError(w, http.StatusBadRequest, m.ID, mcp.INVALID_REQUEST, err.Error())
			return
		}
		defer done()
	}
	st := newStream(w, e.o)
	if m.Method == string(mcp.MethodSubscriptionsListen) {
		done, ok := m.in.stream()
		if !ok {
			busy(w)
			return
		}
		defer done()
		m.leave()
		st.keepAlive()
	}
	ctx = withTell(ctx, st.notify)
	e.lib.Handle(st, &server.HTTPRequest{
		Method: r.Method, URL: r.URL, Header: r.Header, Body: m.body, Context: withLane(ctx, m.in),
	})
	st.end(ctx.Err() != nil && r.Context().Err() == nil)
}

// listen serves a session's one standing stream; a newer one takes its place.
func (e *Endpoint) listen(w http.ResponseWriter, r *http.Request, s *lane) {
	ctx, done := s.listen(r.Context())
	defer done()
	st := newStream(w, e.o)
	st.keepAlive()
	e.lib.Handle(st, &server.HTTPRequest{
		Method: r.Method, URL: r.URL, Header: r.Header, Context: withLane(ctx, s),
	})
	st.end(false)
}

// sessionOf is the session that a request names; one that is unknown or another
// identity's is answered with 404, which tells a client to initialize again.
func (e *Endpoint) sessionOf(w http.ResponseWriter, r *http.Request, p *Peer) (*lane, bool) {
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "protocol 2026-07-28 has no sessions and no standing stream: use subscriptions/listen", http.StatusMethodNotAllowed)
		return nil, false
	}
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		http.Error(w, "the "+server.HeaderKeySessionID+" header is missing: initialize first", http.StatusBadRequest)
		return nil, false
	}
	s, ok := e.table.find(id, p)
	if !ok {
		http.Error(w, "no such session: initialize again", http.StatusNotFound)
	}
	return s, ok
}

// end removes a session here and in the library, and cancels what it runs.
func (e *Endpoint) end(s *lane) {
	e.table.remove(s)
	s.close()
	if s.id == "" {
		return
	}
	defer e.ended(s)
	h := http.Header{}
	h.Set(server.HeaderKeySessionID, s.id)
	e.lib.Handle(&nowhere{}, &server.HTTPRequest{
		Method: http.MethodDelete, Header: h, Context: withLane(context.Background(), s),
	})
}

// ended tells that a session is over.
func (e *Endpoint) ended(s *lane) {
	if e.s.o.Ended != nil {
		e.s.o.Ended(s.session)
	}
}

// body reads a request's body within its bounds. free gives back the sender's
// share of memory.
func (e *Endpoint) body(w http.ResponseWriter, r *http.Request, in *lane) (_ []byte, free func(), ok bool) {
	size := r.ContentLength
	if size < 0 || size > MaxLine {
		size = MaxLine
	}
	if free, ok = in.owner.reserve(r.Context(), size); !ok {
		busy(w)
		return nil, nil, false
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(e.o.BodyTime)) // a writer without deadlines is a test's
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		return body, free, true
	}
	free()
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		http.Error(w, fmt.Sprintf("message longer than %d MiB: send less at a time", MaxLine>>20), http.StatusRequestEntityTooLarge)
	} else {
		http.Error(w, "the body did not arrive", http.StatusRequestTimeout)
	}
	return nil, nil, false
}

// busy tells a client to come back.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too much at a time: try again in a few seconds", http.StatusTooManyRequests)
}

func stopping(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
}

func rpcError(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := mcp.NewJSONRPCError(mcp.NewRequestId(nil), code, text, nil)
	if len(id) > 0 {
		e.ID = mcp.NewRequestId(id)
	}
	_ = json.NewEncoder(w).Encode(e)
}

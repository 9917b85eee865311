package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// MaxLine is the longest message a connection may send, in bytes. 16 MiB holds
// a write of any source file and keeps a hostile client from filling memory.
const MaxLine = 16 << 20

// inFlight is how many requests of one connection run at a time; further ones
// wait unread in the socket.
const inFlight = 32

// Serve speaks newline-delimited JSON-RPC with one peer until it hangs up or
// ctx ends. On return every call it started has ended and is recorded. An
// orderly end is nil.
func (s *Server) Serve(ctx context.Context, rw io.ReadWriter, p *Peer) error {
	ctx, stop := context.WithCancel(withPeer(ctx, p))
	defer stop()
	sess := newSession(p)
	if err := s.mcp.RegisterSession(ctx, sess); err != nil {
		return fmt.Errorf("register connection %s: %w", p.Conn, err)
	}
	defer s.mcp.UnregisterSession(ctx, p.Conn)
	c := &conn{s: s, out: rw, sess: sess, slots: make(chan struct{}, inFlight), cancels: map[string]context.CancelFunc{}}
	s.track(c, true)
	defer s.track(c, false)

	ctx = s.mcp.WithContext(withAsk(c.telling(ctx), c.ask), sess)
	notes := make(chan struct{})
	go func() { defer close(notes); c.notify(ctx) }()
	err := c.read(ctx, rw)
	if errors.Is(err, io.EOF) {
		c.drain(ctx, rw)
	}
	stop()
	c.work.Wait()
	<-notes
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// hangup is a connection that can tell a peer that only stopped sending from
// one that has gone.
type hangup interface{ Gone() bool }

// drain waits for the requests in flight, until Options.Drain has passed or the
// peer has gone altogether.
func (c *conn) drain(ctx context.Context, rw io.ReadWriter) {
	done := make(chan struct{})
	go func() { c.work.Wait(); close(done) }()
	end := time.NewTimer(orDefault(c.s.o.Drain, 10*time.Second))
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			if h, ok := rw.(hangup); ok && h.Gone() {
				return
			}
		}
	}
}

func (s *Server) track(c *conn, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.conns[c] = struct{}{}
	} else {
		delete(s.conns, c)
	}
}

// Sessions counts the open connections.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// conn is one newline-delimited connection.
type conn struct {
	s     *Server
	sess  *session
	slots chan struct{}
	work  sync.WaitGroup

	wmu sync.Mutex
	out io.Writer

	mu      sync.Mutex
	cancels map[string]context.CancelFunc // by raw JSON id, this connection's only
	asked   map[string]chan reply         // what the client was asked, by raw JSON id
	asks    int                           // counts them
}

// envelope is as much of a message as routing needs.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		Cursor    json.RawMessage `json:"cursor"`
	} `json:"params"`
}

func (c *conn) read(ctx context.Context, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := nextLine(in)
		if errors.Is(err, ErrTooLong) {
			c.send(mcp.NewJSONRPCError(mcp.NewRequestId(nil), mcp.INVALID_REQUEST,
				fmt.Sprintf("message longer than %d MiB: send less at a time", MaxLine>>20), nil))
			continue
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := c.dispatch(ctx, line); err != nil {
			return err
		}
	}
}

// dispatch starts one message's work. Requests run concurrently; the order of
// notifications is kept.
func (c *conn) dispatch(ctx context.Context, line []byte) error {
	var e envelope
	if json.Unmarshal(line, &e) == nil && e.Method == "" && c.answered(e.ID, line) {
		return nil
	}
	if json.Unmarshal(line, &e) != nil || e.Method == "" {
		if resp := c.s.mcp.HandleMessage(ctx, line); resp != nil {
			c.send(resp)
		}
		return nil
	}
	if e.Method == "notifications/cancelled" {
		c.cancel(string(e.Params.RequestID))
		return nil
	}
	if len(e.ID) == 0 || e.Method == "initialize" {
		if resp := c.s.mcp.HandleMessage(ctx, line); resp != nil {
			c.send(resp)
		}
		return nil
	}
	if err := c.s.checkCursor(ctx, e.Method, e.Params.Cursor); err != nil {
		c.send(mcp.NewJSONRPCError(mcp.NewRequestId(e.ID), mcp.INVALID_PARAMS, err.Error(), nil))
		return nil
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	rctx, cancel, ok := c.claim(ctx, string(e.ID))
	if !ok {
		<-c.slots
		c.send(mcp.NewJSONRPCError(mcp.NewRequestId(e.ID), mcp.INVALID_REQUEST, "a request with this id is still running: use a fresh id", nil))
		return nil
	}
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		defer func() { <-c.slots }()
		resp := c.s.mcp.HandleMessage(rctx, line)
		cancelled := rctx.Err() != nil
		c.release(string(e.ID), cancel)
		if resp != nil && !cancelled {
			c.send(resp)
		}
	}()
	return nil
}

// claim registers a request's id; two requests under one id at a time could not
// be told apart by a cancellation and are refused.
func (c *conn) claim(ctx context.Context, id string) (context.Context, context.CancelFunc, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.cancels[id]; busy {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	c.cancels[id] = cancel
	return ctx, cancel, true
}

func (c *conn) release(id string, cancel context.CancelFunc) {
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cancels, id)
}

func (c *conn) cancel(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop, ok := c.cancels[id]; ok {
		stop()
	}
}

// notify sends the server's notifications until ctx ends.
func (c *conn) notify(ctx context.Context) {
	for {
		select {
		case n := <-c.sess.notes:
			c.send(n)
		case <-ctx.Done():
			return
		}
	}
}

// telling lets what runs under ctx tell the client something before its answer.
func (c *conn) telling(ctx context.Context) context.Context {
	return withTell(ctx, func(n mcp.JSONRPCNotification) { c.send(n) })
}

func (c *conn) send(m any) {
	b, err := json.Marshal(m)
	if err != nil {
		c.s.o.Logger.Error("encode a message", "err", err)
		return
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if _, err := c.out.Write(append(b, '\n')); err != nil {
		c.s.o.Logger.Debug("send to a client that has gone", "session", c.sess.SessionID(), "err", err)
	}
}

// ErrTooLong means that a line was longer than MaxLine; it was read to its end
// and not kept.
var ErrTooLong = errors.New("line too long")

// ReadLine reads up to and with the next newline. What the end of the stream cuts
// off is returned together with the error.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long && len(line)+len(part) > MaxLine {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case err == nil && long:
			return nil, ErrTooLong
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// nextLine is ReadLine for a reader of messages: a last one without its newline
// counts.
func nextLine(r *bufio.Reader) ([]byte, error) {
	line, err := ReadLine(r)
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
		err = nil
	}
	return line, err
}

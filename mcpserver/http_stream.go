package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// tell sends a notification to the client on the stream of the request that is
// being served, before that request's answer.
type tell func(mcp.JSONRPCNotification)

type tellKey struct{}

func withTell(ctx context.Context, t tell) context.Context {
	return context.WithValue(ctx, tellKey{}, t)
}

// tellOf is how the request's client can be told something; telling nobody is
// no error.
func tellOf(ctx context.Context) tell {
	if t, ok := ctx.Value(tellKey{}).(tell); ok {
		return t
	}
	return func(mcp.JSONRPCNotification) {}
}

// stream is the answer to one request as the library writes it. A notification
// sent through notify turns it into an event stream, and what the library then
// writes as a plain JSON answer becomes that stream's last event; the library's
// own channel loses a notification that comes right before the answer.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	beatTime time.Duration
	// header is the library's own, copied when it is written: notify may run at
	// the same time.
	header http.Header

	mu     sync.Mutex
	begun  bool // the status is out
	events bool // as an event stream
	plain  bool // the library writes a plain answer into it
	last   bytes.Buffer
	beat   *time.Timer
	ended  bool
}

func newStream(w http.ResponseWriter, o HTTPOptions) *stream {
	return &stream{w: w, rc: http.NewResponseController(w), beatTime: o.BeatTime, header: http.Header{}}
}

// CanStream and the four below are what the library asks of a response.
func (s *stream) CanStream() bool { return true }

func (s *stream) Header() http.Header { return s.header }

func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeader(status)
}

func (s *stream) writeHeader(status int) {
	isEvents := strings.HasPrefix(s.header.Get("Content-Type"), "text/event-stream")
	if s.ended {
		return
	}
	if s.begun {
		s.plain = !isEvents
		return
	}
	maps.Copy(s.w.Header(), s.header)
	s.start(status, isEvents)
}

// start sends the status. s.mu is held.
func (s *stream) start(status int, events bool) {
	s.begun, s.events = true, events
	if events {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-store")
		s.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	}
	s.w.WriteHeader(status)
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return 0, io.ErrClosedPipe
	case s.events && s.plain:
		return s.last.Write(b)
	case !s.begun:
		s.writeHeader(http.StatusOK)
	}
	return s.w.Write(b)
}

func (s *stream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !s.ended {
		_ = s.rc.Flush() // a client that has gone shows at the next write
	}
}

// notify sends a notification at once.
func (s *stream) notify(n mcp.JSONRPCNotification) {
	b, err := json.Marshal(n)
	if err == nil {
		s.event("message", b)
	}
}

// event sends one event, and says whether it went out.
func (s *stream) event(name string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if !s.begun {
		s.start(http.StatusOK, true)
	}
	if !s.events {
		return false
	}
	_, err := s.w.Write(eventOf(name, data))
	if err == nil {
		err = s.rc.Flush()
	}
	return err == nil
}

func eventOf(name string, data []byte) []byte {
	b := make([]byte, 0, len(name)+len(data)+20)
	b = append(b, "event: "+name+"\ndata: "...)
	b = append(b, bytes.TrimRight(data, "\n")...)
	return append(b, "\n\n"...)
}

// keepAlive sends a comment now and then once the stream is open.
func (s *stream) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(s.beatTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended {
			return
		}
		if s.events {
			if _, err := s.w.Write([]byte(": still here\n\n")); err == nil {
				_ = s.rc.Flush()
			}
		}
		s.beat.Reset(s.beatTime)
	})
}

// end sends what is left. A cancelled request's answer is an event stream that
// says nothing.
func (s *stream) end(cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun && cancelled {
		s.start(http.StatusOK, true)
	}
	if s.last.Len() > 0 {
		if _, err := s.w.Write(eventOf("message", s.last.Bytes())); err == nil {
			_ = s.rc.Flush()
		}
	}
	s.ended = true
	if s.beat != nil {
		s.beat.Stop()
	}
}

// nowhere is a response that nobody reads.
type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header {
	if n.h == nil {
		n.h = http.Header{}
	}
	return n.h
}
func (*nowhere) WriteHeader(int)             {}
func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (*nowhere) Flush()                      {}
func (*nowhere) CanStream() bool             { return false }

func notification(method string, params map[string]any) mcp.JSONRPCNotification {
	return mcp.JSONRPCNotification{
		JSONRPC:      mcp.JSONRPC_VERSION,
		Notification: mcp.Notification{Method: method, Params: mcp.NotificationParams{AdditionalFields: params}},
	}
}

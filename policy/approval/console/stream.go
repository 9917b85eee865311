package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sallyport/policy/approval"
)

// maxStreams bounds the event streams of one login; a browser opens one a tab.
const maxStreams = 16

// heartbeat is how often a silent stream is written to, so that proxies keep it
// and an ended login closes it.
const heartbeat = 20 * time.Second

// change is what a page is told: enough to know that it should look again.
type change struct {
	Kind    approval.Kind `json:"kind"`
	Request string        `json:"request,omitempty"`
}

// events streams the desk's events to a page (server-sent events).
func (c *Console) events(w http.ResponseWriter, r *http.Request, s *session) {
	if !c.sessions.enter(s) {
		http.Error(w, "too many open pages of one login; close some", http.StatusTooManyRequests)
		return
	}
	defer c.sessions.leave(s)
	control := http.NewResponseController(w)
	// The server's write time-out is for pages; a stream has none.
	_ = control.SetWriteDeadline(time.Time{})
	all, cancel := c.o.Desk.Subscribe()
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	fmt.Fprint(w, "retry: 2000\n\n")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for control.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			if !c.sessions.alive(s) {
				return
			}
			fmt.Fprint(w, ": still here\n\n")
		case e, ok := <-all:
			if !ok || !c.sessions.alive(s) {
				return // the page connects again and reloads
			}
			send(w, e)
		}
	}
}

func send(w http.ResponseWriter, e approval.Event) {
	n := change{Kind: e.Kind}
	if e.Request != nil {
		n.Request = e.Request.ID
	}
	raw, err := json.Marshal(n)
	if err != nil { // two strings
		return
	}
	fmt.Fprintf(w, "event: change\ndata: %s\n\n", raw)
}

func (s *sessions) enter(l *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.streams >= maxStreams {
		return false
	}
	l.streams++
	return true
}

func (s *sessions) leave(l *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.streams--
}

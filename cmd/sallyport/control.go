package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"sallyport/audit"
	"sallyport/policy/approval"
)

// The control API is what people's commands speak over control.sock: JSON over
// HTTP. It exists once; where nobody serves, the command line opens the stores
// and asks the same handler in its own process (see backend.go).

// control is the handler over a daemon's stores.
func (d *daemon) control() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/status", d.getStatus)
	m.HandleFunc("POST /v1/stop", d.postStop)
	m.HandleFunc("GET /v1/doctor", d.getDoctor)
	m.HandleFunc("POST /v1/policy/eval", d.postEval)
	m.HandleFunc("POST /v1/hook", d.postHook)
	m.HandleFunc("POST /v1/console/link", d.page.postLink)
	deskRoutes(m, d.desk, d.personOf)
	m.HandleFunc("GET /v1/events", d.getEvents)
	presetRoutes(m, d.place, d.presets, d.desk, d.log, d.personOf)
	logRoutes(m, &d.log.Reader, d.keptAnchors)
	liveLogRoutes(m, d.log)
	m.HandleFunc("GET /v1/audit/push", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.pusher.Status(), nil) })
	tokenRoutes(m, d.place, d.tokens, d.log)
	return m
}

// deskRoutes are the routes that need the desk.
func deskRoutes(m *http.ServeMux, desk *approval.Desk, personOf func(*http.Request) approval.Person) {
	m.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, r *http.Request) {
		f := approval.Filter{All: r.URL.Query().Get("all") == "true", Session: r.URL.Query().Get("session"), Agent: r.URL.Query().Get("agent")}
		list, err := desk.List(f)
		answer(w, list, err)
	})
	m.HandleFunc("GET /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		req, err := desk.Get(r.PathValue("id"))
		answer(w, req, err)
	})
	m.HandleFunc("GET /v1/suggestions", func(w http.ResponseWriter, _ *http.Request) {
		list, err := desk.Suggest()
		answer(w, list, err)
	})
	m.HandleFunc("GET /v1/batches/{id}", func(w http.ResponseWriter, r *http.Request) {
		batch, err := desk.Batch(r.PathValue("id"))
		answer(w, batch, err)
	})
	m.HandleFunc("POST /v1/approvals/{id}/approve", func(w http.ResponseWriter, r *http.Request) {
		var in verdictIn
		if !read(w, r, &in) {
			return
		}
		o := approval.ApproveOptions{Scope: approval.Once, Note: in.Note, Shown: in.Shown}
		if in.Session {
			o.Scope = approval.Session
		}
		req, err := desk.Approve(r.PathValue("id"), personOf(r), o)
		answer(w, req, err)
	})
	m.HandleFunc("POST /v1/approvals/{id}/deny", func(w http.ResponseWriter, r *http.Request) {
		var in verdictIn
		if !read(w, r, &in) {
			return
		}
		req, err := desk.Deny(r.PathValue("id"), personOf(r), in.Note, in.Shown)
		answer(w, req, err)
	})
	m.HandleFunc("GET /v1/grants", func(w http.ResponseWriter, _ *http.Request) {
		list, err := desk.Grants()
		answer(w, list, err)
	})
	m.HandleFunc("POST /v1/grants", func(w http.ResponseWriter, r *http.Request) {
		var g approval.Grant
		if !read(w, r, &g) {
			return
		}
		g.By = personOf(r)
		made, err := desk.AddGrant(g)
		answer(w, made, err)
	})
	m.HandleFunc("DELETE /v1/grants/{id}", func(w http.ResponseWriter, r *http.Request) {
		g, err := desk.Revoke(r.PathValue("id"), personOf(r))
		answer(w, g, err)
	})
	m.HandleFunc("POST /v1/freeze", func(w http.ResponseWriter, r *http.Request) {
		var in approval.Scope
		if read(w, r, &in) {
			answer(w, in, desk.Freeze(in, personOf(r)))
		}
	})
	m.HandleFunc("POST /v1/lift", func(w http.ResponseWriter, r *http.Request) {
		var in approval.Scope
		if read(w, r, &in) {
			answer(w, in, desk.Lift(in, personOf(r)))
		}
	})
}

// getEvents streams the desk's events, one JSON document a line, until the caller
// leaves, falls behind, or the daemon stops.
func (d *daemon) getEvents(w http.ResponseWriter, r *http.Request) {
	events, cancel := d.desk.Subscribe()
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for e := json.NewEncoder(w); flush.Flush() == nil; {
		select {
		case <-r.Context().Done():
			return
		case <-d.ending:
			return
		case one, ok := <-events:
			if !ok || e.Encode(one) != nil {
				return
			}
		}
	}
}

// verdictIn is a person's decision.
type verdictIn struct {
	Session bool   `json:"session"` // also for the rest of the session
	Note    string `json:"note"`    // a denial's advice for the agent
	Shown   string `json:"shown"`   // Request.Shown as the person saw it
}

// logRoutes are the routes that need the log, read-only. anchors reads the
// checkpoints that the configured anchors have.
func logRoutes(m *http.ServeMux, log *audit.Reader, anchors func(context.Context) ([][]byte, error)) {
	m.HandleFunc("POST /v1/audit/records", func(w http.ResponseWriter, r *http.Request) {
		var f audit.Filter
		if !read(w, r, &f) {
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		e := plainJSON(w)
		if err := log.Select(r.Context(), f, func(rec audit.Record) bool { return e.Encode(rec) == nil }); err != nil {
			_ = e.Encode(problem{Error: err.Error()})
		}
	})
	m.HandleFunc("GET /v1/audit/records/{seq}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			answer(w, nil, fmt.Errorf("%q is not the number of a record", r.PathValue("seq")))
			return
		}
		rec, err := log.Get(audit.Seq(n))
		answer(w, rec, err)
	})
	m.HandleFunc("GET /v1/audit/verify", func(w http.ResponseWriter, r *http.Request) {
		kept, err := anchors(r.Context())
		if file := r.URL.Query().Get("anchor"); file != "" && err == nil {
			kept, err = anchorsIn(file, kept)
		}
		if err != nil {
			answer(w, nil, err)
			return
		}
		o := audit.VerifyOptions{Anchors: kept}
		rep, err := log.Verify(r.Context(), o)
		answer(w, rep, err)
	})
	moreLogRoutes(m, log)
	m.HandleFunc("POST /v1/audit/hash", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Value string }
		if read(w, r, &in) {
			answer(w, map[string]string{"redacted_as": log.Redact(in.Value), "digest": log.Digest([]byte(in.Value))}, nil)
		}
	})
}

// anchorsIn adds the checkpoints in a file: the text of an anchor, a journal or a
// system log, or one checkpoint alone.
func anchorsIn(file string, to [][]byte) ([][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the anchor: %w", err)
	}
	found, err := audit.ReadAnchors(bytes.NewReader(text))
	if err == nil && len(found) == 0 {
		found = [][]byte{text}
	}
	return append(to, found...), err
}

// status is what `sallyport status` shows.
type status struct {
	Serving  bool   `json:"serving"`
	Version  string `json:"version,omitempty"`
	PID      int    `json:"pid,omitempty"`
	State    string `json:"state"`
	Sessions int    `json:"sessions"`
	Pending  int    `json:"pending"`
	Frozen   bool   `json:"frozen"`
	Revision string `json:"revision,omitempty"`
	Policy   string `json:"policy_error,omitempty"` // why the last reload was refused
}

func (d *daemon) getStatus(w http.ResponseWriter, r *http.Request) {
	open, err := d.desk.List(approval.Filter{States: []approval.State{approval.StatePending}})
	s := status{
		Serving: true, Version: version, PID: os.Getpid(), State: d.place.state, Sessions: d.mcp.Sessions(),
		Pending: len(open), Frozen: len(d.desk.Freezes()) > 0,
	}
	bad := d.judges.ready(r.Context())
	if bad == nil {
		s.Revision, bad = d.judges.base.engine.Revision(), d.judges.base.engine.LastError()
	}
	if bad != nil {
		s.Policy = bad.Error()
	}
	answer(w, s, err)
}

func (d *daemon) postStop(w http.ResponseWriter, _ *http.Request) {
	answer(w, status{PID: os.Getpid(), Version: version, State: d.place.state}, nil)
	time.AfterFunc(50*time.Millisecond, func() { d.stop(errors.New("a person stopped it")) }) // the answer leaves first
}

func (d *daemon) getDoctor(w http.ResponseWriter, r *http.Request) {
	bad := d.judges.ready(r.Context())
	if bad == nil {
		bad = d.judges.base.engine.LastError()
	}
	c := examine(r.Context(), d.runner, bad)
	c.Problems = append(c.Problems, append(pushProblems(d.pusher.Status()), anchorProblems(d.log)...)...)
	answer(w, c, nil)
}

func (d *daemon) postEval(w http.ResponseWriter, r *http.Request) {
	var in evalIn
	if read(w, r, &in) {
		out, err := d.judges.eval(r.Context(), in)
		answer(w, out, err)
	}
}

// problem is an error as the API carries it.
type problem struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusInternalServerError
		switch {
		case errors.Is(err, approval.ErrNotFound), errors.Is(err, audit.ErrNoRecord):
			code = http.StatusNotFound
		case errors.Is(err, approval.ErrRefused):
			code = http.StatusForbidden
		case errors.Is(err, approval.ErrDecided):
			code = http.StatusConflict
		case errors.Is(err, approval.ErrInvalid):
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
		v = problem{Error: err.Error()}
	}
	_ = plainJSON(w).Encode(v)
}

// plainJSON writes <, > and & as they are: what commands show is the text that was
// recorded.
func plainJSON(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// read decodes a request's one JSON document; it answers a bad one itself.
func read(w http.ResponseWriter, r *http.Request, v any) bool { return readUpTo(w, r, v, 1<<20) }

// readUpTo is read for a document of at most so many bytes.
func readUpTo(w http.ResponseWriter, r *http.Request, v any, most int64) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(problem{Error: "read the request: " + err.Error()})
		return false
	}
	return true
}

type unixPeerKey struct{}

// withUnixPeer notes who is at the other end of a control connection.
func withUnixPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	p, err := peerOf(u)
	if err != nil {
		c.Close()
		return ctx
	}
	return context.WithValue(ctx, unixPeerKey{}, p)
}

// personOf is the person behind a control request; where the configuration asks
// for it, a process that an agent's host started speaks for that agent's session
// and decides nothing of it.
func (d *daemon) personOf(r *http.Request) approval.Person {
	who := d.config.holding(personOf(r))
	p, ok := r.Context().Value(unixPeerKey{}).(peer)
	if d.config.Approvers != "other-process" || !ok {
		return who
	}
	d.hostsMu.Lock()
	defer d.hostsMu.Unlock()
	for session, host := range d.hosts {
		if from, err := approval.DescendsFrom(p.pid, host); from || err != nil {
			who.Session = session
		}
	}
	return who
}

// personOf is the person behind a control request, by the kernel's word.
func personOf(r *http.Request) approval.Person {
	p, ok := r.Context().Value(unixPeerKey{}).(peer)
	if !ok {
		p = self()
	}
	return approval.Person{Name: p.user, Channel: "cli", From: "control.sock", UID: p.uid}
}

func query(kv ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			q.Set(kv[i], kv[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/policy"
)

// site is a Server behind HTTP whose bearer tokens are the agents' names.
type site struct {
	t    *testing.T
	url  string
	end  *Endpoint
	run  *slowRunner
	log  *memoryLog
	root string
}

func open(t *testing.T, o HTTPOptions) *site {
	t.Helper()
	s, run, log := gated()
	root := t.TempDir()
	o.Authenticate = func(r *http.Request) (*Peer, error) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || name == "" {
			return nil, errors.New("no token")
		}
		return &Peer{Agent: name, Credential: "token:" + name, Workspace: root, MaxTier: policy.L3}, nil
	}
	e := s.HTTP(o)
	srv := httptest.NewServer(e)
	t.Cleanup(func() { e.Close(ended()); srv.Close() })
	return &site{t: t, url: srv.URL, end: e, run: run, log: log, root: root}
}

// ended is a context with no time left.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// request is one HTTP request of an agent.
func (s *site) request(ctx context.Context, agent, method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if agent != "" {
		r.Header.Set("Authorization", "Bearer "+agent)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		require.ErrorIs(s.t, err, context.Canceled)
		return nil
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`

// session opens a session and returns its id.
func (s *site) session(agent string) string {
	s.t.Helper()
	r := s.request(context.Background(), agent, "POST", "/mcp", hello)
	require.Equal(s.t, 200, r.StatusCode, "initialize")
	_ = text(s.t, r)
	id := r.Header.Get("Mcp-Session-Id")
	require.NotEmpty(s.t, id)
	return id
}

func callOf(id any, tool, args string) string {
	b, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, b, tool, args)
}

func cancelOf(id any) string {
	b, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, b)
}

const readIt = `{"path":"a.txt"}`

// modern makes a message one of protocol 2026-07-28.
func modern(body string) string {
	return strings.Replace(body, `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`, 1)
}

func modernHeaders(method, name string) []string {
	h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", name)
	}
	return h
}

func TestHTTPCallIsRecorded(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	close(s.run.let)
	id := s.session("ann")
	r := s.request(context.Background(), "ann", "POST", "/mcp", callOf(1, "read_file", readIt), "Mcp-Session-Id", id)
	require.Equal(t, 200, r.StatusCode)
	assert.Contains(t, text(t, r), `"id":1`)
	rec := s.log.all()
	require.Len(t, rec, 1)
	assert.Equal(t, "ann", rec[0].Agent)
	assert.Equal(t, "probe/1", rec[0].Client)
	assert.NotEmpty(t, rec[0].Session)
	assert.NotContains(t, rec[0].Session, id, "the session id is a secret")
}

func TestHTTPRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{Origins: []string{"https://console.example"}, ResourceMetadata: "https://x.example/.well-known/oauth-protected-resource"})
	id := s.session("ann")
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, tc := range []struct {
		name, agent, method, path, body string
		headers                         []string
		want                            int
	}{
		{"no identity", "", "POST", "/mcp", list, nil, 401},
		{"no identity, stream", "", "GET", "/sse", "", nil, 401},
		{"no session", "ann", "POST", "/mcp", list, nil, 400},
		{"unknown session", "ann", "POST", "/mcp", list, []string{"Mcp-Session-Id", "mcp-session-0"}, 404},
		{"another's session", "bob", "POST", "/mcp", list, []string{"Mcp-Session-Id", id}, 404},
		{"another's stream", "bob", "GET", "/mcp", "", []string{"Mcp-Session-Id", id}, 404},
		{"another's end", "bob", "DELETE", "/mcp", "", []string{"Mcp-Session-Id", id}, 404},
		{"path in a session id", "ann", "POST", "/mcp", list, []string{"Mcp-Session-Id", "../../etc/passwd"}, 404},
		{"path in a message's session id", "ann", "POST", "/message?sessionId=..%2f..%2fetc", list, nil, 404},
		{"streamable session at /message", "ann", "POST", "/message?sessionId=" + id, list, nil, 404},
		{"foreign Host", "ann", "POST", "/mcp", hello, []string{"Host", "evil.example"}, 403},
		{"foreign Host, stream", "ann", "GET", "/sse", "", []string{"Host", "evil.example:80"}, 403},
		{"foreign Origin", "ann", "POST", "/mcp", hello, []string{"Origin", "https://evil.example"}, 403},
		{"foreign Origin, stream", "ann", "GET", "/sse", "", []string{"Origin", "https://evil.example"}, 403},
		{"null Origin", "ann", "POST", "/mcp", hello, []string{"Origin", "null"}, 403},
		{"cross-site fetch", "ann", "POST", "/mcp", hello, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"configured Origin", "ann", "POST", "/mcp", hello, []string{"Origin", "https://console.example"}, 200},
		{"not JSON", "ann", "POST", "/mcp", "{", []string{"Mcp-Session-Id", id}, 400},
		{"empty", "ann", "POST", "/mcp", "", []string{"Mcp-Session-Id", id}, 400},
		{"a batch", "ann", "POST", "/mcp", "[" + list + "]", []string{"Mcp-Session-Id", id}, 400},
		{"not UTF-8", "ann", "POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe", []string{"Mcp-Session-Id", id}, 400},
		{"wrong method", "ann", "PUT", "/mcp", "", nil, 405},
		{"elsewhere", "ann", "GET", "/etc/passwd", "", nil, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := s.request(context.Background(), tc.agent, tc.method, tc.path, tc.body, tc.headers...)
			assert.Equal(t, tc.want, r.StatusCode, text(t, r))
			assert.Empty(t, r.Header.Get("Access-Control-Allow-Origin"))
			if tc.want == 401 {
				assert.Equal(t, `Bearer realm="sallyport", resource_metadata="https://x.example/.well-known/oauth-protected-resource"`, r.Header.Get("WWW-Authenticate"))
			}
		})
	}
	assert.Empty(t, s.log.all(), "nothing of this is a call")
}

func TestHTTPSessionEnds(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	r := s.request(context.Background(), "ann", "DELETE", "/mcp", "", "Mcp-Session-Id", id)
	assert.Equal(t, 200, r.StatusCode)
	r = s.request(context.Background(), "ann", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
	assert.Equal(t, 404, r.StatusCode)
	assert.Zero(t, s.end.Sessions())
}

func TestHTTPSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{MaxSessions: 3, MaxOwnSessions: 2})
	s.session("ann")
	s.session("ann")
	r := s.request(context.Background(), "ann", "POST", "/mcp", hello)
	assert.Equal(t, 429, r.StatusCode, "her third")
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	s.session("bob")
	assert.Equal(t, 429, s.request(context.Background(), "cid", "POST", "/mcp", hello).StatusCode, "the fourth of all")
}

func TestHTTPIdleSessionsEnd(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{SessionIdle: time.Minute})
	var late time.Duration
	s.end.table.now = func() time.Time { return time.Now().Add(late) }
	id := s.session("ann")
	s.end.sweep()
	assert.Equal(t, 1, s.end.Sessions())
	late = 2 * time.Minute
	s.end.sweep()
	assert.Zero(t, s.end.Sessions())
	r := s.request(context.Background(), "ann", "POST", "/mcp", callOf(1, "read_file", readIt), "Mcp-Session-Id", id)
	assert.Equal(t, 404, r.StatusCode)
}

// started waits until n calls run.
func (s *site) started(n int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.run.begun.Load() >= n }, 10*time.Second, time.Millisecond)
}

func (s *site) cancelled(n int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.run.cancelled.Load() >= n }, 10*time.Second, time.Millisecond)
}

// post sends a message in the background and returns what hangs it up.
func (s *site) post(agent, body string, headers ...string) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	go func() {
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/mcp", strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+agent)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	return cancel
}

func TestHTTPCancelsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	ann, other, bob := s.session("ann"), s.session("ann"), s.session("bob")
	s.post("ann", callOf(1, "read_file", readIt), "Mcp-Session-Id", ann)
	s.started(1)
	for _, from := range []struct{ agent, session string }{{"bob", bob}, {"ann", other}} {
		r := s.request(context.Background(), from.agent, "POST", "/mcp", cancelOf(1), "Mcp-Session-Id", from.session)
		assert.Equal(t, 202, r.StatusCode)
	}
	r := s.request(context.Background(), "ann", "POST", "/mcp", cancelOf("1"), "Mcp-Session-Id", ann)
	assert.Equal(t, 202, r.StatusCode)
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, s.run.cancelled.Load(), "another session's 1 and this one's \"1\" are other requests")
	s.request(context.Background(), "ann", "POST", "/mcp", cancelOf(1), "Mcp-Session-Id", ann)
	s.cancelled(1)
	require.Eventually(t, func() bool { return len(s.log.all()) == 1 }, 5*time.Second, time.Millisecond)
	assert.Equal(t, audit.StatusCancelled, s.log.all()[0].Status)
}

func TestHTTPModernCancelsNobody(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	hangUp := s.post("ann", modern(callOf(1, "read_file", readIt)), modernHeaders("tools/call", "read_file")...)
	s.started(1)
	s.post("ann", modern(callOf(1, "read_file", readIt)), modernHeaders("tools/call", "read_file")...)
	s.started(2)
	for _, agent := range []string{"ann", "bob"} {
		r := s.request(context.Background(), agent, "POST", "/mcp", modern(cancelOf(1)), modernHeaders("notifications/cancelled", "")...)
		assert.Equal(t, 202, r.StatusCode)
	}
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, s.run.cancelled.Load())
	hangUp()
	s.cancelled(1)
	time.Sleep(20 * time.Millisecond)
	assert.EqualValues(t, 1, s.run.cancelled.Load(), "the other request of that id goes on")
}

func TestHTTPRefusesDuplicateIDs(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	s.post("ann", callOf(7, "read_file", readIt), "Mcp-Session-Id", id)
	s.started(1)
	r := s.request(context.Background(), "ann", "POST", "/mcp", callOf(7, "read_file", readIt), "Mcp-Session-Id", id)
	assert.Equal(t, 400, r.StatusCode)
	assert.Contains(t, text(t, r), "fresh id")
}

func TestHTTPBodiesAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	for _, size := range []int{MaxLine + 1, 64 << 20, 200 << 20} {
		r, err := http.NewRequest("POST", s.url+"/mcp", io.LimitReader(endless{}, int64(size)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Mcp-Session-Id", id)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue // the server hung up on it, which is as good
		}
		assert.Equal(t, 413, resp.StatusCode)
		resp.Body.Close()
	}
	assert.Contains(t, text(t, s.request(context.Background(), "ann", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)), "result")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestCloseLetsCallsEnd(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	s.post("ann", callOf(1, "read_file", readIt), "Mcp-Session-Id", id)
	s.started(1)
	closed := make(chan struct{})
	go func() { defer close(closed); s.end.Close(context.Background()) }()
	require.Eventually(t, func() bool {
		// A ping, for a call that is still let in would wait for the first.
		r := s.request(context.Background(), "ann", "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id)
		return r.StatusCode == 503
	}, time.Minute, 5*time.Millisecond, "no new requests")
	close(s.run.let)
	<-closed
	assert.Zero(t, s.run.cancelled.Load(), "the running one was let go on")
	assert.Zero(t, s.end.Sessions())
}

package mcpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
)

// raw opens a TCP connection to the site.
func (s *site) raw(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// quick checks that another client is served at once.
func (s *site) quick(agent, session string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r := s.request(ctx, agent, "POST", "/mcp", `{"jsonrpc":"2.0","id":"q","method":"ping"}`, "Mcp-Session-Id", session)
	require.NotNil(s.t, r, "answered in time")
	assert.Equal(s.t, 200, r.StatusCode)
}

func TestHalfOpenConnectionsSlowNobody(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("bob")
	for i := range size(9000, 400) {
		c := s.raw(t)
		switch i % 3 {
		case 0: // says nothing
		case 1: // half a header
			_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
		case 2: // half a body
			_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		}
	}
	s.quick("bob", id)
}

func TestStalledBodiesFillOneIdentityOnly(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("bob")
	for range 2 * inFlight {
		c := s.raw(t)
		_, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", MaxLine)
		require.NoError(t, err)
	}
	time.Sleep(50 * time.Millisecond)
	s.quick("bob", id)
}

func TestBusySessionWaitsInItsOwnLane(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	ann, bob := s.session("ann"), s.session("bob")
	for i := range inFlight + 20 {
		s.post("ann", callOf(i, "read_file", readIt), "Mcp-Session-Id", ann)
	}
	s.started(inFlight)
	time.Sleep(100 * time.Millisecond)
	assert.EqualValues(t, inFlight, s.run.begun.Load(), "no more run at a time")
	s.quick("bob", bob)
	close(s.run.let)
	s.started(inFlight + 20)
}

func TestSmuggledRequestsAreNotServed(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	inner := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\nContent-Type: application/json\r\nContent-Length: " +
		fmt.Sprint(len(hello)) + "\r\n\r\n" + hello
	for name, head := range map[string]string{
		"both lengths":     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"two lengths":      "Content-Length: 5\r\nContent-Length: 6\r\n",
		"odd coding":       "Transfer-Encoding: xchunked\r\n",
		"space in header":  "Content-Length : 5\r\n",
		"folded header":    "X: a\r\n b\r\nContent-Length: 0\r\n",
		"bare carriage":    "X: a\rContent-Length: 5\r\n",
		"signed length":    "Content-Length: +5\r\n",
		"two host headers": "Host: evil.example\r\nContent-Length: 0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := s.raw(t)
			_, err := io.WriteString(c, "POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n"+head+"\r\n0\r\n\r\n"+inner)
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(2*time.Second)))
			got, _ := io.ReadAll(bufio.NewReader(c))
			assert.NotContains(t, string(got), "serverInfo", "what hides in a body is no request")
		})
	}
	assert.Zero(t, s.end.Sessions())
}

func TestNothingFollowsTheEndOfAStream(t *testing.T) {
	t.Parallel()
	st := newStream(httptest.NewRecorder(), HTTPOptions{}.withDefaults())
	st.notify(notification("n", nil))
	st.end(false)
	st.notify(notification("late", nil))
	assert.NotContains(t, st.w.(*httptest.ResponseRecorder).Body.String(), "late", "nothing is written after the end")
}

func TestAnswerFollowsItsNotifications(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(NewFixture(slog.New(slog.DiscardHandler)))
	defer srv.Close()
	ask := func(body string, headers ...string) (string, http.Header) {
		r, err := http.NewRequest("POST", srv.URL+"/mcp", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		return text(t, resp), resp.Header
	}
	_, h := ask(hello)
	call := strings.Replace(callOf(1, "test_tool_with_progress", "{}"), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1)
	for range 20 {
		got, h := ask(call, "Mcp-Session-Id", h.Get("Mcp-Session-Id"))
		assert.Equal(t, "text/event-stream", h.Get("Content-Type"))
		assert.Equal(t, 3, strings.Count(got, "notifications/progress"), "none is lost")
		assert.Greater(t, strings.Index(got, `"result"`), strings.LastIndex(got, "notifications/progress"))
	}
}

func TestKeyTellsRightsApart(t *testing.T) {
	t.Parallel()
	base := Peer{Agent: "a", User: "u", Workspace: "/w", Credential: "jwt:u", MaxTier: policy.L2}
	seen := map[string]string{key(&base): "base"}
	for name, change := range map[string]func(*Peer){
		"agent":      func(p *Peer) { p.Agent = "b" },
		"user":       func(p *Peer) { p.User = "v" },
		"workspace":  func(p *Peer) { p.Workspace = "/x" },
		"credential": func(p *Peer) { p.Credential = "token:u" },
		"tier":       func(p *Peer) { p.MaxTier = policy.L0 },
		"no tools":   func(p *Peer) { p.Tools = []string{} },
		"one tool":   func(p *Peer) { p.Tools = []string{"grep"} },
		"two tools":  func(p *Peer) { p.Tools = []string{"grep", "glob"} },
		"odd tool":   func(p *Peer) { p.Tools = []string{`grep" "glob`} },
	} {
		p := base
		change(&p)
		assert.Empty(t, seen[key(&p)], name)
		seen[key(&p)] = name
	}
}

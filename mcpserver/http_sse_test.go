package mcpserver

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// events reads an event stream.
type events struct {
	t  *testing.T
	in *bufio.Scanner
}

func (s *site) stream(ctx context.Context, agent, path string, headers ...string) *events {
	r := s.request(ctx, agent, "GET", path, "", headers...)
	require.Equal(s.t, 200, r.StatusCode)
	assert.Empty(s.t, r.Header.Get("Access-Control-Allow-Origin"))
	return &events{s.t, bufio.NewScanner(r.Body)}
}

func (e *events) next() string {
	e.t.Helper()
	for e.in.Scan() {
		if data, ok := strings.CutPrefix(e.in.Text(), "data: "); ok {
			return data
		}
	}
	require.Fail(e.t, "the stream ended", "%v", e.in.Err())
	return ""
}

func TestSSECall(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	close(s.run.let)
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	ev := s.stream(ctx, "ann", "/sse")
	to := ev.next()
	assert.Equal(t, 404, s.request(ctx, "bob", "POST", to, hello).StatusCode, "another's")
	require.Equal(t, 202, s.request(ctx, "ann", "POST", to, hello).StatusCode)
	assert.Contains(t, ev.next(), `"serverInfo"`)
	require.Equal(t, 202, s.request(ctx, "ann", "POST", to, callOf(3, "read_file", readIt)).StatusCode)
	assert.Contains(t, ev.next(), `"id":3`)
	assert.Equal(t, "ann", s.log.all()[0].Agent)
	assert.Equal(t, 400, s.request(ctx, "ann", "POST", to, "{").StatusCode)
	hangUp()
	require.Eventually(t, func() bool {
		return s.request(context.Background(), "ann", "POST", to, hello).StatusCode == 404
	}, 5*time.Second, 5*time.Millisecond)
}

func TestSSEHangUpCancels(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	ctx, hangUp := context.WithCancel(context.Background())
	ev := s.stream(ctx, "ann", "/sse")
	to := ev.next()
	s.request(ctx, "ann", "POST", to, hello)
	ev.next()
	s.request(context.Background(), "ann", "POST", to, callOf(3, "read_file", readIt))
	s.started(1)
	hangUp()
	s.cancelled(1)
	require.Eventually(t, func() bool { return len(s.log.all()) == 1 }, 5*time.Second, time.Millisecond)
	assert.Equal(t, audit.StatusCancelled, s.log.all()[0].Status)
}

func TestStandingStreamHearsOfChangedTools(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	first := s.stream(t.Context(), "ann", "/mcp", "Mcp-Session-Id", id)
	second := s.stream(t.Context(), "ann", "/mcp", "Mcp-Session-Id", id)
	assert.False(t, first.in.Scan(), "a newer stream takes the older one's place")
	s.end.s.ToolsChanged()
	assert.Contains(t, second.next(), "notifications/tools/list_changed")
}

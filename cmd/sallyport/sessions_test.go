package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := newSessions()
	s.enter("s-own")
	s.enter("s-own")
	assert.False(t, s.leave("s-own", now), "another connection has it")
	assert.True(t, s.leave("s-own", now))

	s.enter("named")
	s.expect("before", now)
	s.expect("named", now)
	assert.False(t, s.leave("named", now))
	assert.Empty(t, s.due(now.Add(59*time.Minute), time.Hour))
	s.enter("named") // it came back
	assert.Equal(t, []string{"before"}, s.due(now.Add(time.Hour), time.Hour))
	assert.Empty(t, s.due(now.Add(9*time.Hour), time.Hour))
	assert.False(t, s.leave("named", now.Add(9*time.Hour)))
	assert.Equal(t, []string{"named"}, s.due(now.Add(10*time.Hour), time.Hour))
}

// What was granted for a session ends when its one connection does.
func TestSessionGrantEndsWithTheShim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unnamed := func() *wire {
		cmd := w.command("mcp", "--workspace", w.work)
		cmd.Env = append(cmd.Env, "SALLYPORT_SESSION=", "CLAUDE_CODE_SESSION_ID=")
		return w.over(cmd)
	}
	c := unnamed()
	c.send(call(1, "write_file", `{"path":"one.txt","content":"1"}`))
	assert.Contains(t, c.recv(), "pending")
	out, err := w.run("approvals", "approve", "--session", w.pending()[0].ID)
	require.NoError(t, err, out)
	c.send(call(2, "write_file", `{"path":"two.txt","content":"2"}`))
	assert.NotContains(t, c.recv(), "pending", "granted for the session")
	c.send(call(3, "write_file", `{"path":".github/workflows/x.yml","content":"x"}`))
	assert.Contains(t, c.recv(), "pending")
	require.Len(t, w.pending(), 1)

	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
	waitFor(t, "the session's grant is revoked", func() bool { return w.grantStates()["revoked"] == 1 })
	assert.Empty(t, w.pending(), "what it had open is withdrawn")
	next := unnamed()
	next.send(call(1, "write_file", `{"path":"three.txt","content":"3"}`))
	assert.Contains(t, next.recv(), "pending")
}

// A session that its host named outlives the connection: the host may come back.
func TestSessionGrantOfANamedSessionWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect() // session "wire"
	c.send(call(1, "write_file", `{"path":"four.txt","content":"4"}`))
	assert.Contains(t, c.recv(), "pending")
	out, err := w.run("approvals", "approve", "--session", w.pending()[0].ID)
	require.NoError(t, err, out)
	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
	c = w.connect()
	c.send(call(1, "write_file", `{"path":"five.txt","content":"5"}`))
	assert.NotContains(t, c.recv(), "pending")
}

// A session over HTTP ends with DELETE, and when it has been idle for too long.
func TestSessionGrantEndsOverHTTP(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t)
	h.configure("http: {session_idle: 15s}\n")
	h.serve()
	token, _ := h.token("--agent", "ci", "--max-tier", "L3")
	granted := func(name string) string {
		_, body, header := h.post(token, "", initialize)
		session := header.Get("Mcp-Session-Id")
		require.NotEmpty(t, session, body)
		require.Contains(t, h.call(token, session, "write_file", `{"path":"`+name+`","content":"1"}`), "pending")
		id := h.request(name)
		_, err := h.sallyport("approvals", "approve", "--session", id)
		require.NoError(t, err)
		require.NotContains(t, h.call(token, session, "write_file", `{"path":"more-`+name+`","content":"2"}`), "pending")
		return session
	}
	session := granted("deleted.txt")
	r, err := http.NewRequestWithContext(t.Context(), "DELETE", h.url+"/mcp", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Mcp-Session-Id", session)
	resp, err := h.client.Do(r)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	waitFor(t, "a deleted session's grant is revoked", func() bool { return h.grantStates()["revoked"] == 1 })

	granted("idle.txt")
	waitFor(t, "an idle session's grant is revoked", func() bool { return h.grantStates()["revoked"] == 2 })
}

// request is the id of the request that waits and names this in its summary.
func (h *house) request(name string) string {
	h.t.Helper()
	out, err := h.sallyport("approvals", "list", "--json")
	require.NoError(h.t, err)
	var all []approval.Request
	require.NoError(h.t, json.Unmarshal([]byte(out), &all))
	for _, r := range all {
		if strings.Contains(r.Summary, name) && r.State == approval.StatePending {
			return r.ID
		}
	}
	h.t.Fatalf("no request for %s waits: %s", name, out)
	return ""
}

// grantStates counts the grants by state.
func (w *world) grantStates() map[string]int {
	w.t.Helper()
	out, err := w.command("grants", "list", "--json").Output()
	require.NoError(w.t, err)
	return grantStates(w.t, out)
}

func (h *house) grantStates() map[string]int {
	h.t.Helper()
	out, err := h.sallyport("grants", "list", "--json")
	require.NoError(h.t, err)
	return grantStates(h.t, []byte(out))
}

func grantStates(t *testing.T, list []byte) map[string]int {
	t.Helper()
	var all []approval.Grant
	require.NoError(t, json.Unmarshal(list, &all))
	n := map[string]int{}
	for _, g := range all {
		n[g.State(time.Now())]++
	}
	return n
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// house is a real daemon with HTTP, a state and a workspace of its own.
type house struct {
	t         *testing.T
	dir       string // state, config and workspace lie in it
	url       string
	client    *http.Client
	workspace string
	env       []string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := emptyHouse(t)
	h.serve()
	return h
}

func emptyHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{t: t, dir: dir, workspace: filepath.Join(dir, "work"), client: http.DefaultClient}
	require.NoError(t, os.Mkdir(h.workspace, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(h.workspace, "a.txt"), []byte("hello over http\n"), 0o644))
	h.env = append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(dir, "state"), "SALLYPORT_CONFIG="+filepath.Join(dir, "config"),
		"HOME="+filepath.Join(dir, "home"), "NO_COLOR=1")
	return h
}

// configure writes config.yaml.
func (h *house) configure(yaml string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Join(h.dir, "config"), 0o700))
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, "config", "config.yaml"), []byte(yaml), 0o600))
}

// serve starts the daemon and waits until it serves, on any port unless args say
// otherwise.
func (h *house) serve(args ...string) {
	t := h.t
	t.Helper()
	if len(args) == 0 {
		args = []string{"serve", "--http", "127.0.0.1:0"}
	}
	cmd := exec.Command(filepath.Join(binaries, "sallyport"), args...)
	cmd.Env = h.env
	log := &lockedBuffer{}
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	addr := regexp.MustCompile(`addr=(\S+) tls=(\S+)`)
	require.Eventually(t, func() bool {
		m := addr.FindStringSubmatch(log.String())
		if m != nil {
			h.url = map[string]string{"true": "https://", "false": "http://"}[m[2]] + m[1]
		}
		return m != nil
	}, 60*time.Second, 10*time.Millisecond, "the daemon serves")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sallyport runs a command of the program and returns what it prints.
func (h *house) sallyport(args ...string) (string, error) {
	h.t.Helper()
	out, err := h.command(args...).Output()
	return strings.TrimSpace(string(out)), err
}

func (h *house) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries, "sallyport"), args...)
	cmd.Env, cmd.Dir = h.env, h.workspace
	return cmd
}

func (h *house) token(args ...string) (string, string) {
	h.t.Helper()
	out, err := h.sallyport(append([]string{"token", "create", "--json"}, args...)...)
	require.NoError(h.t, err)
	var t struct{ Token, ID string }
	require.NoError(h.t, json.Unmarshal([]byte(out), &t))
	return t.Token, t.ID
}

func (h *house) post(token, session, body string) (int, string, http.Header) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), "POST", h.url+"/mcp", strings.NewReader(body))
	require.NoError(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := h.client.Do(r)
	require.NoError(h.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return resp.StatusCode, string(b), resp.Header
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`

func (h *house) call(token, session, tool, args string) string {
	h.t.Helper()
	code, body, _ := h.post(token, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
	require.Equal(h.t, 200, code, body)
	return body
}

func TestHTTPTokenLives(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token, id := h.token("--agent", "ci", "--max-tier", "L1")
	code, body, header := h.post(token, "", initialize)
	require.Equal(t, 200, code, body)
	session := header.Get("Mcp-Session-Id")
	assert.Contains(t, h.call(token, session, "read_file", `{"path":"a.txt"}`), "hello over http")
	assert.Contains(t, h.call(token, session, "read_file", `{"path":"../state/tokens"}`), `"isError":true`)

	child, _ := h.token("--agent", "ci/reader", "--parent", id, "--tools", "grep")
	_, body, header = h.post(child, "", initialize)
	narrow := header.Get("Mcp-Session-Id")
	require.NotEmpty(t, narrow, body)
	_, body, _ = h.post(child, narrow, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	assert.Contains(t, body, `"name":"grep"`)
	assert.NotContains(t, body, "run_command")
	_, body, _ = h.post(child, narrow, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`)
	assert.Contains(t, body, `"error"`, "a tool that is not granted does not exist")
	code, _, _ = h.post(child, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	assert.Equal(t, 404, code, "the parent's session is not the child's")

	out, err := h.sallyport("token", "list")
	require.NoError(t, err)
	assert.Contains(t, out, "ci/reader")
	assert.NotContains(t, out, token)
	_, err = h.sallyport("token", "revoke", id)
	require.NoError(t, err)
	for _, gone := range []string{token, child} {
		code, _, header = h.post(gone, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		assert.Equal(t, 401, code)
		assert.Contains(t, header.Get("WWW-Authenticate"), `error="invalid_token"`)
	}
	out, err = h.sallyport("audit", "list", "--json")
	require.NoError(t, err)
	assert.Contains(t, out, "token.revoke")
	assert.NotContains(t, out, token[strings.LastIndex(token, "_")+1:], "no record holds a secret")
}

func TestHTTPTierOfATokenHolds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token, _ := h.token("--agent", "reader", "--max-tier", "L0")
	_, _, header := h.post(token, "", initialize)
	body := h.call(token, header.Get("Mcp-Session-Id"), "write_file", `{"path":"b.txt","content":"x"}`)
	assert.Contains(t, body, `"isError":true`)
	assert.NotContains(t, body, "pending", "nobody can approve what the token does not grant")
	assert.NoFileExists(t, filepath.Join(h.workspace, "b.txt"))
}

func TestHTTPHealth(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for path, want := range map[string]string{"/healthz": `"alive":true`, "/readyz": `"ready":true`} {
		resp, err := http.Get(h.url + path)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, string(b), want)
	}
}

func TestTokensWithoutADaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := &house{t: t, workspace: filepath.Join(dir, "work"), env: append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(dir, "state"),
		"SALLYPORT_CONFIG="+filepath.Join(dir, "config"), "HOME="+filepath.Join(dir, "home"))}
	require.NoError(t, os.Mkdir(h.workspace, 0o755))
	_, id := h.token("--agent", "ci")
	out, err := h.sallyport("token", "list")
	require.NoError(t, err)
	assert.Contains(t, out, id)
	_, err = h.sallyport("token", "create", "--agent", "other", "--parent", id)
	assert.Error(t, err)
}

func TestHTTPNeedsTLSBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		c    httpConfig
		want string
	}{
		{httpConfig{Listen: "0.0.0.0:0"}, "insecure_non_loopback"},
		{httpConfig{Listen: ":0"}, "insecure_non_loopback"},
		{httpConfig{Listen: "[::]:0"}, "insecure_non_loopback"},
		{httpConfig{Listen: "127.0.0.1:0", ClientCA: "ca.pem"}, "needs http.tls_cert"},
		{httpConfig{Listen: "0.0.0.0:0", TLSCert: "none.pem", TLSKey: "none.key"}, "tls_cert"},
		{httpConfig{Listen: "127.0.0.1:0"}, ""},
		{httpConfig{Listen: "localhost:0"}, ""},
		{httpConfig{Listen: "127.0.0.1:0", InsecureNonLoopback: true}, ""},
	} {
		l, err := tc.c.open()
		if tc.want != "" {
			assert.ErrorContains(t, err, tc.want, tc.c.Listen)
			continue
		}
		require.NoError(t, err)
		l.Close()
	}
}

func TestHTTPMetricsAndResources(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token, _ := h.token("--agent", "ci", "--max-tier", "L1")
	_, _, header := h.post(token, "", initialize)
	session := header.Get("Mcp-Session-Id")
	h.call(token, session, "read_file", `{"path":"a.txt"}`)
	resp, err := http.Get(h.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(b), `sallyport_calls_total{gen_ai_tool_name="read_file",sallyport_status="ok",sallyport_tier="L0",sallyport_verdict="allow"} 1`)
	assert.Contains(t, string(b), `sallyport_sessions{network_transport="http"} 1`)
	assert.Contains(t, string(b), `mcp_server_operation_duration_seconds_count`)
	assert.Contains(t, string(b), `sallyport_approvals_pending 0`)

	_, body, _ := h.post(token, session, `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"sallyport://session"}}`)
	assert.Contains(t, body, "read_file")
	_, body, _ = h.post(token, session, `{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":"sallyport://policy"}}`)
	assert.Contains(t, body, "remedy")
}

func TestHTTPTokenEndsAndStaysInItsWorkspace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	short, _ := h.token("--agent", "short", "--max-tier", "L1", "--ttl", "4s")
	other := filepath.Join(h.dir, "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(other, "b.txt"), []byte("of the other workspace\n"), 0o644))
	foreign, _ := h.token("--agent", "foreign", "--max-tier", "L1", "--workspace", other)

	_, body, header := h.post(short, "", initialize)
	session := header.Get("Mcp-Session-Id")
	require.NotEmpty(t, session, body)
	waitFor(t, "the token has expired", func() bool {
		code, _, _ := h.post(short, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		return code == 401
	})

	_, _, header = h.post(foreign, "", initialize)
	there := header.Get("Mcp-Session-Id")
	assert.Contains(t, h.call(foreign, there, "read_file", `{"path":"b.txt"}`), "of the other workspace")
	for _, path := range []string{filepath.Join(h.workspace, "a.txt"), "../work/a.txt", "/proc/self/root" + h.workspace + "/a.txt"} {
		got := h.call(foreign, there, "read_file", fmt.Sprintf(`{"path":%q}`, path))
		assert.Contains(t, got, `"isError":true`, path)
		assert.NotContains(t, got, "hello over http", path)
	}
	code, _, _ := h.post(foreign, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	assert.Equal(t, 404, code, "another token's session")
}

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// TestHostsOverHTTP lets the real Claude Code client work over both HTTP
// transports, with a token.
func TestHostsOverHTTP(t *testing.T) {
	npm := fetchHosts(t)
	for transport, path := range map[string]string{"http": "/mcp", "sse": "/sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			c := newClaude(t, npm)
			url := c.overHTTP() + path
			edit := ours("edit_file", args{"path": "greet.js", "old_string": "name.toUpperCase()", "new_string": "name.trim()"})
			api := newMessagesAPI(t,
				turn{calls: []toolUse{
					ours("read_file", args{"path": "greet.js"}),
					ours("grep", args{"pattern": "toUpperCase", "output_mode": "content", "-n": true}),
				}},
				turn{calls: []toolUse{edit}},
				turn{calls: []toolUse{edit}, person: c.approve},
				turn{calls: []toolUse{ours("run_tests", args{})}},
				turn{calls: []toolUse{ours("run_command", args{"command": "git push --force origin main"})}},
			)
			c.work(api, c.onlyOursAt(transport, url)...)
			told := api.results
			assert.Contains(t, told[0][0].Text, "name.toUpperCase()")
			assert.Contains(t, told[0][1].Text, "greet.js:3:")
			assert.Contains(t, told[1][0].Text, "pending: approval")
			assert.Contains(t, told[2][0].Text, "Edited greet.js")
			assert.Contains(t, told[3][0].Text, "PASS: 1 passed")
			assert.Contains(t, told[4][0].Text, "[floor.force-push]")
			assert.Contains(t, c.read("greet.js"), "name.trim()")
			calls := 0
			for _, r := range c.log() {
				if r.Kind == audit.KindEvent || r.Tool == "" {
					continue
				}
				calls++
				assert.Equal(t, "ci", r.Agent)
				assert.Regexp(t, `^claude-code/`, r.Client)
				assert.Equal(t, "token", r.Sources["agent"])
			}
			assert.GreaterOrEqual(t, calls, 6)
			assert.Contains(t, c.must("sallyport", "audit", "verify"), "OK: ")
		})
	}
}

// overHTTP starts the stage's daemon with HTTP and hands back its address.
func (c claude) overHTTP() string {
	c.t.Helper()
	cmd := c.command(c.t.Context(), "sallyport", "serve", "--http", "127.0.0.1:0")
	log, err := cmd.StderrPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	c.t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "addr="); ok {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://" + strings.Fields(rest)[0]
		}
	}
	c.t.Fatal("the daemon did not start")
	return ""
}

// onlyOursAt is onlyOurs over the network, with a token of the agent "ci".
func (c claude) onlyOursAt(transport, url string) []string {
	c.t.Helper()
	var made struct{ Token string }
	require.NoError(c.t, json.Unmarshal([]byte(c.must("sallyport", "token", "create", "--json", "--agent", "ci", "--max-tier", "L3")), &made))
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"sallyport": map[string]any{
		"type": transport, "url": url, "headers": map[string]string{"Authorization": "Bearer " + made.Token},
	}}})
	require.NoError(c.t, err)
	file := filepath.Join(c.t.TempDir(), "mcp.json")
	require.NoError(c.t, os.WriteFile(file, b, 0o600))
	return []string{
		"--strict-mcp-config", "--mcp-config", file, "--allowedTools", "mcp__sallyport",
		"--disallowedTools", strings.Join(hostTools[:], ","),
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// claude is the real Claude Code client with a scripted model behind it.
type claude struct {
	*stage
	bin string
}

func newClaude(t *testing.T, npm string) claude {
	return claude{newStage(t, e2eRepo), filepath.Join(npm, ".bin", "claude")}
}

// work lets Claude Code work through a script and hands back what the client
// printed at the end.
func (c claude) work(api *messagesAPI, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*time.Minute)
	defer cancel()
	cmd := c.command(ctx, c.bin, append([]string{"-p", "go"}, args...)...)
	cmd.Env = append(slices.Clone(c.env), "ANTHROPIC_BASE_URL="+api.url, "ANTHROPIC_API_KEY=no-key",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "claude after %d turns: %s\n%v", len(api.results), out, api.results)
	require.Empty(c.t, api.strays)
	require.Len(c.t, api.results, len(api.turns), "turns played; claude said: %s", out)
	return string(out)
}

// onlyOurs are the flags that leave the client nothing but our tools.
func (c claude) onlyOurs() []string {
	mcp := map[string]any{"mcpServers": map[string]any{"sallyport": map[string]any{
		"type": "stdio", "command": filepath.Join(binaries, "sallyport"), "args": []string{"mcp"},
	}}}
	b, err := json.Marshal(mcp)
	require.NoError(c.t, err)
	file := filepath.Join(c.t.TempDir(), "mcp.json")
	require.NoError(c.t, os.WriteFile(file, b, 0o600))
	return []string{
		"--strict-mcp-config", "--mcp-config", file, "--allowedTools", "mcp__sallyport",
		"--disallowedTools", strings.Join(hostTools[:], ","),
	}
}

// approve is a person who approves, on the command line, the request that the
// last answer names.
func (s *stage) approve(before []toolResult) error {
	if len(before) == 0 {
		return errors.New("nothing was answered yet")
	}
	m := askedFor.FindStringSubmatch(before[len(before)-1].Text)
	if m == nil {
		return fmt.Errorf("the answer names no approval: %s", before[len(before)-1].Text)
	}
	if out, err := s.command(context.Background(), "sallyport", "approvals", "approve", m[1]).CombinedOutput(); err != nil {
		return fmt.Errorf("approve %s: %w\n%s", m[1], err, out)
	}
	return nil
}

func ours(tool string, input any) toolUse { return toolUse{"mcp__sallyport__" + tool, input} }

type args = map[string]any

// testClaudeCode is a developer's task done by the real client through our
// tools only: read, search, see a test fail, mend it, see it pass, commit.
func testClaudeCode(t *testing.T, npm string) {
	c := newClaude(t, npm)
	edit := ours("edit_file", args{"path": "greet.js", "old_string": "name.toUpperCase()", "new_string": "name.trim()"})
	add := ours("git_add", args{"paths": []string{"greet.js"}})
	commit := ours("git_commit", args{"message": "Mend the greeting"})
	api := newMessagesAPI(t,
		turn{calls: []toolUse{ // of one turn: the client runs read-only tools in parallel
			ours("read_file", args{"path": "greet.js"}),
			ours("grep", args{"pattern": "toUpperCase", "output_mode": "content", "-n": true}),
		}},
		turn{calls: []toolUse{ours("run_tests", args{})}},
		turn{calls: []toolUse{edit}},
		turn{calls: []toolUse{edit}, person: c.approve},
		turn{calls: []toolUse{ours("run_tests", args{})}},
		turn{calls: []toolUse{add}},
		turn{calls: []toolUse{add}, person: c.approve},
		turn{calls: []toolUse{commit}},
		turn{calls: []toolUse{commit}, person: c.approve},
		turn{calls: []toolUse{ours("run_command", args{"command": "git push --force origin main"})}},
		turn{calls: []toolUse{ours("read_file", args{"path": "/etc/shadow"})}},
	)
	c.work(api, c.onlyOurs()...)

	var offered []string
	for _, o := range api.offered {
		offered = append(offered, o.Name)
	}
	for _, name := range []string{"read_file", "grep", "edit_file", "run_tests", "git_commit", "run_command"} {
		assert.Contains(t, offered, "mcp__sallyport__"+name)
	}
	for _, name := range hostTools {
		assert.NotContains(t, offered, name, "the host's own tool goes round the gate")
	}

	told := api.results
	want := []struct {
		turn, call int
		isError    bool
		text       string // as the model reads it
	}{
		{0, 0, false, "3\t\treturn 'Hello, ' + name.toUpperCase()"},
		{0, 1, false, "greet.js:3:"},
		{1, 0, false, "FAIL: 0 passed, 1 failed, 0 skipped (npm)"},
		{2, 0, true, "needed (L2); nothing was changed"},
		{3, 0, false, "Edited greet.js: 1 replacement made"},
		{4, 0, false, "PASS: 1 passed, 0 failed"},
		{5, 0, true, "needed (L2)"},
		{7, 0, true, "needed (L2)"},
		{8, 0, false, "Mend the greeting"},
		{9, 0, true, "[floor.force-push]"},
		{9, 0, true, "What to do: push to a new branch"},
		{10, 0, true, "/etc/shadow"},
	}
	for _, w := range want {
		got := told[w.turn][w.call]
		assert.Contains(t, got.Text, w.text)
		assert.Equal(t, w.isError, got.IsError, "turn %d: %s", w.turn, got.Text)
		assert.NotContains(t, got.Text, `"status":`, "the model got the form for programs, not the text")
	}
	pending := told[2][0].Text
	assert.Regexp(t, `^pending: approval [a-z0-9]+ needed`, pending)
	assert.Contains(t, pending, "sallyport approvals approve ")
	assert.Contains(t, pending, "repeat this identical call")

	assert.Contains(t, c.read("greet.js"), "name.trim()")
	assert.Contains(t, c.must("git", "log", "--oneline"), "Mend the greeting")
	assert.Empty(t, c.must("git", "status", "--porcelain"), "the client or our tools left something behind")
	c.checkLog()
}

// checkLog looks for the client's work in the audit log.
func (c claude) checkLog() {
	c.t.Helper()
	assert.Contains(c.t, c.must("sallyport", "audit", "verify"), "OK: ")
	done := map[string]int{}
	for _, r := range c.log() {
		if r.Kind == audit.KindEvent || r.Tool == "" {
			continue
		}
		assert.Equal(c.t, "claude-code", r.Agent, "record %d", r.Seq)
		assert.Regexp(c.t, `^cc-`, r.Session, "record %d", r.Seq)
		assert.Regexp(c.t, `^claude-code/`, r.Client, "record %d", r.Seq)
		assert.NotContains(c.t, string(r.Args), "no-key")
		done[r.Tool+" "+string(r.Status)]++
	}
	for _, step := range []string{
		"read_file ok", "grep ok", "run_tests ok", "edit_file pending", "edit_file ok", "git_add ok", "git_commit ok", "run_command denied",
	} {
		assert.Positive(c.t, done[step], "no record says %q: %v", step, done)
	}
}

// testClaudePlugin keeps the client's own tools and lets the plugin's hook judge
// them. A person is not there (-p), so what is asked is not done.
func testClaudePlugin(t *testing.T, npm string) {
	c := newClaude(t, npm)
	plugin, err := filepath.Abs("../../docs/plugin")
	require.NoError(t, err)
	out := c.must(c.bin, "plugin", "validate", plugin)
	assert.NotContains(t, out, "passed with warnings", "the client's own validator")

	api := newMessagesAPI(t,
		turn{calls: []toolUse{{"Bash", args{"command": "git push --force origin main", "description": "push"}}}},
		turn{calls: []toolUse{{"Read", args{"file_path": filepath.Join(c.root, "greet.js")}}}},
		turn{calls: []toolUse{{"Edit", args{"file_path": filepath.Join(c.root, "greet.js"), "old_string": "name.toUpperCase()", "new_string": "name"}}}},
		turn{calls: []toolUse{{"mcp__plugin_sallyport_sallyport__grep", args{"pattern": "toUpperCase"}}}},
	)
	c.work(api, "--plugin-dir", plugin, "--allowedTools", "Bash,Read,mcp__plugin_sallyport_sallyport")
	told := api.results
	assert.Contains(t, told[0][0].Text, "[floor.force-push]")
	assert.Contains(t, told[1][0].Text, "name.toUpperCase()")
	assert.True(t, told[2][0].IsError, told[2][0].Text)
	assert.Contains(t, told[3][0].Text, "greet.js")
	assert.Contains(t, c.read("greet.js"), "toUpperCase", "nothing was edited")

	events := map[string][]string{}
	for _, r := range c.log() {
		if strings.HasPrefix(r.Tool, "host:") {
			events[r.Tool] = append(events[r.Tool], r.Event)
			assert.Regexp(t, `^cc-`, r.Session)
		}
	}
	assert.Equal(t, map[string][]string{"host:Bash": {"hook.deny"}, "host:Read": {"hook.allow", "hook.outcome"}, "host:Edit": {"hook.ask"}}, events, "what ran has an outcome")
}

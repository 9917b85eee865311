package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/cmd/bench"
	"sallyport/policy/approval"
)

// BenchmarkApprovalsList lists 1,000 waiting requests with the real command line
// against the real daemon; the goal is 100 ms. What the process alone costs stands
// beside it.
func BenchmarkApprovalsList(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	require.NoError(b, err)
	work := filepath.Join(dir, "work")
	require.NoError(b, os.Mkdir(work, 0o755))
	env := append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(dir, "state"), "SALLYPORT_CONFIG="+filepath.Join(dir, "config"), "NO_COLOR=1")
	exe := filepath.Join(binaries, "sallyport")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(exe, args...)
		cmd.Env, cmd.Dir = env, work
		return cmd
	}
	defer func() { _ = command("stop").Run() }()
	announce(b, env, work, 1000)
	list := func(args ...string) func() {
		return func() {
			out, err := command(args...).Output()
			require.NoError(b, err)
			require.NotEmpty(b, out)
		}
	}
	out, err := command("approvals", "list", "--json").Output()
	require.NoError(b, err)
	var all []approval.Request
	require.NoError(b, json.Unmarshal(out, &all))
	require.Len(b, all, 1000)
	for b.Loop() {
		m := bench.Medians(15, list("approvals", "list"), list("approvals", "list", "--json"), list("--version"))
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		bench.Row(b, "approvals/list 1000 pending", "ms", ms(m[0]), ms(m[2]), "the process alone")
		bench.Row(b, "approvals/list 1000 pending, JSON", "ms-json", ms(m[1]), ms(m[2]), "the process alone")
	}
}

// announce leaves so many requests at the desk, 20 an announcement and 100 a session.
func announce(b *testing.B, env []string, work string, n int) {
	b.Helper()
	for session := range n / 100 {
		p := pipe(b, append(env, fmt.Sprintf("SALLYPORT_SESSION=bench%d", session)), work, filepath.Join(binaries, "sallyport"), "mcp")
		p.ask(b, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		for batch := range 5 {
			var calls []string
			for i := range 20 {
				calls = append(calls, fmt.Sprintf(`{"tool":"write_file","arguments":{"path":"f%d-%d-%d.txt","content":%q}}`, session, batch, i, strings.Repeat("a line\n", 100)))
			}
			got := p.ask(b, call(batch+1, "approval_announce", `{"calls":[`+strings.Join(calls, ",")+`]}`))
			require.Contains(b, got, "needed for 20 of 20 calls")
		}
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asking are commands that ask the daemon, as they are called here.
var asking = []string{
	"approvals approve k7f3qd", "approvals deny k7f3qd no", "approvals list", "approvals show k7f3qd",
	"audit backup copy", "audit blame a.txt:1", "audit export", "audit hash value", "audit hold x", "audit hold lift x", "audit list", "audit prove 1",
	"audit replay wire", "audit retire", "audit show 1", "audit stats", "audit tail", "audit verify",
	"console", "doctor", "exec -- true", "freeze", "lift", "grants add --tool edit_file", "grants list", "grants revoke g1", "hook", "mcp",
	"policy eval -- ls", "policy explain abcdefgh23456777", "policy stats", "resume wire", "status", "stop",
	"token create --agent ci", "token list", "token revoke x",
}

// others are the remaining commands, as their first example calls them, but for
// those that serve, fill the screen or write for a host. They may need no daemon, but end they must.
func others(cmd *cobra.Command) (all []string) {
	for _, sub := range cmd.Commands() {
		all = append(all, others(sub)...)
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "sallyport ")
	known := slices.ContainsFunc(asking, func(line string) bool { return line == name || strings.HasPrefix(line, name+" ") })
	if !cmd.Runnable() || known || slices.Contains([]string{"serve", "conformance-fixture", "approvals watch", "install", "uninstall"}, name) {
		return all
	}
	for line := range strings.Lines(cmd.Example) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "sallyport "+name) {
			return append(all, strings.TrimPrefix(line, "sallyport "))
		}
	}
	return append(all, name)
}

// TestFrozenDaemonIsNamedByEveryCommand stops the daemon and asks it everything:
// each command ends and says which process to let go on.
func TestFrozenDaemonIsNamedByEveryCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connect()
	pid := w.freeze()
	assert.Equal(t, pid, holderOf(place{state: w.state}.desk()), "found too where systemd made the socket")
	want := fmt.Sprintf("the daemon (pid %d) is stopped and answers nobody: let it go on with `kill -CONT %d`", pid, pid)

	var wg sync.WaitGroup
	few := make(chan struct{}, 8)
	for i, line := range append(slices.Clone(asking), others(newRoot())...) {
		wg.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			cmd := w.shell("exec sallyport " + line)
			cmd.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`)
			timer := time.AfterFunc(2*time.Minute, func() {
				assert.Fail(t, "it does not end: "+line)
				_ = cmd.Process.Kill()
			})
			out, err := cmd.CombinedOutput()
			timer.Stop()
			if i < len(asking) {
				assert.Error(t, err, line)
				assert.Contains(t, string(out), want, line)
			}
		})
	}
	wg.Wait()
}

// TestFrozenInTheMiddleOfACommand stops the daemon while it has taken a call.
func TestFrozenInTheMiddleOfACommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connect()
	cmd := w.command("exec", "--", "python3 -c 'import time; time.sleep(62)'")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	waitFor(t, "the call runs", func() bool {
		text, err := w.run("audit", "list", "--kind", "intent")
		return err == nil && strings.Contains(text, "sleep(62)")
	})
	pid := w.freeze()
	ends(t, "a command whose daemon is stopped", func() { _ = cmd.Wait() })
	assert.Contains(t, out.String(), fmt.Sprintf("the daemon (pid %d) is stopped", pid))
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inPlace stands in for the examples that do not ask the daemon, or not alone.
var inPlace = map[string]string{
	"exec": "sallyport exec -- true", "mcp": "sallyport mcp", "policy explain": "sallyport policy explain abcdefgh23456777",
	"audit blame": "sallyport audit blame a.txt:1", "audit hold": "sallyport audit hold x", "audit retire": "sallyport audit retire", "token create": "sallyport token create --agent ci",
}

// alone are the commands that work without the daemon.
var alone = []string{
	"approvals watch", // a full screen, which shows what `approvals list` prints
	"conformance-fixture", "install", "uninstall", "serve",
	"policy accept", "policy check", "policy diff", "policy init", "policy rules", "policy score", "policy test",
}

// questions are the commands that ask the daemon: every one that does something and
// is not alone, as its first example calls it.
func questions(t *testing.T, cmd *cobra.Command) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, sub := range cmd.Commands() {
		maps.Copy(all, questions(t, sub))
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "sallyport ")
	if !cmd.Runnable() || slices.Contains(alone, name) {
		return all
	}
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	all[name] = cmp.Or(inPlace[name], line)
	require.Contains(t, all[name], "sallyport "+name, "the example of %s", name)
	return all
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
	all := questions(t, newRoot())
	assert.Greater(t, len(all), 30)
	for name, line := range all {
		wg.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			cmd := w.shell("exec " + line)
			if strings.Contains(line, "|") {
				cmd = w.shell(line)
			}
			cmd.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`)
			begun := time.Now()
			timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			out, err := cmd.CombinedOutput()
			timer.Stop()
			assert.Error(t, err, name)
			assert.Contains(t, string(out), want, "%s, after %s", name, time.Since(begun))
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

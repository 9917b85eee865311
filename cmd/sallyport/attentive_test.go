package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asking are the commands that ask the daemon, with arguments for each.
var asking = map[string][]string{
	"approvals approve": {"k7f3qd"}, "approvals deny": {"k7f3qd", "no"}, "approvals list": {}, "approvals show": {"k7f3qd"}, "approvals suggest": {},
	"audit backup": {"copy"}, "audit blame": {"a.txt:1"}, "audit compact": {}, "audit unseal": {"k7f3qdm2c5zpa6xw", "--identity", "age.key"}, "audit export": {}, "audit hash": {"value"}, "audit hold": {"x"}, "audit hold lift": {"x"}, "audit list": {}, "audit prove": {"1"},
	"audit replay": {"wire"}, "audit retire": {}, "audit show": {"1"}, "audit stats": {}, "audit tail": {}, "audit verify": {},
	"console": {}, "doctor": {}, "exec": {"--", "true"}, "freeze": {}, "lift": {},
	"grants add": {"--tool", "edit_file"}, "grants list": {}, "grants revoke": {"g1"},
	"hook": {}, "mcp": {}, "policy eval": {"--", "ls"}, "policy explain": {"abcdefgh23456777"}, "policy stats": {},
	"preset": {}, "resume": {"s1"}, "status": {}, "stop": {}, "whoami": {},
	"token create": {"--agent", "ci", "--workspace", "."}, "token list": {}, "token revoke": {"x"},
}

// alone are the commands that work without the daemon.
var alone = []string{
	"approvals watch", // a full screen, which shows what `approvals list` prints
	"completion bash", "completion fish", "completion powershell", "completion zsh", "conformance-fixture", "exit-codes", "help", "install", "uninstall", "serve",
	"policy accept", "policy check", "policy diff", "policy init", "policy rules", "policy score", "policy test",
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) []string {
	var all []string
	if cmd.Runnable() || !cmd.HasSubCommands() { // help topics run nothing
		all = append(all, strings.TrimPrefix(cmd.CommandPath(), "sallyport "))
	}
	for _, sub := range cmd.Commands() {
		all = append(all, leaves(sub)...)
	}
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
	for name, args := range asking {
		wg.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			cmd := w.command(append(strings.Fields(name), args...)...)
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

// TestEveryCommandIsAskedOrAlone fails when a command is new and nobody has said
// what it does before a frozen daemon.
func TestEveryCommandIsAskedOrAlone(t *testing.T) {
	t.Parallel()
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	known := append([]string(nil), alone...)
	for name := range asking {
		known = append(known, name)
	}
	assert.ElementsMatch(t, known, leaves(root))
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

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/policy/approval"
)

// The real daemon is killed with SIGKILL at each step of a request's life.

// once runs a call on a shim of its own and returns the answer.
func (w *world) once(tool, args string) string {
	w.t.Helper()
	c := w.connect()
	defer func() { c.in.Close(); _ = c.cmd.Wait() }()
	c.send(call(1, tool, args))
	return c.recv()
}

// state is where a request stands.
func (w *world) stateOf(id string) approval.State {
	w.t.Helper()
	out, err := w.command("approvals", "show", "--json", id).Output()
	require.NoError(w.t, err)
	var r approval.Request
	require.NoError(w.t, json.Unmarshal(out, &r))
	return r.State
}

func asked(t *testing.T, answer string) string {
	t.Helper()
	m := requestID.FindStringSubmatch(answer)
	require.NotNil(t, m, answer)
	return m[1]
}

func (w *world) content(name string) string {
	b, _ := os.ReadFile(filepath.Join(w.work, name))
	return string(b)
}

func TestKilledWhilePendingAndApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const args = `{"command":"echo once >>log.txt","write":true}`
	id := asked(t, w.once("run_command", args))
	w.kill()
	assert.Equal(t, id, asked(t, w.once("run_command", args)), "a pending request is the same after a crash")
	out, err := w.run("approvals", "approve", id)
	require.NoError(t, err, out)
	w.kill()
	assert.NotContains(t, w.once("run_command", args), "pending")
	assert.Equal(t, "once\n", w.content("log.txt"))
	assert.Equal(t, approval.StateDone, w.stateOf(id))
	w.kill()
	assert.Contains(t, w.once("run_command", args), "pending", "a used approval is used up, also after a crash")
	assert.Equal(t, "once\n", w.content("log.txt"))
}

// The approval is used and the run has not begun: it waits for the one slot, which
// another command has.
func TestKilledBetweenUseAndRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "config", "policy"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "config", "policy", "lists.yaml"), []byte("sallyport:\n  limits: {slots: 1}\n"), 0o644))
	const args = `{"command":"echo once >>log.txt","write":true}`
	id := asked(t, w.once("run_command", args))
	out, err := w.run("approvals", "approve", id)
	require.NoError(t, err, out)
	slow, c := w.connect(), w.connect()
	slow.send(call(1, "run_command", `{"command":"python3 -c 'import time; time.sleep(62)'"}`))
	intents := func() int {
		n := 0
		for _, r := range w.records() {
			if r.Kind == audit.KindIntent {
				n++
			}
		}
		return n
	}
	waitFor(t, "the slow command runs", func() bool { return intents() == 1 })
	time.Sleep(200 * time.Millisecond) // it has its slot
	c.send(call(1, "run_command", args))
	waitFor(t, "the approval is used", func() bool { return intents() == 2 && w.stateOf(id) == approval.StateUsed })
	w.kill()
	assert.Contains(t, c.recv(), "whether it took effect", "the agent is told that nobody knows")
	assert.Empty(t, w.content("log.txt"), "it had not begun")
	w.unknownThenOnce(t, "run_command", args, id)
}

// The run has begun and its outcome is not recorded.
func TestKilledBetweenRunAndOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("run.sh", "echo once >>log.txt\n[ -e fast ] || sleep 61\n")
	const args = `{"command":"sh run.sh","write":true}`
	id := asked(t, w.once("run_command", args))
	out, err := w.run("approvals", "approve", id)
	require.NoError(t, err, out)
	c := w.connect()
	c.send(call(1, "run_command", args))
	waitFor(t, "it runs", func() bool { return w.stateOf(id) == approval.StateUsed })
	time.Sleep(300 * time.Millisecond)
	w.kill()
	assert.Contains(t, c.recv(), "whether it took effect")
	assert.Empty(t, w.content("log.txt"), "what a command wrote before it was cut off has not landed")
	w.write("fast", "")
	w.unknownThenOnce(t, "run_command", args, id)
}

// unknownThenOnce checks what follows a run nobody knows the end of: the request
// says unknown, the identical call is asked again with a warning, no grant answers
// for a person, and after a yes it runs once.
func (w *world) unknownThenOnce(t *testing.T, tool, args, id string) {
	t.Helper()
	again := asked(t, w.once(tool, args))
	assert.Equal(t, approval.StateUnknown, w.stateOf(id))
	assert.NotEqual(t, id, again)
	out, err := w.run("approvals", "show", again)
	require.NoError(t, err)
	assert.Contains(t, out, "how it ended is not known")
	out, err = w.run("grants", "add", "--tool", tool)
	require.NoError(t, err, out)
	assert.Contains(t, w.once(tool, args), "pending", "no grant answers for what may have happened already")
	out, err = w.run("approvals", "approve", again)
	require.NoError(t, err, out)
	w.once(tool, args)
	assert.Equal(t, "once\n", w.content("log.txt"))
	out, err = w.run("audit", "verify")
	require.NoError(t, err, out)
}

// TestKilledAnywhere kills the daemon at a random moment of an approved call, again
// and again. However it falls, no approval runs twice, and a run that may have
// happened is never repeated in silence.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	trials := 12
	if os.Getenv("SALLYPORT_TEST_LONG") != "" {
		trials = 100
	}
	w := newWorld(t)
	ends := map[approval.State]int{}
	for i := range trials {
		name := fmt.Sprintf("f%d.txt", i)
		args := fmt.Sprintf(`{"command":"echo once >>%s","write":true}`, name)
		id := asked(t, w.once("run_command", args))
		out, err := w.run("approvals", "approve", id)
		require.NoError(t, err, out)
		c := w.connect()
		pid := w.daemonPID()
		c.send(call(1, "run_command", args))
		time.Sleep(time.Duration(rand.IntN(40_000)) * time.Microsecond)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		c.recv() // whatever the shim says of it
		c.in.Close()
		_ = c.cmd.Wait()
		before := w.content(name)
		assert.Contains(t, []string{"", "once\n"}, before)
		answer := w.once("run_command", args)
		state := w.stateOf(id)
		ends[state]++
		after := w.content(name)
		switch state {
		case approval.StateApproved: // it was not reached; the shim may have repeated nothing
			t.Errorf("%s is still approved after the identical call: %s", id, answer)
		case approval.StateDone:
			assert.Equal(t, "once\n", after, "%s: %s", id, answer)
		case approval.StateUnknown:
			assert.Contains(t, answer, "pending", id)
			assert.Equal(t, before, after, "%s ran again without a question", id)
		default:
			t.Errorf("%s is %s: %s", id, state, answer)
		}
		assert.LessOrEqual(t, strings.Count(after, "once"), 1)
	}
	t.Logf("%d kills: %v", trials, ends)
	out, err := w.run("audit", "verify")
	require.NoError(t, err, out)
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// daemonPID is the daemon that serves now.
func (w *world) daemonPID() int {
	w.t.Helper()
	var s status
	out, err := w.command("status", "--json").Output()
	require.NoError(w.t, err, "%s", out)
	require.NoError(w.t, json.Unmarshal(out, &s))
	return s.PID
}

// kill ends the daemon that serves now as a power cut would.
func (w *world) kill() {
	w.t.Helper()
	pid := w.daemonPID()
	require.NoError(w.t, syscall.Kill(pid, syscall.SIGKILL))
	waitFor(w.t, "the daemon is dead", func() bool { return syscall.Kill(pid, 0) != nil })
}

// freeze stops the daemon until the test ends, and waits until it has stopped: the
// signal works only once one of its threads has run.
func (w *world) freeze() (pid int) {
	w.t.Helper()
	pid = w.daemonPID()
	require.NoError(w.t, syscall.Kill(pid, syscall.SIGSTOP))
	w.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	waitFor(w.t, "the daemon is stopped", func() bool { return stopped(pid) })
	return pid
}

// records is the whole audit log, oldest first.
func (w *world) records() []audit.Record {
	w.t.Helper()
	out, err := w.command("audit", "list", "--json").Output()
	require.NoError(w.t, err)
	var all []audit.Record
	require.NoError(w.t, json.Unmarshal(out, &all))
	return all
}

func TestShimSurvivesItsDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	require.Contains(t, c.recv(), "hello")

	w.kill()
	c.send(call(2, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), `"id":2`, "no second answer to initialize reaches the host")

	text, err := w.run("stop")
	require.NoError(t, err, text)
	time.Sleep(300 * time.Millisecond)
	text, err = w.run("status")
	assert.Contains(t, text, "no daemon", "an idle shim does not start what a person stopped: %v", err)
	c.send(call(3, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), "hello")

	for _, r := range w.records() {
		if r.Tool == "read_file" {
			assert.Equal(t, "wire", r.Session)
			assert.Equal(t, "wire/1", r.Client, "initialize was said again to each daemon")
		}
	}
}

func TestShimKeepsItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.command("mcp", "--workspace", w.work, "--session", "")
	c := w.over(cmd)
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	c.recv()
	w.kill()
	c.send(call(2, "read_file", `{"path":"a.txt"}`))
	c.recv()
	sessions := map[string]bool{}
	for _, r := range w.records() {
		if r.Tool != "" {
			sessions[r.Session] = true
		}
	}
	assert.Len(t, sessions, 1, "the daemon's name for the session outlives the daemon")
}

func TestShimSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "run_command", `{"command":"python3 -c 'import time; time.sleep(62)'"}`))
	waitFor(t, "the intent is on record", func() bool {
		out, err := w.run("audit", "list", "--kind", "intent")
		return err == nil && strings.Contains(out, "sleep(62)")
	})
	w.kill()
	answer := c.recv()
	assert.Contains(t, answer, `"id":1`)
	assert.Contains(t, answer, `"isError":true`)
	assert.Regexp(t, `it was running and was cut off \(record \d+\): whether it took effect is unknown`, answer)
	assert.Contains(t, answer, "What to do: look at the files it names")
	c.send(call(2, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), "hello")
}

func TestFateOfACall(t *testing.T) {
	t.Parallel()
	rec := func(seq int, call string, k audit.Kind, s audit.Status, tier, args string) audit.Record {
		return audit.Record{Seq: audit.Seq(seq), Call: call, Kind: k, Status: s, Tier: tier, Args: json.RawMessage(args)}
	}
	q := &request{tool: "run_command", args: json.RawMessage(`{"command":"a","n":1}`)}
	for _, tc := range []struct {
		name    string
		records []audit.Record
		want    string
	}{
		{"no record", nil, "there is no record of it, so it changed nothing"},
		{"cut off", []audit.Record{rec(1, "x", audit.KindIntent, "", "L1", `{}`), rec(4, "x", audit.KindOutcome, audit.StatusInterrupted, "L1", `{}`)}, "cut off (record 4)"},
		{"done", []audit.Record{rec(1, "x", audit.KindIntent, "", "L2", `{}`), rec(2, "x", audit.KindOutcome, audit.StatusOK, "L2", `{}`)}, "do not repeat it"},
		{"read", []audit.Record{rec(1, "x", audit.KindCall, audit.StatusOK, "L0", `{}`)}, "repeat the identical call"},
		{"waits", []audit.Record{rec(1, "x", audit.KindCall, audit.StatusPending, "L2", `{}`)}, "repeat the identical call"},
		{"still open", []audit.Record{rec(1, "x", audit.KindIntent, "", "L1", `{}`)}, "whether it took effect is unknown"},
		{"two, told apart by their arguments", []audit.Record{
			rec(1, "x", audit.KindCall, audit.StatusDenied, "L3", `{"command":"b"}`), rec(2, "y", audit.KindCall, audit.StatusDenied, "L3", `{"n":1,"command":"a"}`),
		}, "record 2"},
		{"two alike", []audit.Record{
			rec(1, "x", audit.KindCall, audit.StatusOK, "L1", `{"command":"a","n":1}`), rec(2, "y", audit.KindCall, audit.StatusOK, "L1", `{"command":"a","n":1}`),
		}, "whether it took effect is unknown"},
		{"two, none alike: arguments may be redacted", []audit.Record{
			rec(1, "x", audit.KindCall, audit.StatusOK, "L1", `{"command":"b"}`), rec(2, "y", audit.KindCall, audit.StatusOK, "L1", `{"command":"c"}`),
		}, "whether it took effect is unknown"},
	} {
		calls := map[string][]audit.Record{}
		for _, r := range tc.records {
			calls[r.Call] = append(calls[r.Call], r)
		}
		b, err := json.Marshal(lost(q, fateOf(q, calls), nil))
		require.NoError(t, err)
		assert.Contains(t, string(b), tc.want, tc.name)
	}
}

// over is the host's end of a shim that the caller prepared.
func (w *world) over(cmd *exec.Cmd) *wire {
	w.t.Helper()
	c := w.start(cmd)
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`)
	require.Contains(w.t, c.recv(), `"serverInfo"`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// ends waits for a child to end and fails the test when it does not.
func ends(t *testing.T, what string, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " does not end")
	}
}

func TestShimEndsWithItsHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	busy := w.connect() // the host is gone, its call is not
	busy.send(call(1, "run_command", `{"command":"sleep 63"}`))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, busy.in.Close())
	require.NoError(t, busy.stdout.Close())
	ends(t, "a shim whose host has closed both pipes", func() { _ = busy.cmd.Wait() })

	// The host is killed and another child of it keeps the pipe open.
	host := w.over(w.shell(`sallyport mcp; :`))
	require.NoError(t, host.cmd.Process.Kill())
	ends(t, "a shim whose host was killed", func() { _, _ = io.Copy(io.Discard, host.out) })

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		c := w.connect()
		c.send(call(1, "run_command", `{"command":"sleep 63"}`))
		require.NoError(t, c.cmd.Process.Signal(sig))
		ends(t, "a shim after "+sig.String(), func() { _ = c.cmd.Wait() })
	}
	waitFor(t, "the calls of hosts that have gone are cancelled", func() bool {
		return exec.Command("pgrep", "-f", "^sleep 63$").Run() != nil
	})
}

func TestTwentyShimsStartOneDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		cmd := w.command("mcp", "--workspace", w.work)
		cmd.Stdin = strings.NewReader(
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}` + "\n" +
				call(1, "read_file", `{"path":"a.txt","limit":`+itoa(i+1)+`}`)) // alike they would be a loop
		wg.Go(func() {
			out, err := cmd.Output()
			answers[i] = fmt.Sprint(string(out), err)
		})
	}
	wg.Wait()
	for i, a := range answers {
		assert.Contains(t, a, "hello", "shim %d", i)
	}
	starts, reads := 0, 0
	for _, r := range w.records() {
		if r.Event == "start" {
			starts++
		}
		if r.Tool == "read_file" && r.Status == audit.StatusOK {
			reads++
		}
	}
	assert.Equal(t, 1, starts, "one daemon")
	assert.Equal(t, 20, reads, "nothing lost")
}

func TestFrozenDaemonIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	c.recv()
	pid := w.freeze()
	c.send(call(2, "read_file", `{"path":"a.txt"}`))
	want := fmt.Sprintf("the daemon (pid %d) is stopped and answers nobody", pid)
	assert.Contains(t, c.recv(), want, "a shim at work")
	text, err := w.run("mcp", "--workspace", w.work)
	assert.Error(t, err)
	assert.Contains(t, text, want, "a shim that starts")

	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	c.send(call(3, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), `"id":3`, "the late answer to a request that was answered is dropped")
}

func TestVersionSkewIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.Mkdir(w.state, 0o700))
	l, err := listen(filepath.Join(w.state, "agent.sock"))
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			_ = writeLine(c, welcome{Error: "the client speaks handshake 1 and this daemon (version v9) speaks 2", Remedy: "restart the older of the two"})
			c.Close()
		}
	}()
	text, err := w.run("mcp", "--workspace", w.work)
	assert.Error(t, err)
	assert.Regexp(t, regexp.MustCompile(`^sallyport: the client speaks handshake 1 and this daemon \(version v9\) speaks 2`), text)
}

// shell is a shell that runs a script with the programs under test on its path.
func (w *world) shell(script string) *exec.Cmd {
	cmd := w.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
	cmd.Env = append(cmd.Env, "PATH="+binaries+":"+os.Getenv("PATH"))
	return cmd
}

// A daemon is greeted and asked before its policy is loaded; a policy that does
// not load must still stop everything.
func TestBrokenPolicyStopsEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	require.Contains(t, c.recv(), "hello")

	rule := filepath.Join(w.dir, "config", "policy", "own.rego")
	require.NoError(t, os.MkdirAll(filepath.Dir(rule), 0o700))
	w.kill()
	require.NoError(t, os.WriteFile(rule, []byte("package sallyport.user\nthis is no rule"), 0o600))
	c.send(call(2, "read_file", `{"path":"a.txt"}`))
	got := c.recv()
	assert.NotContains(t, got, "hello")
	assert.Contains(t, got, "own.rego:2", "the agent that was connected is told why")

	gone := func() bool { _, err := dial(filepath.Join(w.state, "agent.sock")); return err != nil }
	waitFor(t, "the daemon ends", gone)
	text, err := w.run("mcp", "--workspace", w.work)
	assert.Error(t, err)
	assert.Contains(t, text, "own.rego:2", "a new one is not greeted")
	waitFor(t, "a daemon that is started by hand says so too", func() bool {
		text, err := w.run("serve") // first the one before it has to be gone
		return err != nil && strings.Contains(text, "own.rego:2")
	})

	require.NoError(t, os.Remove(rule))
	c.send(call(3, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), "hello")
	for _, r := range w.records() {
		assert.False(t, r.Kind == audit.KindCall && r.Status == audit.StatusOK && r.Tier == "", "%+v was answered unjudged", r)
	}
}

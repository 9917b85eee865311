package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// world is a state folder, a workspace and the daemon that serves them.
type world struct {
	t          *testing.T
	dir, state string
	work       string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := &world{t: t, dir: dir, state: filepath.Join(dir, "state"), work: filepath.Join(dir, "work")}
	require.NoError(t, os.Mkdir(w.work, 0o755))
	w.write("a.txt", "hello\n")
	t.Cleanup(func() { w.run("stop") })
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.work, name), []byte(text), 0o644))
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries, "sallyport"), args...)
	cmd.Dir = w.work
	cmd.Env = append(os.Environ(), "SALLYPORT_STATE="+w.state, "SALLYPORT_CONFIG="+filepath.Join(w.dir, "config"), "NO_COLOR=1", "SALLYPORT_SESSION=wire")
	return cmd
}

// run runs one command of the program and returns what it printed.
func (w *world) run(args ...string) (string, error) {
	out, err := w.command(args...).CombinedOutput()
	return string(out), err
}

// wire is a host's end of one `sallyport mcp`.
type wire struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	stdout io.Closer
	out    *bufio.Reader
}

func (w *world) connect() *wire {
	w.t.Helper()
	return w.over(w.command("mcp", "--workspace", w.work))
}

// start runs a shim that the caller prepared.
func (w *world) start(cmd *exec.Cmd) *wire {
	w.t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(w.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(w.t, cmd.Start())
	c := &wire{w.t, cmd, in, out, bufio.NewReader(out)}
	w.t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return c
}

func (c *wire) send(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	require.NoError(c.t, err)
}

// recv is the next line, within two minutes: the machine may be busy.
func (c *wire) recv() string {
	c.t.Helper()
	type got struct {
		line string
		err  error
	}
	ch := make(chan got, 1)
	go func() {
		line, err := c.out.ReadString('\n')
		ch <- got{line, err}
	}()
	select {
	case g := <-ch:
		require.NoError(c.t, g.err)
		return g.line
	case <-time.After(2 * time.Minute):
		c.t.Fatal("no answer within two minutes")
	}
	return ""
}

func call(id int, tool, args string) string {
	b, _ := json.Marshal(tool)
	return `{"jsonrpc":"2.0","id":` + itoa(id) + `,"method":"tools/call","params":{"name":` + string(b) + `,"arguments":` + args + `}}`
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestWireRefusesWhatIsNotAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	for _, tc := range []struct{ name, line, want string }{
		{"malformed JSON", `{"jsonrpc":"2.0","id":1,`, `-32700`},
		{"not an object", `[1,2]`, `"error"`},
		{"no version", `{"id":2,"method":"ping"}`, `-32600`},
		{"unknown method", `{"jsonrpc":"2.0","id":3,"method":"no/such"}`, `-32601`},
		{"unknown tool", call(4, "no_such_tool", `{}`), `not found`},
		{"arguments of another type", call(5, "read_file", `[1]`), `"error"|isError`},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{\"name\":\"read_file\",\"arguments\":{\"path\":\"\xff\xfe\"}}}", `isError`},
	} {
		c.send(tc.line)
		assert.Regexp(t, tc.want, c.recv(), tc.name)
	}
	c.send(call(7, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), `hello`, "the connection still works")

	out, err := w.run("audit", "list", "--status", "invalid")
	require.NoError(t, err)
	assert.Contains(t, out, "no_such_tool", "an unknown tool is on record")
}

func TestWireBoundsAMessage(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect()
	go func() {
		_, _ = io.WriteString(c.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"b","content":"`)
		chunk := strings.Repeat("x", 1<<20)
		for range 64 {
			_, _ = io.WriteString(c.in, chunk)
		}
		_, _ = io.WriteString(c.in, "\"}}}\n"+call(2, "read_file", `{"path":"a.txt"}`)+"\n")
	}()
	assert.Contains(t, c.recv(), "message longer than 16 MiB")
	assert.Contains(t, c.recv(), "hello", "what follows a message too long is read again")
}

func TestWireCancelsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.connect(), w.connect()
	a.send(call(1, "run_command", `{"command":"sleep 2; echo a is done"}`))
	b.send(call(1, "run_command", `{"command":"sleep 30; echo never"}`))
	time.Sleep(300 * time.Millisecond)
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	b.send(call(2, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, b.recv(), `"id":2`, "a cancelled request has no answer")
	assert.Contains(t, a.recv(), "a is done", "the other connection's request with the same id goes on")
	waitFor(t, "the cancelled call is on record", func() bool {
		out, err := w.run("audit", "list", "--status", "cancelled")
		return err == nil && strings.Contains(out, "never")
	})
}

func TestWireEndsOnEOF(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	require.NoError(t, c.in.Close())
	assert.Contains(t, c.recv(), "hello", "what was asked before EOF is still answered")
	require.NoError(t, c.cmd.Wait())
}

func TestWireEndsOnSignal(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		assert.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("the shim outlives SIGTERM")
	}
}

func TestCommandsThatMisbehave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct{ name, args, want string }{
		{"prints 1 GiB", `{"command":"head -c 1073741824 /dev/zero | tr '\\0' x"}`, `8388608|cut|limit`},
		{"never ends", `{"command":"sleep 1000","timeout_ms":700}`, `time-?out|time_?out|out of time`},
		{"prints what is not UTF-8", `{"command":"printf '\\377\\376 after'"}`, `after`},
		{"leaves a process behind", `{"command":"sleep 1000 & echo left"}`, `left`},
	} {
		c := w.connect()
		c.send(call(1, "run_command", tc.args))
		assert.Regexp(t, tc.want, c.recv(), tc.name)
	}
}

func TestForkBombIsContained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Python, because the shell's own spelling is denied before it runs. The
	// cell's pids limit holds it; the outer limits are for a cell that fails.
	w.write("bomb.py", "import os\nn = 0\ntry:\n    while n < 3000:\n        if os.fork() == 0:\n            import time; time.sleep(20); os._exit(0)\n        n += 1\nexcept OSError as e:\n    print('stopped after', n, 'by', e)\n")
	cmd := w.command("exec", "--json", "--timeout", "15s", "--", "python3 bomb.py")
	out, _ := cmd.Output()
	var r execResult
	require.NoError(t, json.Unmarshal(out, &r), string(out))
	assert.Contains(t, r.Stdout, "stopped after", r.Stderr)
	for _, wall := range r.Walls {
		if wall.Name == "cgroup" && wall.Up { // rlimits alone stop it and cannot tell
			require.NotEmpty(t, r.Hit)
			assert.Equal(t, "pids", r.Hit[0].Limit)
		}
	}
}

func TestKilledDaemonLeavesAnInterruptedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "run_command", `{"command":"python3 -c 'import time; time.sleep(61)'"}`))
	waitFor(t, "the intent is on record", func() bool {
		out, err := w.run("audit", "list", "--kind", "intent")
		return err == nil && strings.Contains(out, "sleep(61)")
	})
	var s status
	out, err := w.command("status", "--json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &s))
	require.NoError(t, syscall.Kill(s.PID, syscall.SIGKILL))
	waitFor(t, "the daemon is dead", func() bool { return syscall.Kill(s.PID, 0) != nil })

	text, err := w.run("exec", "--", "echo alive") // starts the next daemon
	require.NoError(t, err, text)
	text, err = w.run("audit", "list", "--status", "interrupted")
	require.NoError(t, err)
	assert.Contains(t, text, "run_command  interrupted")
	text, err = w.run("audit", "verify")
	require.NoError(t, err, text)
	waitFor(t, "the killed daemon's command is gone", func() bool {
		return exec.Command("pgrep", "-f", "^python3 -c import time; time.sleep.61.$").Run() != nil
	})
}

func TestTwoSessionsShareOneDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.connect(), w.connect()
	for i, c := range []*wire{a, b} {
		c.send(call(1, "read_file", `{"path":"a.txt"}`))
		assert.Contains(t, c.recv(), "hello", i)
	}
	var s status
	out, err := w.command("status", "--json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &s))
	assert.Equal(t, 2, s.Sessions)
}

func TestFullDiskRefusesBeforeItRuns(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	w := newWorld(t)
	require.NoError(t, os.Mkdir(w.state, 0o700))
	require.NoError(t, syscall.Mount("tmpfs", w.state, "tmpfs", 0, "size=48m,mode=700"))
	t.Cleanup(func() { w.run("stop"); _ = syscall.Unmount(w.state, syscall.MNT_DETACH) })
	text, err := w.run("exec", "--", "echo before")
	require.NoError(t, err, text)
	fill := filepath.Join(w.state, "fill")
	_ = exec.Command("dd", "if=/dev/zero", "of="+fill, "bs=1M", "count=100").Run() // ends with ENOSPC
	time.Sleep(1200 * time.Millisecond)                                            // the log looks at the disk once a second
	text, err = w.run("exec", "--", "touch /tmp/ran; echo ran")
	require.Error(t, err)
	assert.Contains(t, text, "full")
	assert.NotContains(t, text, "\nran")
	require.NoError(t, os.Remove(fill))
	text, err = w.run("exec", "--", "echo after")
	require.NoError(t, err, text)
	text, err = w.run("audit", "verify")
	require.NoError(t, err, text)
}

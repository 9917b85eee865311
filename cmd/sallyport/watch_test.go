package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// `approvals watch` of the real program in a real terminal follows the daemon at
// once, decides with a key, and does not hold the daemon up when it stops.
func TestWatchFollowsTheDaemon(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux on this machine: apt-get install tmux")
	}
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`)) // a daemon serves
	require.Contains(t, c.recv(), "hello")
	dir, err := os.MkdirTemp("", "sp") // short: a socket's path has 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	tmux := func(args ...string) string {
		out, err := exec.Command("tmux", append([]string{"-S", filepath.Join(dir, "t")}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	watch := w.command("approvals", "watch")
	tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "env", "SALLYPORT_STATE="+w.state,
		"SALLYPORT_CONFIG="+filepath.Join(w.dir, "config"), "TERM=tmux-256color", watch.Path, "approvals", "watch")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", filepath.Join(dir, "t"), "kill-server").Run() })
	shows := func(text string) {
		waitFor(t, "the view shows "+text, func() bool { return strings.Contains(tmux("capture-pane", "-p"), text) })
	}
	shows("0 waiting")

	c.send(call(2, "write_file", `{"path":"b.txt","content":"from the watch\n"}`))
	require.Contains(t, c.recv(), "pending")
	shows("1 waiting")
	shows("+from the watch")
	time.Sleep(time.Second) // keys are deaf to what has only just come up
	tmux("send-keys", "a")
	waitFor(t, "it is approved", func() bool { return len(w.pending()) == 0 })
	c.send(call(3, "write_file", `{"path":"b.txt","content":"from the watch\n"}`))
	assert.NotContains(t, c.recv(), "pending")
	assert.FileExists(t, filepath.Join(w.work, "b.txt"))
}

// The stream of events tells of a change at once, and ends with the daemon.
func TestEventsOfTheDesk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	require.Contains(t, c.recv(), "hello")
	b := remote(place{state: w.state})
	defer b.close()
	changed := remoteDesk{b}.changed(context.Background())
	waitFor(t, "the stream tells of a change", func() bool {
		c.send(call(int(time.Now().UnixNano()%1e9)+2, "write_file", fmt.Sprintf(`{"path":"e%d.txt","content":"x"}`, time.Now().UnixNano())))
		c.recv()
		select {
		case <-changed:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	events, err := b.stream(context.Background(), http.MethodGet, "/v1/events", nil)
	require.NoError(t, err)
	defer events.Close()
	out, err := w.run("stop")
	require.NoError(t, err, out)
	_, err = io.Copy(io.Discard, events)
	assert.NoError(t, err, "the stream ends with the daemon, in order")
}

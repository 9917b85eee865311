package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// TestSocketActivation lets systemd's own tool hold the sockets: the daemon that
// it starts on the first connection serves on them, and clients start none.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("systemd-socket-activate is missing (Debian: apt-get install systemd)")
	}
	w := newWorld(t)
	require.NoError(t, os.Mkdir(w.state, 0o700))
	agents := filepath.Join(w.state, "agent.sock")
	cmd := w.command("serve")
	cmd.Path, cmd.Args = activate, append([]string{
		activate, "--listen", agents, "--listen", filepath.Join(w.state, "control.sock"),
		"--setenv=SALLYPORT_STATE", "--setenv=SALLYPORT_CONFIG", "--setenv=HOME", "--setenv=PATH",
	}, cmd.Args...)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _, _ = w.run("stop"); <-ended })
	waitFor(t, "systemd's tool listens", func() bool { _, err := os.Stat(agents); return err == nil })
	before, err := os.Stat(agents)
	require.NoError(t, err)

	c := w.connect()
	c.send(call(1, "read_file", `{"path":"a.txt"}`))
	assert.Contains(t, c.recv(), "hello")
	assert.Equal(t, cmd.Process.Pid, w.daemonPID(), "the activated daemon serves people too")
	after, err := os.Stat(agents)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "the socket was taken over, not replaced")
	starts := 0
	for _, r := range w.records() {
		if r.Event == "start" && r.Kind == audit.KindEvent {
			starts++
		}
	}
	assert.Equal(t, 1, starts)
	assert.False(t, strings.Contains(nameOf(os.Getpid()), "pid"), "this test is no daemon")
}

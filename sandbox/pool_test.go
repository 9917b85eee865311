//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// idle lists the ready cells of a runner once every place is filled.
func idle(t testing.TB, r *Runner) []*cage {
	t.Helper()
	var list []*cage
	require.Eventually(t, func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		list = nil
		for _, s := range r.pool.slots {
			if s.filling > 0 {
				return false
			}
			list = append(list, s.idle...)
		}
		return len(list) > 0
	}, 20*time.Second, 2*time.Millisecond)
	return list
}

func TestWarmCellsServeOneCommandEach(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteDirect))
	assert.Len(t, idle(t, r), defaultWarm)
	for i := range 4 {
		idle(t, r)
		res := run(t, r, ws, shell("ls /tmp/left 2>/dev/null; touch /tmp/left ~/left; echo $$", WriteDirect))
		assert.NotContains(t, string(res.Stdout.Data), "left", "run %d saw another's files", i)
		assert.Equal(t, 0, res.Exit)
	}
}

func TestWarmCellsAreDroppedWhenStale(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, ws string)
	}{
		{"the workspace was replaced", func(t *testing.T, ws string) {
			require.NoError(t, os.Rename(ws, ws+"-old"))
			put(t, ws, map[string]string{"who": "new", ".env": "canary", ".mcp.json": "{}"})
		}},
		{"a secret was replaced", func(t *testing.T, ws string) {
			put(t, ws, map[string]string{"who": "new", ".env.new": "canary"})
			require.NoError(t, os.Rename(filepath.Join(ws, ".env.new"), filepath.Join(ws, ".env")))
		}},
		{"a secret and a guarded file appeared", func(t *testing.T, ws string) {
			put(t, ws, map[string]string{"who": "new", "id_rsa": "canary", ".envrc": "x"})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, ws := newRunner(t), newWorkspace(t)
			put(t, ws, map[string]string{"who": "old", ".env": "canary", ".mcp.json": "{}"})
			cmd := shell("cat who; cat .env id_rsa; echo evil >> .mcp.json; [ -e .envrc ] && echo evil >> .envrc", WriteDirect)
			run(t, r, ws, cmd)
			idle(t, r)
			tc.change(t, ws)
			res := run(t, r, ws, cmd)
			assert.Equal(t, "new", string(res.Stdout.Data))
			for _, f := range []string{".mcp.json", ".envrc"} {
				data, _ := os.ReadFile(filepath.Join(ws, f))
				assert.NotContains(t, string(data), "evil")
			}
		})
	}
}

func TestDeadWarmCellsAreNotUsed(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	for _, c := range idle(t, r) {
		c.kill()
		c.gone()
	}
	assert.Equal(t, "ok\n", string(run(t, r, ws, shell("echo ok", WriteNone)).Stdout.Data))
}

func TestIdleSlotsDrain(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	idle(t, r)
	r.pool.mu.Lock()
	var name string
	for name = range r.pool.slots {
	}
	r.pool.mu.Unlock()
	none, again := r.pool.idleSlot(name, time.Now())
	assert.Empty(t, none)
	assert.Positive(t, again)
	drained, _ := r.pool.idleSlot(name, time.Now().Add(idleAfter))
	assert.Len(t, drained, defaultWarm)
	for _, c := range drained {
		r.release(c, true)
	}
	assert.Zero(t, r.pool.count)
}

func TestAnIdleCellIsSmall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to read an undumpable process's smaps")
	}
	r, ws := newRunner(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	for _, c := range idle(t, r) {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/smaps_rollup")
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, err := strconv.Atoi(strings.Fields(rest)[0])
				require.NoError(t, err)
				t.Logf("idle cell: %d KiB PSS", kib)
				assert.LessOrEqual(t, kib, 4096)
			}
		}
	}
}

// TestNothingIsLeft runs many commands, some leaving orphans, closes the
// sandbox and looks for anything that stayed.
func TestNothingIsLeft(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 10
	}
	state := newWorkspace(t)
	r, err := NewRunner(Options{State: state, CellBinary: cellBinary})
	require.NoError(t, err)
	ws := newWorkspace(t)
	mounts := func() string { data, _ := os.ReadFile("/proc/self/mountinfo"); return string(data) }
	fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	run(t, r, ws, shell("true", WriteNone))
	starter := r.starter
	before, open := mounts(), 0
	const mark = "98763"
	for i := range runs {
		mode := []WriteMode{WriteNone, WriteDiscard, WriteDirect}[i%3]
		run(t, r, ws, shell("setsid sleep "+mark+" >/dev/null 2>&1 & (sleep "+mark+" &); echo x > /tmp/x", mode))
		if i == 9 {
			idle(t, r)
			open = fds()
		}
	}
	assert.Empty(t, processes(t, "sleep\x00"+mark))
	idle(t, r)
	assert.LessOrEqual(t, fds(), open+20, "descriptors leak")
	require.NoError(t, r.Close())
	assert.Equal(t, before, mounts())
	select {
	case <-starter.done:
	default:
		t.Error("the starter lives on")
	}
	left, err := filepath.Glob(filepath.Join(state, "tx", "*"))
	require.NoError(t, err)
	assert.Empty(t, left, "write layers")
	if v, err := findV1(); err == nil {
		groups, _ := filepath.Glob(filepath.Join(cgroupMount, "memory", v.paths["memory"], "sallyport-*"))
		for _, g := range groups {
			procs, _ := os.ReadFile(filepath.Join(g, "cgroup.procs"))
			t.Logf("another test's group: %s %s", g, procs)
		}
	}
}

func TestBombsStayInside(t *testing.T) {
	if os.Getenv("SALLYPORT_BOMBS") == "" && testing.Short() {
		t.Skip("short")
	}
	r, ws := newRunner(t), newWorkspace(t)
	if _, err := r.groups(); err != nil {
		t.Skip("no control groups here: ", err)
	}
	for _, tc := range []struct{ name, cmd string }{
		{"fork", `bomb() { bomb | bomb & }; bomb; sleep 60`},
		{"memory", `exec python3 -c 'x = []
while True: x.append(bytearray(1 << 20))'`},
		{"threads", `exec python3 -c 'import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(60,)).start()
    except RuntimeError: pass'`},
		{"tmpfs", `cat /dev/zero > /tmp/x; cat /dev/zero > /dev/shm/x; cat /dev/zero > ~/x; sleep 60`},
		{"output", `exec yes`},
		{"descriptors", `exec python3 -c 'import os, time
l = []
try:
    while True: l.append(os.dup(0))
except OSError: time.sleep(60)'`},
		{"spin", `while :; do :; done & while :; do :; done`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			res, _ := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(tc.cmd, WriteNone)},
				Terms{Limits: Limits{Wall: 1500 * time.Millisecond, Memory: 128 << 20, Pids: 48, CPU: 0.5, Disk: 64 << 20, Output: 1 << 16}})
			assert.NotEmpty(t, res.Hit)
			assert.Less(t, time.Since(start), 20*time.Second)
			var info unix.Sysinfo_t
			require.NoError(t, unix.Sysinfo(&info))
		})
	}
}

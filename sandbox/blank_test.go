//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// blankCells waits until the runner has its blanks.
func blankCells(t testing.TB, r *Runner) []*cage {
	t.Helper()
	var list []*cage
	require.Eventually(t, func() bool {
		r.blanks.mu.Lock()
		defer r.blanks.mu.Unlock()
		list = append([]*cage(nil), r.blanks.idle...)
		return len(list) == r.blanks.keep
	}, 20*time.Second, 2*time.Millisecond)
	return list
}

// withBlanks is a runner without warm cells: every run takes a blank.
func withBlanks(t testing.TB) *Runner {
	t.Helper()
	r, err := NewRunner(Options{State: t.TempDir(), CellBinary: cellBinary, Warm: -1})
	require.NoError(t, err)
	r.blanks.keep = maxBlank
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

func TestBlanksBecomeWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	r := withBlanks(t)
	for i, mode := range []WriteMode{WriteNone, WriteDirect, WriteTransaction, WriteDiscard, WriteNone} {
		ws := newWorkspace(t)
		put(t, ws, map[string]string{"who": ws, ".env": "canary"})
		var before []*cage
		if i > 0 {
			before = blankCells(t, r)
		}
		res := run(t, r, ws, shell("cat who .env; echo x > new", mode))
		assert.Equal(t, ws, string(res.Stdout.Data), mode)
		assert.Equal(t, mode == WriteNone, res.Exit != 0)
		for _, w := range res.Walls {
			assert.True(t, w.Up || res.Level != LevelFull, "wall %s is down: %s", w.Name, w.Reason)
		}
		if i > 0 {
			r.blanks.mu.Lock()
			assert.False(t, slices.Contains(r.blanks.idle, before[0]), "it was used, and once")
			r.blanks.mu.Unlock()
		}
	}
}

func TestBlanksFitOrAreNotUsed(t *testing.T) {
	t.Parallel()
	r, ws := withBlanks(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	first := blankCells(t, r)
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("python3 -c 'bytearray(200 << 20)'", WriteNone)},
		Terms{Limits: Limits{Memory: 64 << 20}})
	require.NoError(t, err)
	assert.NotZero(t, res.Exit, "it has its own memory limit, not the blank's")
	second := blankCells(t, r)
	for _, c := range first {
		assert.False(t, slices.Contains(second, c))
		assert.False(t, c.alive(), "a blank of no more use is ended")
	}
	for _, c := range second {
		c.kill()
		c.gone()
	}
	assert.Zero(t, run(t, r, ws, shell("true", WriteNone)).Exit, "dead ones are not used")
	require.NoError(t, r.starter.conn.Close())
	<-r.starter.done
	assert.Zero(t, run(t, r, ws, shell("true", WriteNone)).Exit, "nor those of a dead starter")
}

// TestCellsRefuseAnotherFolder is what a blank does whose mounts are older than
// the workspace's.
func TestCellsRefuseAnotherFolder(t *testing.T) {
	t.Parallel()
	r, ws := withBlanks(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	blankCells(t, r)
	p, err := r.plan(ws, Exec{Argv: []string{"true"}}, Terms{})
	require.NoError(t, err)
	p.spec.Ino++
	_, err = r.cage(context.Background(), p)
	var raise *errRaise
	require.ErrorAs(t, err, &raise)
	assert.Equal(t, unix.ESTALE, raise.errno)
	assert.Equal(t, cell.Names()[2], raise.wall)
}

func TestBlanksEndWithTheRunner(t *testing.T) {
	t.Parallel()
	r, ws := withBlanks(t), newWorkspace(t)
	run(t, r, ws, shell("true", WriteNone))
	list := blankCells(t, r)
	require.NoError(t, r.Close())
	for _, c := range list {
		assert.Eventually(t, func() bool {
			cmdline, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.pid), "cmdline"))
			return len(cmdline) == 0 // gone, or ended and not yet taken note of
		}, 10*time.Second, time.Millisecond)
	}
}

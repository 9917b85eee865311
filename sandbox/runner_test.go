//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cellBinary is sallyport-cell as TestMain built it.
var cellBinary string

func TestMain(m *testing.M) {
	if code, ok := probeMain(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) == 5 && os.Args[1] == shortLived {
		os.Exit(liveShort(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(withCellBinary(m))
}

func withCellBinary(m *testing.M) int {
	cellBinary = os.Getenv("SALLYPORT_TEST_CELL")
	if cellBinary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sallyport-cell-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cellBinary = filepath.Join(dir, "sallyport-cell")
	build := exec.Command("go", "build", "-o", cellBinary, "sallyport/cmd/sallyport-cell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build sallyport-cell: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// newRunner is a Runner whose cells and folders end with the test.
func newRunner(t testing.TB) *Runner {
	t.Helper()
	r, err := NewRunner(Options{State: t.TempDir(), CellBinary: cellBinary})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// newWorkspace is an empty folder whose path holds no symbolic link.
func newWorkspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func shell(text string, w WriteMode) *Exec { return &Exec{Shell: text, Write: w} }

func run(t testing.TB, r *Runner, workspace string, e *Exec) Result {
	t.Helper()
	res, err := r.Run(context.Background(), Action{Workspace: workspace, Exec: e}, Terms{Write: WriteDirect})
	require.NoError(t, err, "stderr: %s", res.Stderr.Data)
	return res
}

func TestRunReportsWhatTheProgramDid(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res := run(t, r, ws, &Exec{Shell: "cat; echo oops >&2; pwd; exit 3", Stdin: []byte("in\n")})
	assert.True(t, res.Ran)
	assert.Equal(t, 3, res.Exit)
	assert.Equal(t, "in\n"+ws+"\n", string(res.Stdout.Data))
	assert.Equal(t, "oops\n", string(res.Stderr.Data))
	for _, w := range res.Walls {
		assert.True(t, w.Up || res.Level != LevelFull && w.Reason != "", "wall %s is down: %s", w.Name, w.Reason)
	}
}

func TestRunStopsAtTheWallClock(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: &Exec{Shell: "echo begun; sleep 60 & sleep 60", Timeout: 1500 * time.Millisecond}}, Terms{})
	var typed *Error
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, KindTimeout, typed.Kind)
	assert.Equal(t, "begun\n", string(res.Stdout.Data))
	require.Len(t, res.Hit, 1)
	assert.Equal(t, "wall", res.Hit[0].Limit)
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := r.Run(ctx, Action{Workspace: ws, Exec: shell("sleep 60", WriteNone)}, Terms{})
	var typed *Error
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, KindCanceled, typed.Kind)
	assert.True(t, errors.Is(err, context.DeadlineExceeded))
}

func TestWriteModes(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for _, tc := range []struct {
		mode   WriteMode
		exit   int
		landed bool
	}{
		{WriteNone, 1, false}, {WriteDiscard, 0, false}, {WriteTransaction, 0, false}, {WriteDirect, 0, true},
	} {
		t.Run(tc.mode.String(), func(t *testing.T) {
			ws := newWorkspace(t)
			require.NoError(t, os.WriteFile(filepath.Join(ws, "old"), []byte("old\n"), 0o644))
			res := run(t, r, ws, shell("echo new > new && echo more >> old && cat old", tc.mode))
			assert.Equal(t, tc.exit, res.Exit, "stderr: %s", res.Stderr.Data)
			_, err := os.Stat(filepath.Join(ws, "new"))
			assert.Equal(t, tc.landed, err == nil)
			if tc.mode == WriteNone {
				require.NotEmpty(t, res.Denials)
				assert.Equal(t, "write to new refused: the workspace is read-only at this tier", res.Denials[0].What)
			}
		})
	}
}

// shortLived makes the test binary a daemon that the test then kills.
const shortLived = "short-lived-daemon"

func liveShort(binary, state, workspace string) int {
	r, err := NewRunner(Options{State: state, CellBinary: binary})
	if err == nil {
		_, err = r.Run(context.Background(), Action{Workspace: workspace, Exec: shell("true", WriteNone)}, Terms{})
	}
	if err == nil { // it is killed while this runs
		_, err = r.Run(context.Background(), Action{Workspace: workspace, Exec: shell("setsid sleep 98764 & touch started; sleep 98764", WriteDirect)}, Terms{Write: WriteDirect})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestCellsDieWithTheDaemon(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	ws := newWorkspace(t)
	daemon := exec.Command(self, shortLived, cellBinary, t.TempDir(), ws)
	daemon.Stderr = os.Stderr
	require.NoError(t, daemon.Start())
	started := func() bool { _, err := os.Stat(filepath.Join(ws, "started")); return err == nil }
	require.Eventually(t, started, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool { return len(processes(t, "sleep\x0098764")) == 2 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()
	assert.Eventually(t, func() bool { return len(processes(t, "sleep\x0098764")) == 0 }, 10*time.Second, 5*time.Millisecond)
}

// What a dead daemon's commands wrote is nobody's: no id lands it, and it goes.
func TestARunnerForgetsWhatADeadOneLeft(t *testing.T) {
	t.Parallel()
	state, id := t.TempDir(), "tx-0123456789ABCDEF"
	left := filepath.Join(state, "tx", id, "upper", "deep")
	require.NoError(t, os.MkdirAll(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "a"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(state, "tx", ".gone-by-an-earlier-start"), 0o700))
	r, err := NewRunner(Options{State: state, CellBinary: cellBinary})
	require.NoError(t, err)
	_, err = r.Land(context.Background(), id)
	require.Error(t, err)
	require.NoError(t, r.Close())
	rest, err := os.ReadDir(filepath.Join(state, "tx"))
	require.NoError(t, err)
	assert.Empty(t, rest)
}

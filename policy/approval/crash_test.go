package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

// crashEnv tells the test binary to be the process that dies: "step point path".
const crashEnv = "SALLYPORT_TEST_CRASH"

func TestMain(m *testing.M) {
	var step, point, path string
	if n, _ := fmt.Sscan(os.Getenv(crashEnv), &step, &point, &path); n == 3 {
		crash(step, point, path)
		fmt.Println("the step ended and nothing died")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// crash does one step of a request's life and kills this process with SIGKILL at
// the named point of it.
func crash(step, point, path string) {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(4)
		}
	}
	log, err := os.OpenFile(path+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	clock := newClock()
	d, err := approval.Open(path, approval.Options{Now: clock.Now, Record: func(e approval.Event) error {
		return json.NewEncoder(log).Encode(e.Kind)
	}})
	must(err)
	d.CrashAt(func(p string) {
		if p == map[string]string{"record": "before record", "commit": "before commit", "after": "after commit"}[point] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	open, err := d.List(approval.Filter{States: []approval.State{approval.StatePending, approval.StateApproved, approval.StateUsed}})
	must(err)
	switch step {
	case "request", "use":
		_, err = d.Settle(context.Background(), edit())
	case "approve":
		_, err = d.Approve(open[0].ID, bob, approval.ApproveOptions{})
	case "deny":
		_, err = d.Deny(open[0].ID, bob, "no")
	case "freeze":
		err = d.Freeze(approval.Scope{All: true}, ann)
	case "sweep":
		clock.pass(time.Hour)
		err = d.Sweep()
	}
	must(err)
}

// die runs one step in a process of its own that is killed at a point.
func die(t *testing.T, step, point, path string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), crashEnv+"="+step+" "+point+" "+path)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
}

func TestTheDeskIsWholeAfterKill9AtAnyPoint(t *testing.T) {
	t.Parallel()
	approved := func(t *testing.T, f *fixture) {
		_, err := f.Approve(f.settle(t, edit()).Request.ID, bob, approval.ApproveOptions{})
		require.NoError(t, err)
	}
	pending := func(t *testing.T, f *fixture) { f.settle(t, edit()) }
	nothing := func(*testing.T, *fixture) {}
	next := func(t *testing.T, f *fixture) approval.Outcome { return f.settle(t, edit()) }

	for _, tc := range []struct {
		step   string
		before func(*testing.T, *fixture)
		// what the next identical call finds when the process died before and
		// after the commit
		undone, done approval.State
	}{
		{"request", nothing, approval.StatePending, approval.StatePending},
		{"approve", pending, approval.StatePending, approval.StateApproved},
		{"deny", pending, approval.StatePending, approval.StateDenied},
		{"use", approved, approval.StateApproved, approval.StatePending},
		{"freeze", nothing, approval.StatePending, approval.StateFrozen},
		{"sweep", pending, approval.StatePending, approval.StatePending},
	} {
		for _, point := range []string{"record", "commit", "after"} {
			t.Run(tc.step+" "+point, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				tc.before(t, f)
				f.Close()
				die(t, tc.step, point, f.path)
				f.open(t)
				want := tc.undone
				if point == "after" {
					want = tc.done
				}
				out := next(t, f)
				require.Equal(t, want, out.State)
				if tc.step == "use" && point == "after" {
					require.NotEmpty(t, out.Request.Unknown, "the run may have happened, and that is said")
				}
				recorded, err := os.ReadFile(f.path + ".log")
				require.NoError(t, err)
				require.Equal(t, point != "record", bytes.Contains(recorded, []byte("\n")), "recorded before it is done, never after")
			})
		}
	}
}

// A killed process leaves no lock behind.
func TestTheFileIsFreeAfterKill9(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	die(t, "request", "after", path)
	d, err := approval.Open(path, approval.Options{Now: newClock().Now})
	require.NoError(t, err)
	defer d.Close()
	all, err := d.List(approval.Filter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
}

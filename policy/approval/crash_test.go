package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	if step == "loop" {
		must(loop(path))
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
		_, err = d.Approve(open[0].ID, bob, approval.ApproveOptions{Shown: open[0].Shown})
	case "deny":
		_, err = d.Deny(open[0].ID, bob, "no", "")
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

// loop asks, approves and runs three calls for ever. What it runs it writes down,
// by the id of the request that allowed it.
func loop(path string) error {
	runs, err := os.OpenFile(path+".runs", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	d, err := approval.Open(path, approval.Options{Now: newClock().Now})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		ask := edit(args(fmt.Sprint(i % 3)))
		out, err := d.Settle(context.Background(), ask)
		if err != nil {
			return err
		}
		if out.State == approval.StatePending {
			if _, err := d.Approve(out.Request.ID, bob, approval.ApproveOptions{Shown: out.Request.Shown}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(runs, out.Request.ID)
		if err := d.Finish(out.Request.ID, "ok"); err != nil {
			return err
		}
	}
}

// Killed again and again at no particular moment: no approval ever ran twice, and
// each run that was cut off is known as such.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	exe, err := os.Executable()
	require.NoError(t, err)
	ran := func() []string {
		raw, err := os.ReadFile(path + ".runs")
		if err != nil {
			return nil
		}
		return strings.Fields(string(raw))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), crashEnv+"=loop any "+path)
		require.NoError(t, cmd.Start())
		before := len(ran())
		for end := time.Now().Add(20 * time.Second); len(ran()) < before+3 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Duration(rnd.IntN(10_000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		require.Greater(t, len(ran()), before, "the loop does not run")
	}
	d, err := approval.Open(path, approval.Options{Now: newClock().Now})
	require.NoError(t, err)
	defer d.Close()
	seen := map[string]bool{}
	for _, id := range ran() {
		require.False(t, seen[id], "%s ran twice", id)
		seen[id] = true
		r, err := d.Get(id)
		require.NoError(t, err)
		require.Contains(t, []approval.State{approval.StateDone, approval.StateUnknown}, r.State)
		require.Len(t, r.Votes, 1)
	}
	unknown, err := d.List(approval.Filter{States: []approval.State{approval.StateUnknown}})
	require.NoError(t, err)
	require.LessOrEqual(t, len(unknown), 12)
}

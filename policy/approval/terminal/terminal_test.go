package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/terminal"
	"sallyport/sandbox"
)

// viewEnv tells the test binary to be the program that is shown: the desk's file.
const viewEnv = "SALLYPORT_TEST_VIEW"

// pictures is the environment variable that names a directory the test leaves
// what it saw in, with colours.
const pictures = "SALLYPORT_PICTURES"

func TestMain(m *testing.M) {
	if path := os.Getenv(viewEnv); path != "" {
		if err := view(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// local is a desk in this process, asked by one person.
type local struct {
	*approval.Desk
	by approval.Person
}

func (l local) Requests(context.Context) ([]approval.Request, error) {
	return l.List(approval.Filter{States: []approval.State{approval.StatePending}})
}

func (l local) Request(_ context.Context, id string) (approval.Request, error) { return l.Get(id) }

func (l local) Approve(_ context.Context, id string, o approval.ApproveOptions) (approval.Request, error) {
	return l.Desk.Approve(id, l.by, o)
}

func (l local) Deny(_ context.Context, id, advice, shown string) (approval.Request, error) {
	return l.Desk.Deny(id, l.by, advice, shown)
}

// now is the time of the story: two minutes after it was told.
func now() time.Time { return time.Date(2026, 11, 29, 12, 2, 0, 0, time.UTC) }

func view(path string) error {
	d, err := approval.Open(path, approval.Options{Now: now})
	if err != nil {
		return err
	}
	defer d.Close()
	l := local{d, approval.Person{Name: "ann", Channel: "terminal", UID: os.Getuid()}}
	events, cancel := d.Subscribe()
	defer cancel()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for range events {
			changed <- struct{}{}
		}
	}()
	began := time.Now()
	return terminal.Run(context.Background(), terminal.Options{
		Source: l, Decider: l, Changed: changed, Name: "ann",
		Suggest: func(context.Context) ([]approval.Suggestion, error) { return d.Suggest() },
		Now:     func() time.Time { return now().Add(time.Since(began)) },
	})
}

// story puts three requests on a desk and gives their ids, oldest first.
func story(t *testing.T, path string) []string {
	t.Helper()
	d, err := approval.Open(path, approval.Options{Now: func() time.Time { return now().Add(-2 * time.Minute) }})
	require.NoError(t, err)
	defer d.Close()
	ask := func(tool, summary string, change func(*approval.Ask)) string {
		a := approval.Ask{
			Subject: approval.Subject{Agent: "claude-code", Session: "s1", User: "ann", Tool: tool, Workspace: "/work/demo", Branch: "fix/rounding", Args: json.RawMessage(`{}`)},
			Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask, Rules: []policy.RuleHit{
				{ID: "code.edit", Tier: policy.L2, Verdict: policy.Ask, Reason: "it changes code in the workspace"},
			}},
			Show: approval.Show{Summary: summary},
		}
		change(&a)
		out, err := d.Settle(t.Context(), a)
		require.NoError(t, err)
		return out.Request.ID
	}
	return []string{
		ask("edit_file", "edit_file: edit money.go", func(a *approval.Ask) {
			a.Show.Files = []approval.Touch{{Op: "edit", Path: "money.go"}}
			a.Show.Diff = approval.Unified("money.go",
				"package money\n\n// Round rounds to cents.\nfunc Round(v float64) int64 {\n\treturn int64(v * 100)\n}\n",
				"package money\n\nimport \"math\"\n\n// Round rounds half away from zero to cents.\nfunc Round(v float64) int64 {\n\treturn int64(math.Round(v * 100))\n}\n")
		}),
		ask("exec", "exec: git push origin release/1.4", func(a *approval.Ask) {
			a.Decision.Tier = policy.L3
			a.Decision.Rules[0] = policy.RuleHit{ID: "git.push", Tier: policy.L3, Verdict: policy.Ask, Reason: "it publishes commits to a remote", Cmd: "git push origin release/1.4"}
			a.Show.Argv = []string{"git", "push", "origin", "release/1.4"}
			a.Show.Net = []sandbox.Endpoint{{Host: "git.example.com", Port: 443}}
		}),
		ask("run_tests", "run_tests: go test ./...", func(a *approval.Ask) {
			a.Decision.Rules[0] = policy.RuleHit{ID: "tests.write", Tier: policy.L2, Verdict: policy.Ask, Reason: "its tests write in the workspace"}
		}),
	}
}

// screen is the view in a tmux session of its own.
type screen struct {
	t      *testing.T
	socket string
}

func newScreen(t *testing.T, path string, width, height int) *screen {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux on this machine: apt-get install tmux")
	}
	dir, err := os.MkdirTemp("", "sp") // short: a socket's path has 107 bytes
	require.NoError(t, err)
	s := &screen{t, filepath.Join(dir, "t")}
	exe, err := os.Executable()
	require.NoError(t, err)
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"env", viewEnv+"="+path, "TERM=tmux-256color", exe)
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() // it has ended when the view did
		os.RemoveAll(dir)
	})
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	return string(out)
}

func (s *screen) keys(keys ...string) { s.tmux(append([]string{"send-keys"}, keys...)...) }

// shows waits until the screen has every text.
func (s *screen) shows(texts ...string) string {
	s.t.Helper()
	var seen string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		seen = s.tmux("capture-pane", "-p")
		if !slices.ContainsFunc(texts, func(x string) bool { return !strings.Contains(seen, x) }) {
			return seen
		}
	}
	s.t.Fatalf("the screen never shows %q but\n%s", texts, seen)
	return ""
}

func (s *screen) picture(name string) {
	if dir := os.Getenv(pictures); dir != "" {
		require.NoError(s.t, os.WriteFile(filepath.Join(dir, name+".ansi"), []byte(s.tmux("capture-pane", "-p", "-e")), 0o644))
	}
}

// leaves presses q and waits until the program has ended.
func (s *screen) leaves() {
	s.t.Helper()
	s.keys("q")
	require.Eventually(s.t, func() bool {
		return exec.Command("tmux", "-S", s.socket, "has-session").Run() != nil
	}, 20*time.Second, 50*time.Millisecond, "the view does not end")
}

func states(t *testing.T, path string, ids []string) (out []approval.State, advice string) {
	t.Helper()
	d, err := approval.Open(path, approval.Options{Now: now})
	require.NoError(t, err)
	defer d.Close()
	for _, id := range ids {
		r, err := d.Get(id)
		require.NoError(t, err)
		out = append(out, r.State)
		advice += r.Advice
	}
	return out, advice
}

func TestAPersonDecidesAtTheTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	ids := story(t, path)
	s := newScreen(t, path, 120, 36)

	s.shows("3 waiting", ids[0], "edit_file: edit money.go", "+import \"math\"", "a approve once")
	s.picture("terminal")
	s.keys("Down")
	s.shows("it publishes commits to a remote", "git.example.com:443")
	s.keys("s")
	s.shows("this can be approved once only")
	s.keys("a")
	s.shows("is L3: approve it really? y / n")
	s.keys("n")
	s.shows("not approved")
	s.keys("d")
	s.shows("deny:", "why not, and what instead")
	s.keys("-l", "wait for the frreeze to end")
	s.keys("C-u")
	s.keys("-l", "wait for the freezes")
	s.keys("BSpace", "Enter")
	s.shows(ids[1]+" is denied", "2 waiting")

	s.keys("a")
	s.shows(ids[1] + " is denied; choose another")
	s.keys("Down")
	s.leaves()
	got, advice := states(t, path, ids)
	require.Equal(t, []approval.State{approval.StatePending, approval.StateDenied, approval.StatePending}, got)
	require.Equal(t, "wait for the freeze", advice)
}

func TestApproveAtTheTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	ids := story(t, path)
	s := newScreen(t, path, 80, 30) // narrow: the list is above the request
	s.shows("3 waiting", "Why a person is asked")
	time.Sleep(time.Second) // keys are deaf to what has only just come up
	s.keys("a")
	s.shows(ids[0]+" is approved", "2 waiting")
	s.keys("Down", "Down")
	s.shows("its tests write in the workspace")
	s.keys("s")
	s.shows(ids[2]+" is approved", "1 waiting")
	s.leaves()
	got, _ := states(t, path, ids)
	require.Equal(t, []approval.State{approval.StateApproved, approval.StatePending, approval.StateApproved}, got)
}

// Whoever gives the same answer again and again is shown how to spare it.
func TestASuggestionAtTheTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	story(t, path)
	d, err := approval.Open(path, approval.Options{Now: func() time.Time { return now().Add(-time.Minute) }})
	require.NoError(t, err)
	for i := range 8 {
		out, err := d.Settle(t.Context(), approval.Ask{
			Subject: approval.Subject{Agent: "claude-code", Session: "s1", Tool: "run_command", Args: json.RawMessage{byte('0' + i)}},
			Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask, Rules: []policy.RuleHit{
				{ID: "npm.install", Tier: policy.L2, Verdict: policy.Ask, Reason: "it installs", Cmd: "npm install"},
			}},
			Show: approval.Show{Summary: "npm install"},
		})
		require.NoError(t, err)
		_, err = d.Deny(out.Request.ID, approval.Person{Name: "bob", Channel: "cli", UID: 1}, "use the packaged version", "")
		require.NoError(t, err)
	}
	require.NoError(t, d.Close())
	s := newScreen(t, path, 120, 36)
	s.shows("3 waiting", "the same answer 8 times in an hour")
	s.keys("g")
	s.shows("claude-code was refused npm.install 8 times", "package sallyport.user.suggested", `input.cmd.program == "npm"`)
	s.picture("terminal-suggestion")
	s.keys("a")
	s.shows("+import \"math\"", "3 waiting")
	s.leaves()
}

func TestAnEmptyDesk(t *testing.T) {
	t.Parallel()
	s := newScreen(t, filepath.Join(t.TempDir(), "state.db"), 80, 24)
	s.shows("0 waiting", "Nothing waits.", "No agent is asking.")
	s.keys("Down", "d", "a")
	s.shows("nothing is selected")
	s.leaves()
}

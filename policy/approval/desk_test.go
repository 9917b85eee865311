package approval_test

import (
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
)

var (
	ann = approval.Person{Name: "ann", Channel: "cli", UID: 1000}
	bob = approval.Person{Name: "bob", Channel: "console", UID: -1}
)

// clock is a time that moves only when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a desk on a fresh file with a clock of its own and every event it
// recorded.
type fixture struct {
	*approval.Desk
	*clock
	path    string
	options approval.Options

	mu     sync.Mutex
	events []approval.Event
}

func newFixture(t *testing.T, set ...func(*approval.Options)) *fixture {
	t.Helper()
	f := &fixture{clock: newClock(), path: filepath.Join(t.TempDir(), "state.db")}
	f.options = approval.Options{Now: f.Now, Record: f.record}
	for _, s := range set {
		s(&f.options)
	}
	f.open(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func (f *fixture) record(e approval.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	return nil
}

func (f *fixture) kinds() []approval.Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []approval.Kind
	for _, e := range f.events {
		out = append(out, e.Kind)
	}
	return out
}

func (f *fixture) open(t *testing.T) {
	t.Helper()
	d, err := approval.Open(f.path, f.options)
	require.NoError(t, err)
	f.Desk = d
}

func (f *fixture) reopen(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Close())
	f.open(t)
}

// Approve answers yes as somebody who looked first, unless o says what was shown.
func (f *fixture) Approve(id string, by approval.Person, o approval.ApproveOptions) (approval.Request, error) {
	if o.Shown == "" {
		o.Shown = shownBy(f.Desk, id)
	}
	return f.Desk.Approve(id, by, o)
}

// shownBy is the digest of what the desk shows of a request or batch now.
func shownBy(d *approval.Desk, id string) string {
	if b, err := d.Batch(id); err == nil {
		return b.Shown
	}
	r, err := d.Get(id)
	if err != nil {
		return "nothing"
	}
	return r.Shown
}

func (f *fixture) settle(t *testing.T, a approval.Ask) approval.Outcome {
	t.Helper()
	out, err := f.Settle(t.Context(), a)
	require.NoError(t, err)
	return out
}

// edit is an ordinary L2 call.
func edit(change ...func(*approval.Ask)) approval.Ask {
	a := approval.Ask{
		Subject: approval.Subject{
			Agent: "claude-code", Session: "s1", User: "ann", Tool: "edit_file", Schema: "1",
			Args:      json.RawMessage(`{"new":"b","old":"a","path":"main.go"}`),
			Workspace: "/work/demo", Branch: "main", Commit: "c0ffee",
			Files:    map[string]string{"main.go": "aa11"},
			Revision: "r1",
		},
		Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask, Revision: "r1", Rules: []policy.RuleHit{
			{ID: "code.edit", Tier: policy.L2, Verdict: policy.Ask, Reason: "changes code", Remedy: "wait for a person"},
		}},
		Show: approval.Show{
			Summary: "edit_file: edit main.go",
			Files:   []approval.Touch{{Op: "edit", Path: "main.go"}},
			Diff:    "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-a\n+b\n",
		},
		Call: "call-1",
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func tier(l policy.Tier) func(*approval.Ask) {
	return func(a *approval.Ask) { a.Decision.Tier = l; a.Decision.Rules[0].Tier = l }
}

func args(s string) func(*approval.Ask) {
	return func(a *approval.Ask) { a.Subject.Args = json.RawMessage(s) }
}

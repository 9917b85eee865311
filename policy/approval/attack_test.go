package approval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// Each attack lets a person approve one call and makes another. None of them
// runs on that approval, each is recorded as a request of its own, and the
// approval stays good for the call it was given to.
func TestAnApprovalIsGoodForNoOtherCall(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 400<<10)
	text := func(s string) json.RawMessage { return json.RawMessage(`{"x":"` + s + `"}`) }
	for name, attack := range map[string]func(approved, made *approval.Ask){
		"changed arguments":         func(_, b *approval.Ask) { b.Subject.Args = text("rm -rf .") },
		"one more space":            func(_, b *approval.Ask) { b.Subject.Args = json.RawMessage(`{"new":"b", "old":"a","path":"main.go"}`) },
		"file swapped in between":   func(_, b *approval.Ask) { b.Subject.Files = map[string]string{"main.go": "bb22"} },
		"file removed in between":   func(_, b *approval.Ask) { b.Subject.Files = map[string]string{"main.go": ""} },
		"one more file":             func(_, b *approval.Ask) { b.Subject.Files = map[string]string{"main.go": "aa11", ".envrc": ""} },
		"script edited":             func(a, b *approval.Ask) { a.Subject.Scripts = scripts("aa"); b.Subject.Scripts = scripts("bb") },
		"script added":              func(_, b *approval.Ask) { b.Subject.Scripts = scripts("aa") },
		"file passed off as script": func(a, b *approval.Ask) { a.Subject.Scripts = scripts("aa"); b.Subject.Files = scripts("aa") },
		"homoglyph in the path":     func(_, b *approval.Ask) { b.Subject.Args = json.RawMessage(`{"new":"b","old":"a","path":"mаin.go"}`) },
		"invisible character": func(_, b *approval.Ask) {
			b.Subject.Args = json.RawMessage(`{"new":"b","old":"a","path":"main.go` + "\u200b" + `"}`)
		},
		"end of a very long argument": func(a, b *approval.Ask) { a.Subject.Args, b.Subject.Args = text(long+"1"), text(long+"2") },
		"another session":             func(_, b *approval.Ask) { b.Subject.Session = "s2" },
		"another agent":               func(_, b *approval.Ask) { b.Subject.Agent = "codex" },
		"another user":                func(_, b *approval.Ask) { b.Subject.User = "root" },
		"another workspace":           func(_, b *approval.Ask) { b.Subject.Workspace = "/work/other" },
		"another branch":              func(_, b *approval.Ask) { b.Subject.Branch = "release" },
		"another commit":              func(_, b *approval.Ask) { b.Subject.Commit = "badcafe" },
		"another tool":                func(_, b *approval.Ask) { b.Subject.Tool = "exec" },
		"tool changed its schema":     func(_, b *approval.Ask) { b.Subject.Schema = "2" },
		"policy changed":              func(_, b *approval.Ask) { b.Subject.Revision = "r2" },
		"other changes to land":       func(a, b *approval.Ask) { a.Subject.Changes, b.Subject.Changes = "aa", "bb" },
		"another transaction":         func(a, b *approval.Ask) { a.Subject.Tx, b.Subject.Tx = "t1", "t2" },
		"fields shifted": func(a, b *approval.Ask) {
			a.Subject.Tx, a.Subject.Changes = "xy", ""
			b.Subject.Tx, b.Subject.Changes = "x", "y"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			approved, made := edit(), edit()
			attack(&approved, &made)
			id := f.settle(t, approved).Request.ID
			_, err := f.Approve(id, bob, approval.ApproveOptions{})
			require.NoError(t, err)

			out := f.settle(t, made)
			require.Equal(t, approval.StatePending, out.State)
			require.NotEqual(t, id, out.Request.ID)
			require.Equal(t, []approval.Kind{approval.Requested, approval.Approved, approval.Requested}, f.kinds())
			require.Equal(t, approval.StateApproved, f.settle(t, approved).State)
			require.Equal(t, approval.StatePending, f.settle(t, made).State)
		})
	}
}

func scripts(sum string) map[string]string { return map[string]string{"deploy.sh": sum} }

func TestAUsedApprovalCannotBeReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	f.settle(t, edit())
	for _, again := range []func() error{
		func() error { _, err := f.Approve(id, bob, approval.ApproveOptions{}); return err },
		func() error { _, err := f.Deny(id, bob, "", ""); return err },
		func() error { return f.Withdraw(id, "") },
	} {
		require.ErrorIs(t, again(), approval.ErrDecided)
	}
	require.NoError(t, f.Finish(id, "ok"))
	require.ErrorIs(t, f.Finish(id, "ok"), approval.ErrDecided)
	require.Equal(t, approval.StatePending, f.settle(t, edit()).State)
}

// An agent that lowers what it says of itself in the decision's place changes
// nothing: tier, rules and approvers are those of the request as it was made.
func TestARepeatedCallCannotLowerWhatItNeeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	strict := edit(tier(policy.L3), func(a *approval.Ask) { a.Decision.Obligations.Approvers = 2 })
	id := f.settle(t, strict).Request.ID
	r, err := f.Approve(id, ann, approval.ApproveOptions{})
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, r.State)
	out := f.settle(t, edit())
	require.Equal(t, id, out.Request.ID)
	require.Equal(t, 2, out.Request.Approvers)
}

func TestAnApprovalDoesNotOutliveAStricterJudgement(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*approval.Ask){
		"a higher tier": tier(policy.L3),
		"two people":    func(a *approval.Ask) { a.Decision.Obligations.Approvers = 2 },
		"a role":        func(a *approval.Ask) { a.Decision.Obligations.Roles = []string{"dba"} },
		"one more rule": func(a *approval.Ask) {
			a.Decision.Rules = append(a.Decision.Rules, policy.RuleHit{ID: "session.secret", Tier: policy.L2, Verdict: policy.Ask})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.settle(t, edit()).Request.ID
			_, err := f.Approve(id, bob, approval.ApproveOptions{})
			require.NoError(t, err)
			out := f.settle(t, edit(change))
			require.Equal(t, approval.StatePending, out.State)
			require.NotEqual(t, id, out.Request.ID)
			require.Equal(t, id, out.Request.Earlier)
			require.NotEmpty(t, out.Changed)
			r, err := f.Get(id)
			require.NoError(t, err)
			require.Equal(t, approval.StateWithdrawn, r.State)
		})
	}
}

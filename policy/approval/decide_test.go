package approval_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
)

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]approval.Person{
		"nobody":                       {},
		"a person without a channel":   {Name: "ann"},
		"the agent by its name":        {Name: "Claude-Code", Channel: "cli"},
		"the session that asked":       {Name: "x", Channel: "console", Session: "s1"},
		"the session as origin":        {Name: "x", Channel: "console", From: "s1"},
		"an agent's channel":           {Name: "ann", Channel: "agent"},
		"another agent over MCP":       {Name: "ann", Channel: "mcp"},
		"the user the agent runs as":   {Name: "ann", Channel: "cli"},
		"a name of spaces in the page": {Name: "  ", Channel: "console"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *approval.Options) { o.OtherUser = true })
			id := f.settle(t, edit()).Request.ID
			_, err := f.Approve(id, by, approval.ApproveOptions{})
			require.ErrorIs(t, err, approval.ErrRefused)
			_, err = f.Deny(id, by, "no", "")
			require.ErrorIs(t, err, approval.ErrRefused)
			require.Equal(t, approval.StatePending, f.settle(t, edit()).State)
			require.Equal(t, []approval.Kind{approval.Requested, approval.Refused, approval.Refused}, f.kinds(), "the attempt is recorded")
		})
	}
}

func TestOnlyARoleDecides(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.Role = "approver" })
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.ErrorContains(t, err, "only people with the role approver")
	_, err = f.AddGrant(approval.Grant{Tool: "edit_file", By: bob})
	require.ErrorIs(t, err, approval.ErrRefused)
	with := bob
	with.Roles = []string{"approver"}
	_, err = f.Approve(id, with, approval.ApproveOptions{})
	require.NoError(t, err)
}

func TestTheFirstValidAnswerWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Deny(id, bob, "not today", "")
	require.NoError(t, err)
	f.pass(12 * time.Second)
	_, err = f.Approve(id, ann, approval.ApproveOptions{})
	require.ErrorIs(t, err, approval.ErrDecided)
	require.ErrorContains(t, err, "denied by bob (console) 12s ago")
}

func TestTwoPeopleAndRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ask := edit(tier(policy.L3), func(a *approval.Ask) {
		a.Decision.Obligations = policy.Obligations{Approvers: 2, Roles: []string{"release"}}
	})
	as := func(p approval.Person, roles ...string) approval.Person { p.Roles = roles; return p }
	id := f.settle(t, ask).Request.ID

	_, err := f.Approve(id, as(ann, "dev"), approval.ApproveOptions{})
	require.ErrorContains(t, err, "one of the roles release")
	r, err := f.Approve(id, as(ann, "release"), approval.ApproveOptions{})
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, r.State)
	require.Equal(t, approval.StatePending, f.settle(t, ask).State, "one of two is not enough")

	_, err = f.Approve(id, as(approval.Person{Name: "ANN", Channel: "console", UID: -1}, "release"), approval.ApproveOptions{})
	require.ErrorContains(t, err, "approved it already", "another channel is not another person")
	_, err = f.Approve(id, as(approval.Person{Name: "anne", Channel: "terminal", UID: 1000}, "release"), approval.ApproveOptions{})
	require.ErrorContains(t, err, "approved it already", "one uid is one person")

	_, err = f.Approve(id, as(bob, "release"), approval.ApproveOptions{Scope: approval.Session})
	require.ErrorContains(t, err, "once at a time")
	r, err = f.Approve(id, as(bob, "release"), approval.ApproveOptions{})
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, r.State)
	out := f.settle(t, ask)
	require.Equal(t, approval.StateApproved, out.State)
	require.Equal(t, "ann (cli), bob (console)", out.Person)
}

func TestAnApprovalIsOfWhatWasShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.settle(t, edit()).Request
	_, err := f.Approve(r.ID, bob, approval.ApproveOptions{Shown: "something else"})
	require.ErrorContains(t, err, "look again")
	done, err := f.Approve(r.ID, bob, approval.ApproveOptions{Shown: r.Shown})
	require.NoError(t, err)
	require.Equal(t, r.Shown, done.Votes[0].Shown)
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	require.NoError(t, f.Withdraw(id, "the session ended"))
	require.ErrorIs(t, f.Withdraw(id, "again"), approval.ErrDecided)
	require.NotEqual(t, id, f.settle(t, edit()).Request.ID)
}

func TestListSelects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.settle(t, edit()).Request.ID
	b := f.settle(t, edit(args(`{}`))).Request.ID
	_, err := f.Deny(a, bob, "", "")
	require.NoError(t, err)
	ids := func(filter approval.Filter) (out []string) {
		all, err := f.List(filter)
		require.NoError(t, err)
		for _, r := range all {
			require.Nil(t, r.Show)
			out = append(out, r.ID)
		}
		return out
	}
	require.Equal(t, []string{b}, ids(approval.Filter{}))
	require.Equal(t, []string{b, a}, ids(approval.Filter{All: true}))
	require.Equal(t, []string{b}, ids(approval.Filter{All: true, Limit: 1}))
	require.Equal(t, []string{a}, ids(approval.Filter{States: []approval.State{approval.StateDenied}}))
	require.Empty(t, ids(approval.Filter{Agent: "other"}))
	f.pass(time.Hour)
	require.Empty(t, ids(approval.Filter{}), "what has expired does not wait, swept or not")
}

func TestTheJSONOfARequestIsStable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.Rand = &counting{} })
	r := f.settle(t, edit()).Request
	r.Digest, r.Key, r.Shown, r.Subject, r.Show = "D", "K", "S", nil, nil
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"id": "000001", "state": "pending", "digest": "D", "key": "K", "agent": "claude-code", "session": "s1", "user": "ann",
		"tool": "edit_file", "workspace": "/work/demo", "branch": "main", "tier": "L2",
		"rules": [{"id": "code.edit", "tier": "L2", "verdict": "ask", "reason": "changes code", "remedy": "wait for a person"}],
		"summary": "edit_file: edit main.go", "call": "call-1", "approvers": 1,
		"created": "2026-11-29T12:00:00Z", "expires": "2026-11-29T12:30:00Z", "shown": "S"}`, string(raw))
}

func TestABatchIsOneDecisionOverExactlyItsCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	calls := []approval.Ask{edit(args(`{"n":1}`)), edit(args(`{"n":2}`)), edit(args(`{"n":3}`))}
	b, err := f.Announce(t.Context(), calls)
	require.NoError(t, err)
	require.Len(t, b.Outcomes, 3)
	waiting, err := f.List(approval.Filter{Batch: b.ID})
	require.NoError(t, err)
	require.Len(t, waiting, 3)

	whole, err := f.Batch(b.ID)
	require.NoError(t, err)
	require.Len(t, whole.Calls, 3)
	require.Equal(t, "{\"n\":1}", string(whole.Calls[0].Subject.Args), "whole and in their order")
	_, err = f.Desk.Approve(b.ID, bob, approval.ApproveOptions{})
	require.ErrorIs(t, err, approval.ErrInvalid, "nobody approves without a look")
	_, err = f.Approve(b.ID, bob, approval.ApproveOptions{Shown: whole.Calls[0].Shown})
	require.ErrorIs(t, err, approval.ErrRefused, "one of them is not all of them")
	require.Contains(t, f.kinds(), approval.Refused)
	_, err = f.Approve(b.ID, bob, approval.ApproveOptions{Shown: whole.Shown})
	require.NoError(t, err)
	for _, c := range calls {
		require.Equal(t, approval.StateApproved, f.settle(t, c).State)
		require.Equal(t, approval.StatePending, f.settle(t, c).State, "each of them once")
	}
	require.Equal(t, approval.StatePending, f.settle(t, edit(args(`{"n":4}`))).State)
	_, err = f.Approve(b.ID, bob, approval.ApproveOptions{})
	require.ErrorIs(t, err, approval.ErrDecided)
}

func TestABatchIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.MaxBatch = 2 })
	for name, tc := range map[string]struct {
		asks []approval.Ask
		want string
	}{
		"empty":        {nil, "1 to 2 calls"},
		"too many":     {[]approval.Ask{edit(), edit(args(`1`)), edit(args(`2`))}, "1 to 2 calls"},
		"an L3 call":   {[]approval.Ask{edit(), edit(args(`1`), tier(policy.L3))}, "call 2 is L3"},
		"two sessions": {[]approval.Ask{edit(), edit(func(a *approval.Ask) { a.Subject.Session = "s2" })}, "one session's"},
		"one twice":    {[]approval.Ask{edit(), edit()}, "announced twice"},
	} {
		_, err := f.Announce(t.Context(), tc.asks)
		require.ErrorIs(t, err, approval.ErrInvalid, name)
		require.ErrorContains(t, err, tc.want, name)
	}
	all, err := f.List(approval.Filter{All: true})
	require.NoError(t, err)
	require.Empty(t, all, "a refused batch leaves nothing behind")
}

// What was asked for as L3 is not swept into a batch by being judged L2 later.
func TestABatchTakesUpNoL3Request(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.settle(t, edit(tier(policy.L3)))
	_, err := f.Announce(t.Context(), []approval.Ask{edit()})
	require.ErrorContains(t, err, "is L3 and is decided on its own")
}

func TestABatchTakesUpWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	b, err := f.Announce(t.Context(), []approval.Ask{edit(), edit(args(`2`))})
	require.NoError(t, err)
	require.Equal(t, id, b.Outcomes[0].Request.ID)
	_, err = f.Deny(b.ID, bob, "neither", "")
	require.NoError(t, err)
	require.Equal(t, approval.StateDenied, f.settle(t, edit()).State)
	b, err = f.Announce(t.Context(), []approval.Ask{edit(), edit(args(`3`))})
	require.NoError(t, err)
	require.Equal(t, approval.StateDenied, b.Outcomes[0].State, "an answer given already is given again")
	require.Equal(t, approval.StatePending, b.Outcomes[1].State)
}

func TestTheEndOfASession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waits := f.settle(t, edit(args(`1`), tier(policy.L3))).Request.ID
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{Scope: approval.Session})
	require.NoError(t, err)
	other := f.settle(t, edit(func(a *approval.Ask) { a.Subject.Session = "s2" })).Request.ID
	require.NoError(t, f.EndSession("s1", "the session ended"))
	for id, want := range map[string]approval.State{waits: approval.StateWithdrawn, id: approval.StateWithdrawn, other: approval.StatePending} {
		r, err := f.Get(id)
		require.NoError(t, err)
		require.Equal(t, want, r.State)
	}
	require.Equal(t, approval.StatePending, f.settle(t, edit()).State, "its grant is gone too")
}

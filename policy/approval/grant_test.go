package approval_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

func TestWhatAGrantCovers(t *testing.T) {
	t.Parallel()
	files := func(paths ...string) func(*approval.Ask) {
		return func(a *approval.Ask) {
			a.Subject.Files, a.Show.Files = map[string]string{}, nil
			for _, p := range paths {
				a.Subject.Files[p] = "aa"
			}
		}
	}
	hosts := func(names ...string) func(*approval.Ask) {
		return func(a *approval.Ask) {
			for _, h := range names {
				a.Show.Net = append(a.Show.Net, sandbox.Endpoint{Host: h, Port: 443})
			}
		}
	}
	rule := func(id string) func(*approval.Ask) {
		return func(a *approval.Ask) {
			a.Decision.Rules = append(a.Decision.Rules, policy.RuleHit{ID: id, Tier: policy.L2, Verdict: policy.Ask})
		}
	}
	script := func(sum string) func(*approval.Ask) {
		return func(a *approval.Ask) { a.Subject.Scripts = map[string]string{"run.sh": sum} }
	}
	type change = func(*approval.Ask)
	for _, tc := range []struct {
		name  string
		grant approval.Grant
		ask   []change
		want  bool
	}{
		{"the tool", approval.Grant{Tool: "edit_file"}, nil, true},
		{"another tool", approval.Grant{Tool: "exec"}, nil, false},
		{"the rule", approval.Grant{Rules: []string{"code.edit"}}, nil, true},
		{"one of two rules", approval.Grant{Rules: []string{"code.edit"}}, []change{rule("net.api")}, false},
		{"both rules", approval.Grant{Rules: []string{"code.edit", "net.api"}}, []change{rule("net.api")}, true},
		{"the session", approval.Grant{Session: "s1"}, nil, true},
		{"another session", approval.Grant{Session: "s2"}, nil, false},
		{"another agent", approval.Grant{Tool: "edit_file", Agent: "codex"}, nil, false},
		{"another workspace", approval.Grant{Tool: "edit_file", Workspace: "/work/other"}, nil, false},
		{"the branch", approval.Grant{Tool: "edit_file", Branches: []string{"ma*"}}, nil, true},
		{"another branch", approval.Grant{Tool: "edit_file", Branches: []string{"feature/*"}}, nil, false},
		{"a path", approval.Grant{Tool: "edit_file", Paths: []string{"src/**"}}, []change{files("src/a/b.go")}, true},
		{"a path outside it", approval.Grant{Tool: "edit_file", Paths: []string{"src/**"}}, []change{files("src/a.go", "main.go")}, false},
		{"a path that climbs", approval.Grant{Tool: "edit_file", Paths: []string{"src/**"}}, []change{files("src/../main.go")}, false},
		{"a path that climbs out", approval.Grant{Tool: "edit_file", Paths: []string{"**"}}, []change{files("../main.go")}, false},
		{"a homoglyph of the path", approval.Grant{Tool: "edit_file", Paths: []string{"src/**"}}, []change{files("ѕrc/a.go")}, false},
		{"no path named", approval.Grant{Tool: "edit_file", Paths: []string{"**"}}, []change{files()}, false},
		{"a host unasked", approval.Grant{Tool: "edit_file"}, []change{hosts("api.example.com")}, false},
		{"the host", approval.Grant{Tool: "edit_file", Hosts: []string{"*.example.com"}}, []change{hosts("api.example.com")}, true},
		{"another host too", approval.Grant{Tool: "edit_file", Hosts: []string{"*.example.com"}}, []change{hosts("api.example.com", "evil.test")}, false},
		{"a host nobody knows", approval.Grant{Tool: "edit_file", Hosts: []string{"*"}}, []change{hosts("")}, false},
		{"a script unasked", approval.Grant{Tool: "edit_file"}, []change{script("aa")}, false},
		{"the script", approval.Grant{Tool: "edit_file", Scripts: map[string]string{"run.sh": "aa"}}, []change{script("aa")}, true},
		{"the script edited", approval.Grant{Tool: "edit_file", Scripts: map[string]string{"run.sh": "aa"}}, []change{script("bb")}, false},
		{"any script", approval.Grant{Tool: "edit_file", AnyScript: true}, []change{script("bb")}, true},
		{"L3", approval.Grant{Tool: "edit_file"}, []change{tier(policy.L3)}, false},
		{"L3 where policy permits", approval.Grant{Tool: "edit_file", L3: true}, []change{tier(policy.L3)}, true},
		{"L2 under a grant up to L1", approval.Grant{Tool: "edit_file", MaxTier: policy.L1}, nil, false},
		{"a call for two people", approval.Grant{Tool: "edit_file"}, []change{func(a *approval.Ask) { a.Decision.Obligations.Approvers = 2 }}, false},
		{"a call for a role", approval.Grant{Tool: "edit_file"}, []change{func(a *approval.Ask) { a.Decision.Obligations.Roles = []string{"dba"} }}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *approval.Options) { o.GrantL3 = true })
			tc.grant.By = ann
			g, err := f.AddGrant(tc.grant)
			require.NoError(t, err)
			out := f.settle(t, edit(tc.ask...))
			if !tc.want {
				require.Equal(t, approval.StatePending, out.State)
				return
			}
			require.Equal(t, approval.StateApproved, out.State)
			require.Equal(t, g.ID, out.Grant)
			require.Equal(t, "ann (cli)", out.Person)
		})
	}
}

func TestAGrantEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	state := func() approval.State { return f.settle(t, edit()).State }
	add := func(g approval.Grant) approval.Grant {
		g.Tool, g.By = "edit_file", ann
		g, err := f.AddGrant(g)
		require.NoError(t, err)
		return g
	}
	add(approval.Grant{Uses: 2})
	require.Equal(t, approval.StateApproved, state())
	f.reopenFinished(t)
	require.Equal(t, approval.StateApproved, state())
	require.Equal(t, approval.StatePending, state(), "two uses, also over a restart")

	add(approval.Grant{Until: f.Now().Add(time.Minute)})
	require.Equal(t, approval.StateApproved, state(), "the request that waits is covered now")
	f.pass(time.Minute)
	require.Equal(t, approval.StatePending, state())

	g := add(approval.Grant{})
	require.Equal(t, f.Now().Add(approval.DefaultGrantTTL), g.Until, "every grant ends")
	_, err := f.Revoke(g.ID, approval.Person{Name: "claude-code", Channel: "agent"})
	require.ErrorIs(t, err, approval.ErrRefused)
	_, err = f.Revoke(g.ID[2:], bob)
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, state())
	_, err = f.Revoke(g.ID, bob)
	require.ErrorIs(t, err, approval.ErrDecided)
}

// reopenFinished restarts the desk after every run has ended.
func (f *fixture) reopenFinished(t *testing.T) {
	t.Helper()
	running, err := f.List(approval.Filter{States: []approval.State{approval.StateUsed}})
	require.NoError(t, err)
	for _, r := range running {
		require.NoError(t, f.Finish(r.ID, "ok"))
	}
	f.reopen(t)
}

func TestWhichGrantsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, g := range map[string]approval.Grant{
		"that names nothing":   {By: ann},
		"with only paths":      {By: ann, Paths: []string{"**"}},
		"for L3":               {By: ann, Tool: "x", L3: true},
		"up to L3":             {By: ann, Tool: "x", MaxTier: policy.L3},
		"by nobody":            {Tool: "x"},
		"by the agent":         {Tool: "x", Agent: "claude-code", By: approval.Person{Name: "claude-code", Channel: "cli"}},
		"by the session":       {Tool: "x", Session: "s1", By: approval.Person{Name: "y", Channel: "cli", Session: "s1"}},
		"that ended already":   {By: ann, Tool: "x", Until: f.Now()},
		"with a bad glob":      {By: ann, Tool: "x", Paths: []string{"[a"}},
		"with negative uses":   {By: ann, Tool: "x", Uses: -1},
		"from the agents door": {Tool: "x", By: approval.Person{Name: "ann", Channel: "mcp"}},
	} {
		_, err := f.AddGrant(g)
		require.Error(t, err, name)
	}
	all, err := f.Grants()
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestApproveForTheSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{Scope: approval.Session})
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, f.settle(t, edit()).State)

	other := edit(args(`{"path":"other.go"}`))
	require.Equal(t, approval.StateApproved, f.settle(t, other).State)
	other.Subject.Session = "s2"
	require.Equal(t, approval.StatePending, f.settle(t, other).State)
	other = edit(func(a *approval.Ask) { a.Subject.Scripts = map[string]string{"x.sh": "aa"} })
	require.Equal(t, approval.StatePending, f.settle(t, other).State, "the approval was of a call without scripts")
}

func TestNoWiderApprovalOfWhatIsL3OrNotShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	session := approval.ApproveOptions{Scope: approval.Session}
	id := f.settle(t, edit(tier(policy.L3))).Request.ID
	_, err := f.Approve(id, bob, session)
	require.ErrorIs(t, err, approval.ErrRefused)

	id = f.settle(t, edit(args(`{}`), func(a *approval.Ask) { a.Show.Cut = []string{"diff: too long"} })).Request.ID
	_, err = f.Approve(id, bob, session)
	require.ErrorContains(t, err, "not everything of it can be shown")
	r, err := f.Get(id)
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, r.State, "nothing of a refused approval stays")
	_, err = f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	_, err = f.Approve(id, bob, approval.ApproveOptions{Scope: "always"})
	require.Error(t, err)
}

func TestPresetSolo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	solo := func(a *approval.Ask) { a.Preset, a.Solo = "solo", true }
	id := f.settle(t, edit(solo)).Request.ID
	_, err := f.Approve(id, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	tool := func(a *approval.Ask) { a.Subject.Tool = "run_tests"; a.Decision.Rules[0].ID = "test.run" }
	require.Equal(t, approval.StateApproved, f.settle(t, edit(solo, tool)).State)
	require.Equal(t, approval.StatePending, f.settle(t, edit(solo, tier(policy.L3), args(`3`))).State, "never L3")
	require.Equal(t, approval.StatePending, f.settle(t, edit(solo, tool, func(a *approval.Ask) { a.Subject.Session = "s2" })).State)

	require.Equal(t, approval.StatePending, f.settle(t, edit(tool, args(`4`))).State, "what the preset gave ends with the preset")
	second := f.settle(t, edit(solo, tier(policy.L3), args(`3`))).Request.ID
	_, err = f.Approve(second, bob, approval.ApproveOptions{})
	require.NoError(t, err)
	all, err := f.Grants()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Solo)
}

// The prompt of the agent's own host confirms one L2 call under solo, and nothing
// else.
func TestTheHostConfirmsOneCall(t *testing.T) {
	t.Parallel()
	host := approval.Person{Name: "ann", Channel: approval.ChannelHost, From: "claude-code/2", UID: -1}
	solo := func(a *approval.Ask) { a.Preset, a.Solo = "solo", true }
	for name, tc := range map[string]struct {
		ask     approval.Ask
		scope   approval.Reach
		options func(*approval.Options)
		allowed bool
	}{
		"an L2 call under solo": {ask: edit(solo), allowed: true},
		"another preset":        {ask: edit()},
		"L3":                    {ask: edit(solo, tier(policy.L3))},
		"two people":            {ask: edit(solo, func(a *approval.Ask) { a.Decision.Obligations.Approvers = 2 })},
		"a role":                {ask: edit(solo, func(a *approval.Ask) { a.Decision.Obligations.Roles = []string{"release"} })},
		"for the session":       {ask: edit(solo), scope: approval.Session},
		"another user decides":  {ask: edit(solo), options: func(o *approval.Options) { o.OtherUser = true }},
		"a role decides":        {ask: edit(solo), options: func(o *approval.Options) { o.Role = "approver" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *approval.Options) {
				if tc.options != nil {
					tc.options(o)
				}
			})
			id := f.settle(t, tc.ask).Request.ID
			_, err := f.Approve(id, host, approval.ApproveOptions{Scope: tc.scope})
			grants, gerr := f.Grants()
			require.NoError(t, gerr)
			require.Empty(t, grants, "it never covers another call")
			if !tc.allowed {
				require.ErrorIs(t, err, approval.ErrRefused)
				require.Equal(t, approval.StatePending, f.settle(t, tc.ask).State)
				return
			}
			require.NoError(t, err)
			out := f.settle(t, tc.ask)
			require.Equal(t, approval.StateApproved, out.State)
			require.Equal(t, "ann (host)", out.Person)
			require.Equal(t, approval.StatePending, f.settle(t, tc.ask).State, "once")
		})
	}
	f := newFixture(t)
	_, err := f.AddGrant(approval.Grant{Tool: "edit_file", By: host})
	require.ErrorIs(t, err, approval.ErrRefused)
}

func TestApproveWithAGrantOfOnesOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.settle(t, edit()).Request.ID
	with := func(g approval.Grant) error {
		_, err := f.Approve(id, bob, approval.ApproveOptions{Grant: &g})
		return err
	}
	require.ErrorContains(t, with(approval.Grant{Paths: []string{"src/**"}}), "would not cover the call it comes from")
	require.ErrorContains(t, with(approval.Grant{Branches: []string{"dev"}}), "would not cover")
	require.ErrorContains(t, with(approval.Grant{Paths: []string{"[a"}}), "would not cover")
	require.NoError(t, with(approval.Grant{Paths: []string{"*.go"}, Uses: 3, Session: "this", Until: f.Now().Add(time.Hour)}))
	all, err := f.Grants()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "tool edit_file · rules code.edit · paths *.go · agent claude-code · session s1 · workspace /work/demo · up to L2 · 3 of 3 uses left", all[0].Summary())
	require.Equal(t, "bob", all[0].By.Name)
	require.Equal(t, id, all[0].Request)

	id = f.settle(t, edit(tier(policy.L3), args(`3`))).Request.ID
	require.ErrorIs(t, with(approval.Grant{}), approval.ErrRefused)
}

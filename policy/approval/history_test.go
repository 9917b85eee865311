package approval_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// answer settles n different calls and gives each the same answer.
func (f *fixture) answer(t *testing.T, n int, yes bool, change ...func(*approval.Ask)) {
	t.Helper()
	for i := range n {
		id := f.settle(t, edit(append(change, args(fmt.Sprintf(`{"n":%d,"yes":%t,"at":%d}`, i, yes, f.Now().Unix())))...)).Request.ID
		var err error
		if yes {
			_, err = f.Approve(id, bob, approval.ApproveOptions{})
		} else {
			_, err = f.Deny(id, bob, "use make", "")
		}
		require.NoError(t, err)
	}
}

func TestAnAnswerGivenTooOftenSuggestsARule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	curl := func(a *approval.Ask) {
		a.Decision.Rules = []policy.RuleHit{{ID: "net.fetch", Tier: policy.L2, Verdict: policy.Ask, Cmd: "curl -s 'x y'"}}
	}
	f.answer(t, 8, true, curl)
	all, err := f.Suggest()
	require.NoError(t, err)
	require.Len(t, all, 1)
	s := all[0]
	require.True(t, s.Allowed)
	require.Equal(t, "claude-code was allowed net.fetch 8 times in the last hour; a grant can answer for you for a while", s.Text)
	require.Equal(t, "yaml", s.Language)
	require.Equal(t, "sallyport:\n  relax:\n    - rule: \"net.fetch\"\n      tier: L1\n      programs: [\"curl\"]\n      why: \"approved 8 times in an hour for claude-code\"\n", s.Policy)

	g := *s.Grant
	g.By = ann
	_, err = f.AddGrant(g)
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, f.settle(t, edit(curl, args(`"new"`))).State, "the grant answers the next one")

	f.pass(2 * time.Hour)
	all, err = f.Suggest()
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestARefusalGivenTooOftenSuggestsRego(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answer(t, 9, false)
	all, err := f.Suggest()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Nil(t, all[0].Grant)
	require.Equal(t, "rego", all[0].Language)
	require.Equal(t, `package sallyport.user.suggested

# METADATA
# title: Refused by people each time
# custom:
#   id: user.refuse-edit-file
#   tier: L2
#   verdict: deny
#   reason: people refused this each time they were asked
#   remedy: "use make"
hit contains rego.metadata.rule().custom if {
	not input.cmd
	input.call.tool == "edit_file"
	input.call.agent == "claude-code"
}
`, all[0].Policy)
}

func TestJudgementSuggestsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answer(t, 7, true)
	f.answer(t, 1, false)
	f.answer(t, 9, true, tier(policy.L3), func(a *approval.Ask) { a.Subject.Tool = "exec" })
	f.answer(t, 7, true, func(a *approval.Ask) { a.Subject.Tool = "commit" })
	all, err := f.Suggest()
	require.NoError(t, err)
	require.Empty(t, all, "mixed answers, L3 and seven are no reflex")
}

func TestSimilarCases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answer(t, 4, true)
	f.answer(t, 2, true, func(a *approval.Ask) { a.Subject.Tool = "exec" })
	r := f.settle(t, edit()).Request
	like, err := f.Similar(r, 3)
	require.NoError(t, err)
	require.Len(t, like, 3)
	for _, l := range like {
		require.Equal(t, "edit_file", l.Tool)
		require.NotEqual(t, r.ID, l.ID)
	}
}

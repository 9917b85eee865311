package policy

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type fixed struct {
	facts    Facts
	decision Decision
	look     error
	judge    error
}

func (f fixed) Inspect(context.Context, Call) (Facts, error)          { return f.facts, f.look }
func (f fixed) Decide(context.Context, Call, Facts) (Decision, error) { return f.decision, f.judge }

func admit(f fixed, highest Tier) Decision {
	d, _ := (&Gate{Inspector: f, Decider: f}).Admit(context.Background(), Call{Agent: Agent{MaxTier: highest}})
	return d
}

func TestGate(t *testing.T) {
	t.Parallel()
	allow := Decision{Tier: L1, Verdict: Allow, Rules: []RuleHit{{ID: "x"}}}
	wipe := Facts{Cmds: []Cmd{{Program: "rm", Flags: []string{"-r"}, Targets: []FileFact{{Op: "remove", Path: "/"}}}}}
	for name, tt := range map[string]struct {
		fixed   fixed
		highest Tier
		tier    Tier
		verdict Verdict
		rule    string
	}{
		"allowed":               {fixed{decision: allow}, L3, L1, Allow, "x"},
		"cannot look":           {fixed{decision: allow, look: errors.New("gone")}, L3, L3, Deny, "gate.inspect"},
		"cannot judge":          {fixed{decision: allow, judge: errors.New("gone")}, L3, L3, Deny, "gate.decide"},
		"a floor":               {fixed{decision: allow, facts: wipe}, L3, L3, Deny, "floor.wipe"},
		"above the highest":     {fixed{decision: allow}, L0, L1, Deny, "gate.max-tier"},
		"a floor, and above it": {fixed{decision: allow, facts: wipe}, L0, L3, Deny, "gate.max-tier"},
		"the zero decision":     {fixed{}, L3, L0, Deny, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := admit(tt.fixed, tt.highest)
			assert.Equal(t, tt.tier, d.Tier)
			assert.Equal(t, tt.verdict, d.Verdict)
			if tt.rule != "" {
				require.NotEmpty(t, d.Rules)
				assert.Equal(t, tt.rule, d.Rules[0].ID)
			}
		})
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	ask := Decision{Tier: L3, Verdict: Ask, Rules: []RuleHit{{ID: "a", Tier: L3, Verdict: Ask}, {ID: "a", Tier: L3, Verdict: Ask}, {ID: "b", Tier: L1, Verdict: Allow}}, Shadow: []RuleHit{{ID: "c"}}}
	deny := Decision{Tier: L3, Verdict: Deny, Rules: []RuleHit{{ID: "a", Tier: L3, Verdict: Deny}}}
	got := Stats(slices.Values([]Recorded{{ask, true}, {ask, false}, {deny, false}}))
	assert.Equal(t, []RuleStat{
		{ID: "a", Fired: 3, Denied: 1, Asked: 2, Approved: 1, Alone: 3},
		{ID: "b", Fired: 2, Asked: 2, Approved: 1},
		{ID: "c", Shadowed: 2},
	}, got)
}

func TestScore(t *testing.T) {
	t.Parallel()
	f := fixed{decision: Decision{Tier: L1, Verdict: Allow, Rules: []RuleHit{{ID: "x"}, {ID: "x"}}}}
	g := &Gate{Inspector: f, Decider: f}
	s, err := g.Score(context.Background(), Call{Agent: Agent{MaxTier: L3}}, []Line{{ID: "1", Cmd: "ls"}, {ID: "2", Cmd: "ls"}}, []string{"x", "y"})
	require.NoError(t, err)
	assert.Equal(t, 2, s.Total)
	assert.Equal(t, map[string]int{"L1": 2}, s.ByTier)
	assert.Equal(t, map[string]int{"allow": 2}, s.ByVerdict)
	assert.Equal(t, map[string]int{"x": 2}, s.ByRule)
	assert.Equal(t, []string{"y"}, s.NeverFired)
	assert.Len(t, s.Slowest, 2)
}

func TestDataAgent(t *testing.T) {
	t.Parallel()
	d := &Data{Agents: map[string]AgentPolicy{"reviewer": {Tools: []string{"grep"}, MaxTier: L0}}}
	assert.True(t, d.Agent("reviewer").Allows("grep"))
	assert.False(t, d.Agent("reviewer").Allows("run_command"))
	assert.Equal(t, L3, d.Agent("other").MaxTier)
	assert.True(t, d.Agent("other").Allows("anything"))
	d.Agents["*"] = AgentPolicy{Tools: []string{"*"}, MaxTier: L1}
	assert.Equal(t, L1, d.Agent("other").MaxTier)
	assert.True(t, d.Agent("other").Allows("anything"))
}

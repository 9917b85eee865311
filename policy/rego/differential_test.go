package rego

import (
	"context"
	"encoding/json"
	"reflect"
	"sort"
	"strings"
	"testing"

	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

// The rule index changes nothing but the time: indexer bugs have made deny rules
// silently undefined in released versions of the evaluator.
func TestSameWithoutTheRuleIndex(t *testing.T) {
	t.Parallel()
	e := load(t)
	g := e.current.Load()
	ctx := context.Background()
	for i, f := range manyFacts(g.data) {
		c := call("run_command")
		if i%7 == 0 {
			c.Session.ReadsSecret = true
		}
		with, err := g.decision(ctx, e.encode, c, f)
		require.NoError(t, err)
		without, err := g.decision(ctx, e.encode, c, f, oparego.EvalRuleIndexing(false))
		require.NoError(t, err)
		require.Equal(t, with, without, "%+v", f.Cmds)
	}
}

// manyFacts makes commands of every class with words that matter to rules.
func manyFacts(d *policy.Data) []policy.Facts {
	byClass := map[string][]string{}
	for p, class := range d.Programs {
		byClass[class] = append(byClass[class], p)
	}
	var programs []string
	for _, list := range byClass {
		sort.Strings(list)
		programs = append(programs, list[0], list[len(list)/2], list[len(list)-1])
	}
	programs = append(programs, "git", "chmod", "chown", "find", "npm", "docker", "kubectl", "curl", "python3", "history", "kill", "sqlite3", "gh", "nobody-knows")
	sort.Strings(programs)
	words := [][]string{{}, {"push", "--force", "origin", "+main"}, {"install", "x"}, {"-R", "777", "/"}, {"list"}, {"config", "core.pager", "x"}}
	var out []policy.Facts
	for i, p := range programs {
		for j, w := range words {
			c := command(append([]string{p}, w...)...)
			switch (i + j) % 5 {
			case 0:
				c.Targets = []policy.FileFact{{Op: "write", Path: "/etc/x", Scope: policy.ScopeOutside, Guard: policy.GuardConfig}}
			case 1:
				c.Targets = []policy.FileFact{{Op: "remove", Path: ".", Scope: policy.ScopeWorkspace}}
				c.Via = []string{"sudo"}
			case 2:
				c.FedBy, c.Assigns = "curl", map[string]string{"LD_PRELOAD": "x"}
			case 3:
				c.Patterns = []string{"danger.raw-disk"}
				c.Script = &policy.Script{Path: "x", Findings: []policy.Finding{{Rule: "danger.rm-rf-root", Severity: "critical"}}}
			}
			out = append(out, policy.Facts{Cmds: []policy.Cmd{c}, Net: []policy.NetFact{{Host: "example.com", Port: 443}}})
		}
	}
	return out
}

// What encoding/json and the encoder say of an input is the same, but for null,
// which rules see as empty.
func TestEncoderAgreesWithJSON(t *testing.T) {
	t.Parallel()
	e := load(t)
	g := e.current.Load()
	for _, f := range manyFacts(g.data)[:60] {
		in := newInput(call("run_command"), f, g.data)
		in.Cmd = newCommand(f.Cmds[0], g.data)
		fill(&in)
		assert.JSONEq(t, toJSON(t, in), toJSON(t, plainJSON(e.encode, in)))
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// fill replaces every nil slice and map beneath v by an empty one.
func fill(v any) {
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			if v.IsNil() && v.CanSet() {
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			if v.IsNil() && v.CanSet() {
				v.Set(reflect.MakeMap(v.Type()))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(v))
}

func TestObligations(t *testing.T) {
	t.Parallel()
	e := load(t, Layer{Name: "administrator", FS: files("a.yaml", "sallyport:\n  registries: {npm: [{host: npm.corp.example, port: 443}]}\n")})
	cmd := func(argv ...string) policy.Facts { return policy.Facts{Cmds: []policy.Cmd{command(argv...)}} }
	terms := func(f policy.Facts) sandbox.Terms {
		return decide(t, e, call("run_command"), f).Obligations.Terms
	}
	assert.Equal(t, sandbox.WriteNone, terms(cmd("ls")).Write)
	assert.Equal(t, sandbox.WriteDiscard, terms(cmd("go", "test")).Write)
	assert.Equal(t, sandbox.WriteDirect, terms(cmd("git", "commit")).Write)
	assert.Equal(t, sandbox.WriteTransaction, terms(cmd("npm", "ci")).Write)
	assert.Equal(t, []sandbox.Endpoint{{Host: "npm.corp.example", Port: 443}}, terms(cmd("npm", "ci")).Net)
	assert.Empty(t, terms(cmd("go", "test")).Net)

	both := policy.Facts{Cmds: []policy.Cmd{command("ls"), command("git", "commit"), command("npm", "ci")}, Net: []policy.NetFact{
		{Host: "example.com", Port: 443}, {Host: ""}, {Host: "example.com", Port: 443},
	}}
	assert.Equal(t, sandbox.WriteDirect, terms(both).Write)
	assert.Equal(t, []sandbox.Endpoint{{Host: "example.com", Port: 443}, {Host: "npm.corp.example", Port: 443}}, terms(both).Net)

	script := policy.Facts{Cmds: []policy.Cmd{{Program: "bash", Argv: []string{"bash", "x.sh"}, Script: &policy.Script{Path: "x.sh", SHA256: "abc"}}}}
	assert.Equal(t, map[string]string{"x.sh": "abc"}, terms(script).Expect, "the bytes judged are the bytes run")
	assert.Contains(t, terms(cmd("ls")).Protected, "LICENSE")
	assert.NotContains(t, terms(cmd("git", "push")).Protected, "LICENSE", "a person may say yes to a protected path")
}

func TestPresets(t *testing.T) {
	t.Parallel()
	e := load(t)
	for _, tt := range []struct {
		preset   string
		worktree bool
		argv     []string
		want     policy.Verdict
	}{
		{"strict", true, []string{"git", "commit"}, policy.Ask},
		{"worktree", true, []string{"git", "commit"}, policy.Allow},
		{"worktree", false, []string{"git", "commit"}, policy.Ask},
		{"worktree", true, []string{"git", "push"}, policy.Ask},
		{"solo", false, []string{"git", "commit"}, policy.Ask},
		{"", true, []string{"git", "commit"}, policy.Ask},
		{"no such preset", true, []string{"git", "commit"}, policy.Ask},
	} {
		c := call("run_command")
		c.Workspace.Preset, c.Workspace.Worktree = tt.preset, tt.worktree
		d := decide(t, e, c, policy.Facts{Cmds: []policy.Cmd{command(tt.argv...)}})
		assert.Equal(t, tt.want, d.Verdict, "%+v", tt)
	}
	c := call("run_command")
	c.Workspace.Preset, c.Workspace.Worktree = "worktree", true
	d := decide(t, e, c, policy.Facts{Net: []policy.NetFact{{Host: "github.com", Port: 443}}})
	assert.Equal(t, policy.Ask, d.Verdict, "network is confirmed by a person under every preset")
}

func TestHighestTierOfAnAgent(t *testing.T) {
	t.Parallel()
	e := load(t, Layer{Name: "user", FS: files("x.yaml", "sallyport:\n  agents: {claude-code: {max_tier: L1}}\n")})
	d := decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("git", "commit")}})
	assert.Equal(t, policy.Deny, d.Verdict)
	assert.Equal(t, "policy.max-tier", d.Rules[0].ID)
	assert.Equal(t, policy.Allow, decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("make")}}).Verdict)
}

func TestEffects(t *testing.T) {
	t.Parallel()
	e := load(t)
	for _, tt := range []struct {
		guard   policy.Guard
		tier    policy.Tier
		verdict policy.Verdict
	}{
		{"", policy.L2, policy.Ask},
		{policy.GuardCI, policy.L3, policy.Ask},
		{policy.GuardAgent, policy.L3, policy.Ask},
		{policy.GuardSelf, policy.L3, policy.Deny},
	} {
		c := call("run_command")
		c.Phase = policy.PhaseEffects
		d := decide(t, e, c, policy.Facts{Files: []policy.FileFact{{Op: "write", Path: "x", Scope: policy.ScopeWorkspace, Guard: tt.guard}}})
		assert.Equal(t, tt.tier, d.Tier, tt.guard)
		assert.Equal(t, tt.verdict, d.Verdict, tt.guard)
	}
}

func TestUndefinedAndBroken(t *testing.T) {
	t.Parallel()
	e := load(t)
	d := decide(t, e, call("launch_missiles"), policy.Facts{})
	assert.Equal(t, policy.L3, d.Tier)
	assert.Equal(t, policy.Ask, d.Verdict)
	assert.Equal(t, "policy.undefined", d.Rules[0].ID)

	// A rule whose built-in fails while it runs.
	broken := load(t, Layer{Name: "user", FS: files("x.rego", rule("user", "user.x", "L0", `	input.cmd.program == "ls"
	to_number(input.cmd.text) > 0`))})
	d = decide(t, broken, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("ls")}})
	assert.Equal(t, policy.L3, d.Tier)
	assert.Equal(t, "policy.evaluation", d.Rules[0].ID)

	// A rule that yields what it must not.
	odd := load(t, Layer{Name: "user", FS: files("x.rego", strings.ReplaceAll(rule("user", "user.x", "L0", `	input.cmd.program == "ls"`), "rego.metadata.rule().custom", `{"id": "user.y"}`))})
	d = decide(t, odd, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("ls")}})
	assert.Equal(t, "policy.shape", d.Rules[0].ID)
	assert.Equal(t, policy.L3, d.Tier)

	// A rule that does not end in time.
	slow := load(t, Layer{Name: "user", FS: files("x.rego", rule("user", "user.x", "L0", `	input.cmd.program == "ls"
	count([1 | some x in numbers.range(1, 100000); some y in numbers.range(1, 100000); x * y == 7]) == 1`))})
	d = decide(t, slow, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("ls")}})
	assert.Equal(t, "policy.evaluation", d.Rules[0].ID)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.Decide(ctx, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("ls")}})
	assert.ErrorIs(t, err, context.Canceled, "a caller that gave up gets an error, not a decision")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	e := load(t)
	x, err := e.Explain(context.Background(), call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("git", "push", "--force", "origin", "main")}})
	require.NoError(t, err)
	first := x.Rules[0]
	assert.Equal(t, "git.push-force-protected", first.ID)
	assert.Equal(t, "builtin", first.Layer)
	assert.Equal(t, "git", first.Facts["input.cmd.program"])
	assert.Equal(t, []any{"origin", "main"}, first.Facts["input.cmd.args"])
	assert.Equal(t, "L3 ask", first.Without)
	r, ok := e.Rule("git.push")
	assert.True(t, ok)
	assert.Contains(t, r.Reads, "input.cmd.sub")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	a := load(t)
	b := load(t, Layer{Name: "user", FS: files("x.rego", rule("user", "user.x", "L3", `	input.cmd.program == "x"`))})
	assert.Empty(t, Diff(a, a))
	diff := Diff(a, b)
	require.Len(t, diff, 1)
	assert.Equal(t, "added", diff[0].Change)
	assert.Equal(t, "user.x", diff[0].ID)
	assert.Equal(t, "removed", Diff(b, a)[0].Change)
}

// TestRuleThatReadsHits: a rule may read what the other rules found, in either
// unit, and sees it whole.
func TestRuleThatReadsHits(t *testing.T) {
	t.Parallel()
	layer := Layer{Name: "user", FS: files("x.rego", rule("user", "user.second-look", "L3", `	some h in data.sallyport.rules.hit
	h.id == "filesystem.command-write"`))}
	e := load(t, layer)
	writes := command("touch", "a")
	writes.Targets = []policy.FileFact{{Op: "write", Path: "a", Scope: policy.ScopeWorkspace}}
	d := decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{writes}})
	assert.Contains(t, ids(d), "user.second-look")
	assert.Contains(t, ids(d), "filesystem.command-write")
	d = decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("ls")}})
	assert.NotContains(t, ids(d), "user.second-look")
}

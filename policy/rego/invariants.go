package rego

import (
	"context"
	"fmt"
	"strings"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"sallyport/policy"
	"sallyport/sandbox"
)

// invariant is a call whose judgement no layer may get below a tier. Floors
// (policy/floors.go) are apart from these and hold without any policy.
type invariant struct {
	name  string
	call  policy.Call
	facts policy.Facts
	tier  policy.Tier
}

func invariants() []invariant {
	at := time.Unix(1, 0)
	tool := func(name string) policy.Call {
		return policy.Call{Tool: name, Now: at, Agent: policy.Agent{Name: "invariant", MaxTier: policy.L3}}
	}
	run := func() policy.Call {
		c := tool("run_command")
		c.Action.Exec = &sandbox.Exec{}
		return c
	}
	cmd := func(program, sub string) policy.Facts {
		return policy.Facts{Cmds: []policy.Cmd{{Program: program, Sub: sub, Argv: []string{program, sub, "x"}, Args: []string{"x"}, Text: program}}}
	}
	write := func(path string, g policy.Guard) policy.Facts {
		return policy.Facts{Files: []policy.FileFact{{Op: "write", Path: path, Scope: policy.ScopeWorkspace, Guard: g}}}
	}
	list := []invariant{
		{"an unknown tool", tool("no_such_tool"), policy.Facts{}, policy.L3},
		{"a push", run(), cmd("git", "push"), policy.L3},
		{"text that cannot be understood", run(), policy.Facts{Opaque: &policy.Opaque{Reason: "it does not parse"}}, policy.L3},
		{"a command name that cannot be told", run(), policy.Facts{Cmds: []policy.Cmd{{Opaque: policy.Opaque{Name: true}}}}, policy.L3},
		{"a change in the workspace", tool("write_file"), write("main.go", ""), policy.L2},
		{"a commit", run(), cmd("git", "commit"), policy.L2},
	}
	for _, g := range []policy.Guard{policy.GuardCI, policy.GuardHook, policy.GuardShellRC, policy.GuardAgent} {
		list = append(list, invariant{"a write to a file of the guard " + string(g), tool("write_file"), write("x", g), policy.L3})
	}
	return list
}

// checkInvariants refuses a policy that breaks one, and one that decides
// differently without the rule index: indexer bugs have made rules silently
// undefined before (fixed in 1.22.1 of the evaluator).
func (g *generation) checkInvariants(ctx context.Context, enc *encoder) error {
	var problems []string
	for _, i := range invariants() {
		d, err := g.decision(ctx, enc, i.call, i.facts)
		if err != nil {
			return err
		}
		if d.Tier < i.tier || i.tier >= policy.L3 && d.Verdict == policy.Allow {
			problems = append(problems, fmt.Sprintf("%s is %s %s; it must be at least %s", i.name, d.Tier, d.Verdict, i.tier))
		}
		plain, err := g.decision(ctx, enc, i.call, i.facts, oparego.EvalRuleIndexing(false))
		if err != nil {
			return err
		}
		if plain.Tier != d.Tier || plain.Verdict != d.Verdict {
			problems = append(problems, fmt.Sprintf("%s is judged differently without the rule index", i.name))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("check the policy's invariants:\n%s", strings.Join(problems, "\n"))
	}
	return nil
}

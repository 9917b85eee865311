package rego

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"sallyport/policy"
)

// Explanation tells why a call was judged as it was.
type Explanation struct {
	Decision policy.Decision `json:"decision"`
	Rules    []Explained     `json:"rules"` // in the order of Decision.Rules
}

// Explained is one rule that fired.
type Explained struct {
	policy.RuleHit
	Title string `json:"title"`
	Layer string `json:"layer"`
	File  string `json:"file"`
	// Facts are the parts of the input the rule reads, with their values.
	Facts map[string]any `json:"facts"`
	// Without is what the decision would be had this rule alone not fired.
	Without string `json:"without"`
}

// Explain judges a call and tells which rules fired, which facts they read and
// what each of them changes. Floors, which are not rules, are not in it.
func (e *Engine) Explain(ctx context.Context, c policy.Call, f policy.Facts) (Explanation, error) {
	g := e.current.Load()
	d, err := g.decision(ctx, e.encode, c, f)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Decision: d, Rules: []Explained{}}
	inputs := map[string]any{"": plainJSON(e.encode, newInput(c, f, g.data))}
	for _, cmd := range f.Cmds {
		in := newInput(c, f, g.data)
		in.Unit, in.Has, in.Cmd = unitCmd, nil, newCommand(cmd, g.data)
		inputs[cmd.Text] = plainJSON(e.encode, in)
	}
	for i, hit := range d.Rules {
		info := g.byID[hit.ID]
		ex := Explained{RuleHit: hit, Title: info.Title, Layer: info.Layer, File: info.File, Facts: map[string]any{}}
		for _, ref := range info.Reads {
			if v, ok := lookUp(inputs[hit.Cmd], ref); ok && !empty(v) {
				ex.Facts[ref] = v
			}
		}
		tier, verdict := policy.L0, policy.Allow
		for j, other := range d.Rules {
			if j != i {
				tier, verdict = max(tier, other.Tier), min(verdict, other.Verdict)
			}
		}
		ex.Without = fmt.Sprintf("%s %s", tier, verdict)
		x.Rules = append(x.Rules, ex)
	}
	return x, nil
}

// Rule describes one rule by its id.
func (e *Engine) Rule(id string) (RuleInfo, bool) {
	r, ok := e.current.Load().byID[id]
	return r, ok
}

func plainJSON(enc *encoder, in Input) any {
	v, err := ast.JSON(enc.term(reflect.ValueOf(in)).Value)
	if err != nil {
		return nil
	}
	return v
}

// lookUp follows a reference such as input.cmd.flags.
func lookUp(v any, ref string) (any, bool) {
	for _, name := range strings.Split(ref, ".")[1:] {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// empty leaves out of an explanation what says nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return false
}

// Difference is one rule that two policies have differently.
type Difference struct {
	ID     string `json:"id"`
	Change string `json:"change"` // "added", "removed", "stricter", "looser", "reworded", "moved"
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Diff compares two policies rule by rule.
func Diff(a, b *Engine) []Difference {
	before, after := a.current.Load(), b.current.Load()
	var out []Difference
	say := func(r RuleInfo) string { return fmt.Sprintf("%s %s (%s)", r.Tier, r.Verdict, r.File) }
	for _, r := range before.rules {
		now, ok := after.byID[r.ID]
		d := Difference{ID: r.ID, Before: say(r), After: say(now)}
		switch {
		case !ok:
			d.Change, d.After = "removed", ""
		case now.Tier > r.Tier || now.Verdict < r.Verdict:
			d.Change = "stricter"
		case now.Tier < r.Tier || now.Verdict > r.Verdict:
			d.Change = "looser"
		case now.Reason != r.Reason || now.Remedy != r.Remedy || now.Title != r.Title:
			d.Change = "reworded"
		default:
			continue
		}
		out = append(out, d)
	}
	for _, r := range after.rules {
		if _, ok := before.byID[r.ID]; !ok {
			out = append(out, Difference{ID: r.ID, Change: "added", After: say(r)})
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(x.ID, y.ID) })
	return out
}

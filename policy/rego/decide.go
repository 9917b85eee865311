package rego

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"sallyport/policy"
	"sallyport/sandbox"
)

// patience is how long one decision may take. The slowest seen over 8,000
// commands took 2 ms.
const patience = 500 * time.Millisecond

// fired is one element of a hit set.
type fired struct {
	policy.RuleHit
	obliges  obligations
	trusted  bool
	explicit bool // the verdict was said, not derived from the tier
}

// obligations is what a rule asks of the run. From a trusted layer `write` and
// `net` grant, from any other they cap; everything else only tightens.
type obligations struct {
	Write     *sandbox.WriteMode  `json:"write"`
	Net       *[]sandbox.Endpoint `json:"net"`
	Profile   string              `json:"profile"`
	Limits    sandbox.Limits      `json:"limits"`
	Redact    bool                `json:"redact"`
	Approvers int                 `json:"approvers"`
	Roles     []string            `json:"roles"`
}

// decision evaluates the call and each of its commands, and joins what fired.
func (g *generation) decision(ctx context.Context, enc *encoder, c policy.Call, f policy.Facts, opts ...oparego.EvalOption) (policy.Decision, error) {
	stop := topdown.NewCancel()
	defer context.AfterFunc(ctx, stop.Cancel)()
	defer time.AfterFunc(patience, stop.Cancel).Stop()
	opts = append(opts, oparego.EvalExternalCancel(stop), oparego.EvalTransaction(g.txn))
	in := newInput(c, f, g.data)
	base := enc.items(reflect.ValueOf(in), make([][2]*ast.Term, 0, 12))
	hits, err := g.evaluate(ctx, in.sets(), base, "", opts)
	if err != nil {
		return policy.Decision{}, err
	}
	base = perCommand(base)
	cmdKey := ast.StringTerm("cmd")
	for _, cmd := range distinct(f.Cmds) {
		command := newCommand(cmd, g.data)
		term := enc.term(reflect.ValueOf(*command))
		input := append(base[:len(base):len(base)], [2]*ast.Term{cmdKey, term})
		more, err := g.evaluate(ctx, command.sets(), input, cmd.Text, opts)
		if err != nil {
			return policy.Decision{}, err
		}
		hits = append(hits, g.relaxed(more, cmd.Program)...)
	}
	return g.join(in, f, hits), nil
}

// distinct leaves out commands whose facts are those of an earlier one: a loop's
// body, walked twice, is judged once.
func distinct(cmds []policy.Cmd) []policy.Cmd {
	if len(cmds) < 2 {
		return cmds
	}
	out := make([]policy.Cmd, 0, len(cmds))
	same := make(map[string][]int, len(cmds)) // by text: where in out
	for i := range cmds {
		c := &cmds[i]
		if !slices.ContainsFunc(same[c.Text], func(j int) bool { return reflect.DeepEqual(&out[j], c) }) {
			same[c.Text] = append(same[c.Text], len(out))
			out = append(out, *c)
		}
	}
	return out
}

// perCommand turns the members of a call's input into those that all its
// commands share: another unit, and no has.
func perCommand(call [][2]*ast.Term) [][2]*ast.Term {
	out := make([][2]*ast.Term, 0, len(call))
	for _, item := range call {
		switch item[0].Value {
		case ast.String("unit"):
			out = append(out, [2]*ast.Term{item[0], ast.StringTerm(unitCmd)})
		case ast.String("has"):
		default:
			out = append(out, item)
		}
	}
	return out
}

// evaluate runs the rules over one input. A failure that lies in the rules or
// the input is a hit of its own, so that it can only tighten; an error means
// that the caller gave up.
func (g *generation) evaluate(ctx context.Context, sets string, items [][2]*ast.Term, text string, opts []oparego.EvalOption) ([]fired, error) {
	opts = append(opts[:len(opts):len(opts)], oparego.EvalParsedInput(ast.NewObject(items...)))
	// Without a way to end, the context costs the evaluator no goroutine; the
	// external cancel ends it instead.
	query := g.queries[sets]
	rs, err := query.Eval(context.WithoutCancel(ctx), opts...)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("judge the call: %w", ctx.Err())
	case err != nil:
		return []fired{broken("policy.evaluation", text, "a policy rule failed: "+firstLine(err), "run `sallyport policy check`; the rule named there needs mending")}, nil
	case len(rs) == 0:
		return []fired{broken("policy.undefined", text, "the policy says nothing of this", "ask the person you work for")}, nil
	}
	var hits []fired
	spoken := false // by a layer that may: silence is L3, and no other layer can end it
	for _, b := range g.bindings {
		bound, there := rs[0].Bindings[b.variable]
		if !there {
			continue
		}
		set, ok := bound.([]any)
		if !ok {
			return []fired{broken("policy.shape", text, "a rule set is not a set", "write `hit contains …`")}, nil
		}
		for _, e := range set {
			hits = append(hits, g.read(e, text, b.trusted))
			spoken = spoken || b.trusted
		}
	}
	if !spoken {
		hits = append(hits, broken("policy.undefined", text, "no rule speaks of this", "ask the person you work for"))
	}
	return hits, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func broken(id, text, reason, remedy string) fired {
	return fired{RuleHit: policy.RuleHit{ID: id, Tier: policy.L3, Verdict: policy.Ask, Reason: reason, Remedy: remedy, Cmd: text}, explicit: true}
}

// read turns one element of a hit set into a rule that fired. What the element
// does not say comes from the rule's METADATA; what nobody says is L3.
func (g *generation) read(element any, text string, trusted bool) fired {
	if id, ok := element.(string); ok {
		if info, known := g.byID[id]; known {
			return info.fired(text, trusted)
		}
	}
	m, ok := element.(map[string]any)
	if !ok {
		return broken("policy.shape", text, "a rule yields something that is not an object", "yield {id, tier, reason, remedy}")
	}
	id, _ := m["id"].(string)
	info, known := g.byID[id]
	if !known {
		return broken("policy.shape", text, fmt.Sprintf("a rule yields the id %q, which no METADATA has", id), "yield the id of the METADATA")
	}
	h := info.fired(text, trusted)
	if t, ok := m["tier"].(string); ok {
		if h.Tier.UnmarshalText([]byte(t)) != nil {
			h.Tier = policy.L3
		}
		if !h.explicit {
			h.Verdict = verdictOf(h.Tier)
		}
	}
	if v, ok := m["verdict"].(string); ok {
		h.explicit = true
		if h.Verdict.UnmarshalText([]byte(v)) != nil {
			h.Verdict = policy.Deny
		}
	}
	if s, ok := m["reason"].(string); ok {
		h.Reason = s
	}
	if s, ok := m["remedy"].(string); ok {
		h.Remedy = s
	}
	if o, ok := m["obligations"]; ok {
		var err error
		if h.obliges, err = readObligations(o); err != nil {
			return broken("policy.shape", text, fmt.Sprintf("the obligations of %s cannot be read: %v", id, err), "see docs/policy.md for their form")
		}
	}
	return h
}

// fired is a rule that says what its METADATA says.
func (r RuleInfo) fired(text string, trusted bool) fired {
	return fired{
		RuleHit: policy.RuleHit{ID: r.ID, Tier: r.Tier, Verdict: r.Verdict, Reason: r.Reason, Remedy: r.Remedy, Cmd: text},
		obliges: r.obliges, trusted: trusted, explicit: r.explicit,
	}
}

func readObligations(v any) (o obligations, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(raw, &o)
}

// relaxed lowers the hits that the machine's owner called noisy.
func (g *generation) relaxed(hits []fired, program string) []fired {
	for i := range hits {
		h := &hits[i]
		for _, r := range g.data.Relax {
			if r.Rule != h.ID || h.Verdict == policy.Deny || h.Tier <= r.Tier {
				continue
			}
			if len(r.Programs) > 0 && !slices.Contains(r.Programs, program) {
				continue
			}
			h.Tier, h.Verdict, h.explicit = r.Tier, verdictOf(r.Tier), false
			h.Reason += " (relaxed: " + r.Why + ")"
		}
	}
	return hits
}

// join makes one decision of all that fired: the strictest wins.
func (g *generation) join(in Input, f policy.Facts, hits []fired) policy.Decision {
	d := policy.Decision{Tier: policy.L0, Verdict: policy.Allow, Rules: []policy.RuleHit{}, Revision: g.revision}
	counted := hits[:0:0]
	for _, h := range hits {
		if h.Tier == policy.L2 && !h.explicit {
			h.Verdict = g.preset(in.Workspace, in.Session)
		}
		if slices.Contains(g.data.Shadow, h.ID) {
			d.Shadow = append(d.Shadow, h.RuleHit)
			continue
		}
		counted = append(counted, h)
		d.Tier = max(d.Tier, h.Tier)
		d.Verdict = min(d.Verdict, h.Verdict)
		d.Rules = append(d.Rules, h.RuleHit)
	}
	if len(counted) == 0 {
		h := broken("policy.undefined", "", "only shadowed rules speak of this", "ask the person you work for")
		d.Tier, d.Verdict, d.Rules = h.Tier, h.Verdict, append(d.Rules, h.RuleHit)
	}
	if highest := g.data.Agent(in.Call.Name).MaxTier; d.Tier > highest {
		d.Verdict = policy.Deny
		d.Rules = append(d.Rules, policy.RuleHit{
			ID: "policy.max-tier", Tier: d.Tier, Verdict: policy.Deny,
			Reason: fmt.Sprintf("the policy lets this agent act up to %s and the call is %s", highest, d.Tier),
			Remedy: "ask whoever owns the policy data (agents) for a higher tier",
		})
	}
	slices.SortStableFunc(d.Rules, stricterFirst)
	d.Rules = slices.Compact(d.Rules)
	d.Obligations = g.obligations(d.Tier, f, counted)
	return d
}

func stricterFirst(a, b policy.RuleHit) int {
	return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(b.Tier, a.Tier), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Cmd, b.Cmd), cmp.Compare(a.Reason, b.Reason))
}

// preset is the verdict of an L2 rule that leaves it to the tier.
func (g *generation) preset(w policy.Workspace, _ policy.Session) policy.Verdict {
	p, ok := g.data.Presets[w.Preset]
	if !ok || p.Worktree && !w.Worktree {
		return policy.Ask
	}
	return p.L2
}

// obligations joins what the hits ask of the run. Writing and network are
// granted only where the tier makes a person (or a preset) confirm.
func (g *generation) obligations(tier policy.Tier, f policy.Facts, hits []fired) policy.Obligations {
	o := policy.Obligations{Terms: sandbox.Terms{Hidden: plainPaths(g.data.HiddenPaths)}}
	t := &o.Terms
	limit := sandbox.WriteDirect
	var caps [][]sandbox.Endpoint
	if tier >= policy.L2 {
		t.Write, t.Net = sandbox.WriteTransaction, endpoints(f.Net)
	} else {
		limit = sandbox.WriteDiscard
	}
	if tier < policy.L3 {
		t.Protected = plainPaths(g.data.ProtectedPaths)
	}
	for _, h := range hits {
		if w := h.obliges.Write; w != nil {
			if h.trusted {
				t.Write = max(t.Write, *w)
			} else {
				limit = min(limit, *w)
			}
		}
		if n := h.obliges.Net; n != nil && h.trusted && tier >= policy.L2 {
			t.Net = append(t.Net, *n...)
		}
		if n := h.obliges.Net; n != nil && !h.trusted {
			caps = append(caps, *n)
		}
		if h.obliges.Profile != "" && h.trusted {
			t.Profile = h.obliges.Profile
		}
		t.Limits = stricterLimits(t.Limits, h.obliges.Limits)
		o.Redact = o.Redact || h.obliges.Redact
		o.Approvers = max(o.Approvers, h.obliges.Approvers)
		o.Roles = bothRoles(o.Roles, h.obliges.Roles)
	}
	t.Write = min(t.Write, limit)
	for _, allowed := range caps {
		t.Net = slices.DeleteFunc(t.Net, func(e sandbox.Endpoint) bool { return !slices.Contains(allowed, e) })
	}
	t.Net = slices.Compact(sorted(t.Net))
	t.Expect = expected(f)
	return o
}

// bothRoles are the roles that satisfy two rules: those that both name. Where they
// name none in common, the one that is left is nobody's, and nobody may approve.
func bothRoles(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	both := slices.DeleteFunc(slices.Clone(a), func(r string) bool { return !slices.Contains(b, r) })
	if len(both) == 0 {
		return []string{strings.Join(a, "/") + " and " + strings.Join(b, "/")}
	}
	return both
}

func sorted(net []sandbox.Endpoint) []sandbox.Endpoint {
	slices.SortFunc(net, func(a, b sandbox.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return net
}

// endpoints lists what the facts name and a proxy can be told.
func endpoints(net []policy.NetFact) []sandbox.Endpoint {
	var out []sandbox.Endpoint
	for _, n := range net {
		e := sandbox.Endpoint{Host: n.Host, Port: n.Port}
		if n.Host != "" && n.Port > 0 && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// expected binds the run to the bytes that were judged: scripts about to run
// and files about to change.
func expected(f policy.Facts) map[string]string {
	var out map[string]string
	expect := func(path, sum string) {
		if path == "" || strings.HasPrefix(path, "/") || strings.HasPrefix(path, "..") {
			return
		}
		if out == nil {
			out = map[string]string{}
		}
		out[path] = sum
	}
	for _, c := range f.Cmds {
		if c.Script != nil && c.Script.SHA256 != "" {
			expect(c.Script.Path, c.Script.SHA256)
		}
	}
	for _, file := range f.Files {
		if file.Scope == policy.ScopeWorkspace && sandbox.Op(file.Op).Writes() && (file.SHA256 != "" || file.Kind == "absent") {
			expect(file.Path, file.SHA256)
		}
	}
	return out
}

// plainPaths are those of the globs that name one path.
func plainPaths(globs []string) []string {
	var out []string
	for _, g := range globs {
		if !strings.ContainsAny(g, "*?[{") {
			out = append(out, g)
		}
	}
	return out
}

func stricterLimits(a, b sandbox.Limits) sandbox.Limits {
	return sandbox.Limits{
		Wall: stricter(a.Wall, b.Wall), CPU: stricter(a.CPU, b.CPU), Memory: stricter(a.Memory, b.Memory),
		Pids: stricter(a.Pids, b.Pids), Output: stricter(a.Output, b.Output),
		File: stricter(a.File, b.File), Disk: stricter(a.Disk, b.Disk),
	}
}

// stricter is the smaller of two limits, where zero means the default and a
// negative one means none.
func stricter[T cmp.Ordered](a, b T) T {
	var zero T
	switch {
	case a == zero || a < zero && b > zero:
		return b
	case b == zero || b < zero:
		return a
	}
	return min(a, b)
}

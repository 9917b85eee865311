package rego

import "github.com/open-policy-agent/opa/v1/ast"

// Every evaluation is for one unit, and the rule index is asked for every fact
// that any rule of a set begins with. So each package's hit set is split at
// compile time: hit keeps the rules that can fire for a command, callHit gets
// those that can fire for a call, and a rule that may fire for both is in both.
// And rules that begin with something the input has (input.cmd.has.writes) go to
// a set of their own, which is asked only when the input has anything at all:
// most commands have nothing. That takes two thirds of the time of an
// evaluation; rules and their tests know nothing of it.
const (
	cmdHit  = "hit"
	callHit = "hit_of_a_call"
	having  = "_having" // suffix of the sets for inputs that have something
)

// hitSets are the names a hit rule may have after split.
var hitSets = []string{cmdHit, cmdHit + having, callHit, callHit + having}

// readsHits tells of a rule that reads what other rules found: it must see the
// sets whole.
func readsHits(m *ast.Module) bool {
	found := false
	ast.WalkRefs(m, func(ref ast.Ref) bool {
		for _, part := range ref[1:] {
			name, ok := part.Value.(ast.String)
			found = found || ok && name == cmdHit && ref.HasPrefix(ast.DefaultRootRef)
		}
		return found
	})
	return found
}

// split is the module with its hit rules sorted by unit and by whether the
// input must have something.
func split(m *ast.Module) *ast.Module {
	out := m.Copy()
	var more []*ast.Rule
	for _, r := range out.Rules {
		if r.Head.Name.String() != cmdHit {
			continue
		}
		constant(r)
		call, cmd, has := units(r)
		suffix := ""
		if has {
			suffix = having
		}
		switch {
		case call && cmd:
			twin := r.Copy()
			rename(twin, callHit+suffix)
			rename(r, cmdHit+suffix)
			twin.Module = out
			for _, a := range r.Annotations {
				copied := a.Copy(twin)
				out.Annotations = append(out.Annotations, copied)
			}
			more = append(more, twin)
		case call:
			rename(r, callHit+suffix)
		default:
			rename(r, cmdHit+suffix)
		}
	}
	out.Rules = append(out.Rules, more...)
	return out
}

// constant makes a rule that yields just its METADATA yield its id: what the
// METADATA says was read when the policy was loaded (RuleInfo), and need not be
// built, hashed and converted at each evaluation.
func constant(r *ast.Rule) {
	if r.Head.Key == nil || r.Head.Key.String() != "rego.metadata.rule().custom" {
		return
	}
	for _, a := range r.Annotations {
		if id, ok := a.Custom["id"].(string); ok && a.Scope == "rule" {
			r.Head.Key = ast.StringTerm(id).SetLocation(r.Head.Key.Location)
		}
	}
}

func rename(r *ast.Rule, set string) {
	r.Head.Name = ast.Var(set)
	r.Head.Reference = ast.Ref{ast.VarTerm(set)}
}

// units tells for which units a rule may fire, and whether only when the input
// has something. Only what stands in its body as a plain condition counts;
// whoever says nothing may fire for both.
func units(r *ast.Rule) (call, cmd, has bool) {
	call, cmd = true, true
	for _, e := range r.Body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		ref, value, ok := condition(e)
		has = has || ok && value.Equal(ast.BooleanTerm(true)) && (ref.under("input.has") || ref.under("input.cmd.has"))
		switch {
		case !ok:
		case ref == "input.unit" && value.Equal(ast.StringTerm(unitCall)), ref.under("input.has"):
			cmd = false
		case ref == "input.unit" && value.Equal(ast.StringTerm(unitCmd)), ref.under("input.cmd"):
			call = false
		}
	}
	return call, cmd, has
}

type reference string

func (r reference) under(prefix string) bool {
	return len(r) > len(prefix) && string(r[:len(prefix)]) == prefix && r[len(prefix)] == '.'
}

// condition reads `input.x == value` and `input.x in {…}`.
func condition(e *ast.Expr) (reference, *ast.Term, bool) {
	if !e.IsCall() || len(e.Operands()) != 2 {
		return "", nil, false
	}
	op := e.Operator().String()
	if op != ast.Equal.Name && op != ast.Equality.Name && op != ast.Member.Name {
		return "", nil, false
	}
	left, right := e.Operand(0), e.Operand(1)
	ref, ok := left.Value.(ast.Ref)
	if !ok || !ref.HasPrefix(ast.InputRootRef) || !ref.IsGround() {
		return "", nil, false
	}
	return reference(ref.String()), right, true
}

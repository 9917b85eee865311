package inspect

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// substitute is the word that an unquoted ${a:-word} or ${a:+word} surely
// stands for. Its own quotes still count, which the library forgets.
func (x *expander) substitute(p syntax.WordPart) (*syntax.Word, bool) {
	pe, ok := p.(*syntax.ParamExp)
	if !ok || x.quoted || pe.Exp == nil || pe.Exp.Word == nil || pe.Excl || pe.Length || pe.Index != nil || pe.Param == nil {
		return nil, false
	}
	known, isset := x.w.known(pe.Param.Value)
	if isset && !known {
		return nil, false
	}
	v := x.w.sc.Get(pe.Param.Value)
	some := v.IsSet() && v.String() != ""
	if pe.Param.Value == "@" || pe.Param.Value == "*" {
		return nil, false
	}
	use := false
	switch pe.Exp.Op {
	case syntax.DefaultUnset:
		use = !v.IsSet()
	case syntax.DefaultUnsetOrNull:
		use = !some
	case syntax.AlternateUnset:
		use = v.IsSet()
	case syntax.AlternateUnsetOrNull:
		use = some
	}
	if !use || !isset && (pe.Exp.Op == syntax.AlternateUnset || pe.Exp.Op == syntax.AlternateUnsetOrNull) {
		return nil, false
	}
	return pe.Exp.Word, true
}

// loosely makes the parts of a word that stands for an unquoted expansion: what
// is not quoted in it is split like the value of a variable.
func (x *expander) loosely(wd *syntax.Word) []syntax.WordPart {
	var out []syntax.WordPart
	for _, p := range unescaped(x.parts(wd.Parts)) {
		if l, ok := p.(*syntax.Lit); ok && !strings.HasPrefix(l.Value, "~") {
			p = printed(l.Value, &syntax.CmdSubst{})
		}
		out = append(out, p)
	}
	return out
}

// printed stands for the known output of a substitution: split where the
// substitution would be. The library splits only what it expands itself, so the
// text is handed to it as a variable's default.
func printed(s string, p *syntax.CmdSubst) syntax.WordPart {
	if strings.ContainsAny(s, "\x00") {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return &syntax.ParamExp{
		Dollar: p.Left, Rbrace: p.Right,
		Param: &syntax.Lit{Value: "__sallyport_unset"},
		Exp:   &syntax.Expansion{Op: syntax.DefaultUnset, Word: &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: s}}}},
	}
}

// param is a parameter expansion with its inner words made ready, or a fence.
func (x *expander) param(p *syntax.ParamExp) syntax.WordPart {
	if p.Param == nil || p.NestedParam != nil || p.Names != 0 || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		return x.fence(p)
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps {
		return x.fence(p)
	}
	known, isset := x.w.known(p.Param.Value)
	if !known && !isset && x.defaults(p) {
		known = true
	}
	if !known && !isset && x.loose && p.Exp == nil {
		known = true
	}
	if !known {
		x.bare = x.bare || !isset
		return x.fence(p)
	}
	if p.Excl {
		v := x.w.sc.Get(p.Param.Value)
		if ok, _ := x.w.known(v.Str); !ok {
			return x.fence(p)
		}
	}
	if p.Index != nil && !x.index(p.Index) {
		return x.fence(p)
	}
	if p.Slice != nil && !(x.sums(p.Slice.Offset) && x.sums(p.Slice.Length)) {
		return x.fence(p)
	}
	q := *p
	if p.Exp != nil && p.Exp.Word != nil {
		e := *p.Exp
		parts := x.parts(p.Exp.Word.Parts)
		if !x.quoted && x.defaults(p) {
			parts = unescaped(parts)
		}
		e.Word = &syntax.Word{Parts: parts}
		q.Exp = &e
	}
	if p.Repl != nil {
		r := *p.Repl
		if !x.literal(r.Orig) || !x.literal(r.With) {
			return x.fence(p)
		}
		q.Repl = &r
	}
	return &q
}

// defaults reports whether an unset variable still has a known value.
func (x *expander) defaults(p *syntax.ParamExp) bool {
	if p.Exp == nil || p.Excl || p.Length || p.Index != nil {
		return false
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return true
	}
	return false
}

// literal reports whether a word has no part that would be fenced.
func (x *expander) literal(wd *syntax.Word) bool {
	if wd == nil {
		return true
	}
	n := len(x.fenced)
	x.parts(wd.Parts)
	return len(x.fenced) == n
}

// index allows numbers and the whole list; an associative subscript is not
// followed.
func (x *expander) index(e syntax.ArithmExpr) bool {
	wd, ok := e.(*syntax.Word)
	if !ok {
		return x.sums(e)
	}
	switch lit := wd.Lit(); lit {
	case "@", "*":
		return true
	case "":
		return x.sums(e)
	default:
		if _, err := strconv.Atoi(lit); err == nil {
			return true
		}
		ok, _ := x.w.known(lit)
		return ok
	}
}

// sums reports whether an arithmetic expression rests on known values only.
func (x *expander) sums(e syntax.ArithmExpr) bool {
	switch e := e.(type) {
	case nil:
		return true
	case *syntax.Word:
		if lit := e.Lit(); lit != "" {
			if !syntax.ValidName(lit) {
				return true
			}
			ok, isset := x.w.known(lit)
			return ok || !isset
		}
		return x.literal(e)
	case *syntax.UnaryArithm:
		if _, ok := e.X.(*syntax.Word); !ok && (e.Op == syntax.Inc || e.Op == syntax.Dec) {
			return false
		}
		return x.sums(e.X)
	case *syntax.BinaryArithm:
		return x.sums(e.X) && x.sums(e.Y)
	case *syntax.ParenArithm:
		return x.sums(e.X)
	}
	return false
}

// known reports whether a parameter has a known value now, and whether it was
// set at all.
func (w *walker) known(name string) (known, isset bool) {
	switch name {
	case "@", "*", "#":
		if !w.sc.args {
			return false, true
		}
		for _, p := range w.sc.params {
			if p.opaque {
				return name == "#" && !p.many, true
			}
		}
		return true, true
	case "0":
		return true, true
	case "?", "$", "!", "-":
		return false, true
	}
	if name != "" && name[0] >= '1' && name[0] <= '9' {
		n, err := strconv.Atoi(name)
		if err != nil || !w.sc.args {
			return false, true
		}
		if n > len(w.sc.params) {
			return true, true
		}
		return !w.sc.params[n-1].opaque && len(name) == 1, true
	}
	v, ok := w.sc.variable(name)
	if !ok {
		return false, false
	}
	if v.isList {
		return !v.unknown, true
	}
	return w.sc.pick[name] < len(v.alts), true
}

package inspect

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

func itoa(n int) string { return strconv.Itoa(n) }

// expander turns words into arguments in one scope. Parts that cannot be known
// are fenced before the library sees the word, and found again afterwards.
type expander struct {
	w      *walker
	src    string
	fenced []string // source of each fenced part
	quoted bool     // inside double quotes
	bare   bool     // a fenced part is a variable nobody set
	loose  bool     // treat variables nobody set as empty, as a clean shell does
}

// fields expands words as arguments of a command.
func (w *walker) fields(words []*syntax.Word) []word {
	x := &expander{w: w, src: w.src}
	return x.fields(words)
}

func (x *expander) fields(words []*syntax.Word) (out []word) {
	for _, wd := range words {
		if lit, ok := plain(wd); ok {
			out = append(out, word{s: lit})
			continue
		}
		out = append(out, x.field(wd)...)
		if len(out) > maxWords {
			x.w.in.opaque("more words than can be looked at")
			return out
		}
	}
	return out
}

// plain is the literal of a word that needs no expansion: the common case.
func plain(wd *syntax.Word) (string, bool) {
	if len(wd.Parts) != 1 {
		return "", false
	}
	switch p := wd.Parts[0].(type) {
	case *syntax.Lit:
		if !strings.ContainsAny(p.Value, "\\~{") {
			return p.Value, true
		}
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	}
	return "", false
}

func (x *expander) config() *expand.Config {
	in := x.w.in
	if in.expand == nil {
		in.expand = &expand.Config{ExtGlob: true}
	}
	in.expand.Env = x.w.sc
	return in.expand
}

func (x *expander) field(wd *syntax.Word) (out []word) {
	ready := &syntax.Word{Parts: x.parts(wd.Parts)}
	if !syntax.SplitBraces(ready) {
		return x.split(out, wd, ready)
	}
	for w, err := range expand.BracesSeq(x.config(), ready) {
		if err != nil {
			return append(out, word{s: x.source(wd), opaque: true})
		}
		if !empty(w) {
			out = x.split(out, wd, w)
		}
		if len(out) > maxWords {
			break
		}
	}
	return out
}

// empty reports whether a word that braces made has nothing in it, not even
// quotes: bash drops it.
func empty(wd *syntax.Word) bool {
	for _, p := range wd.Parts {
		if l, ok := p.(*syntax.Lit); !ok || l.Value != "" {
			return false
		}
	}
	return true
}

// split expands one word into fields.
func (x *expander) split(out []word, wd, ready *syntax.Word) []word {
	for f, err := range expand.FieldsSeq(x.config(), ready) {
		if err != nil {
			return append(out, word{s: x.source(wd), opaque: true})
		}
		out = append(out, x.unfence(f))
		if len(out) > maxWords {
			break
		}
	}
	return out
}

// unescaped resolves backslashes outside quotes, which the library leaves in
// words that are expanded to one value.
func unescaped(parts []syntax.WordPart) []syntax.WordPart {
	for i, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok || !strings.Contains(l.Value, `\`) {
			continue
		}
		out := append([]syntax.WordPart(nil), parts[:i]...)
		from, rest := 0, l.Value
		for at := 0; at+1 < len(rest); at++ {
			if rest[at] == '\\' {
				if at > from {
					out = append(out, &syntax.Lit{Value: rest[from:at]})
				}
				out = append(out, &syntax.SglQuoted{Value: rest[at+1 : at+2]})
				at++
				from = at + 1
			}
		}
		if from < len(rest) {
			out = append(out, &syntax.Lit{Value: rest[from:]})
		}
		return append(out, unescaped(parts[i+1:])...)
	}
	return parts
}

// one expands a word as the single value of an assignment or a redirect.
func (w *walker) one(wd *syntax.Word) word {
	if wd == nil {
		return word{}
	}
	if lit, ok := plain(wd); ok {
		return word{s: lit}
	}
	x := &expander{w: w, src: w.src}
	s, err := expand.Literal(x.config(), &syntax.Word{Parts: unescaped(x.parts(wd.Parts))})
	if err != nil {
		return word{s: x.source(wd), opaque: true}
	}
	return x.unfence(s)
}

// document expands the body of a heredoc.
func (w *walker) document(wd *syntax.Word) word {
	x := &expander{w: w, src: w.src}
	s, err := expand.Document(x.config(), &syntax.Word{Parts: x.parts(wd.Parts)})
	if err != nil {
		return word{opaque: true}
	}
	return x.unfence(s)
}

func (x *expander) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(x.src) || from > to {
		return "?"
	}
	return x.src[from:to]
}

func (x *expander) fence(n syntax.Node) syntax.WordPart {
	x.fenced = append(x.fenced, x.source(n))
	return &syntax.SglQuoted{Value: string(fenceOpen) + itoa(len(x.fenced)-1) + string(fenceClose)}
}

// unfence puts the source text back where a part was fenced.
func (x *expander) unfence(s string) word {
	if !strings.ContainsRune(s, fenceOpen) && !strings.ContainsRune(s, fenceClose) {
		return word{s: s}
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, string(fenceOpen))
		b.WriteString(before)
		if !ok {
			break
		}
		num, after, _ := strings.Cut(rest, string(fenceClose))
		if n, err := strconv.Atoi(num); err == nil && n < len(x.fenced) {
			b.WriteString(x.fenced[n])
		}
		s = after
	}
	return word{s: b.String(), opaque: true}
}

// parts fences every part whose value cannot be known.
func (x *expander) parts(in []syntax.WordPart) []syntax.WordPart {
	out := make([]syntax.WordPart, 0, len(in))
	for i, p := range in {
		if inner, ok := x.substitute(p); ok {
			out = append(out, x.loosely(inner)...)
			continue
		}
		out = append(out, x.part(p, i+1 < len(in) && startsWithBrace(in[i+1])))
	}
	return out
}

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

func startsWithBrace(p syntax.WordPart) bool {
	l, ok := p.(*syntax.Lit)
	return ok && strings.HasPrefix(l.Value, "{")
}

func (x *expander) part(p syntax.WordPart, beforeBrace bool) syntax.WordPart {
	switch p := p.(type) {
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\c`) {
			return x.fence(p)
		}
	case *syntax.DblQuoted:
		q, was := *p, x.quoted
		x.quoted = true
		q.Parts = x.parts(p.Parts)
		x.quoted = was
		return &q
	case *syntax.ParamExp:
		if p.Short && beforeBrace {
			return x.fence(p)
		}
		return x.param(p)
	case *syntax.CmdSubst:
		if s, ok := x.w.prints(p.Stmts); ok {
			return printed(strings.TrimRight(s, "\n"), p)
		}
		return x.fence(p)
	case *syntax.ArithmExp:
		if !x.sums(p.X) {
			return x.fence(p)
		}
	case *syntax.ProcSubst:
		if s, ok := x.w.prints(p.Stmts); ok && p.Op == syntax.CmdIn {
			at := "/dev/fd/" + itoa(1000+len(x.w.in.written))
			x.w.in.wrote(at, &s, false)
			return &syntax.SglQuoted{Value: at}
		}
		return x.fence(p)
	}
	return p
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
				return name == "#", true
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

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
	fenced []fenced // what each fence stands for
	quoted bool     // inside double quotes
	bare   bool     // a fenced part is a variable nobody set
	loose  bool     // treat variables nobody set as empty, as a clean shell does
}

// fenced is a part of a word that cannot be known.
type fenced struct {
	source string
	splits bool // it stands outside quotes: any number of words
	steady bool // it does, but stays one word: see located.go
}

// fields expands words as arguments of a command.
func (w *walker) fields(words []*syntax.Word) []word {
	x := &expander{w: w, src: w.src}
	return x.fields(words)
}

func (x *expander) fields(words []*syntax.Word) []word {
	out := make([]word, 0, len(words))
	for _, wd := range words {
		if lit, ok := plain(wd); ok {
			out = append(out, word{s: lit})
			continue
		}
		more := x.field(wd)
		x.w.in.budget.words -= len(more)
		out = append(out, more...)
		if len(out) > maxWords || x.w.in.budget.words < 0 {
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
	x.fenced = append(x.fenced, fenced{x.source(n), !x.quoted, !x.quoted && x.steady(n)})
	return &syntax.SglQuoted{Value: string(fenceOpen) + itoa(len(x.fenced)-1) + string(fenceClose)}
}

// unfence puts the source text back where a part was fenced.
func (x *expander) unfence(s string) word {
	if !strings.ContainsRune(s, fenceOpen) && !strings.ContainsRune(s, fenceClose) {
		return word{s: s}
	}
	var b strings.Builder
	out := word{opaque: true, steady: true}
	for {
		before, rest, ok := strings.Cut(s, string(fenceOpen))
		b.WriteString(before)
		if !ok {
			break
		}
		num, after, _ := strings.Cut(rest, string(fenceClose))
		if n, err := strconv.Atoi(num); err == nil && n < len(x.fenced) {
			b.WriteString(x.fenced[n].source)
			out.many = out.many || x.fenced[n].splits
			out.steady = out.steady && (x.fenced[n].steady || !x.fenced[n].splits)
		}
		s = after
	}
	out.s = b.String()
	return out
}

// parts fences every part whose value cannot be known.
func (x *expander) parts(in []syntax.WordPart) []syntax.WordPart {
	out := make([]syntax.WordPart, 0, len(in))
	if l, ok := first(in).(*syntax.Lit); ok && strings.HasPrefix(l.Value, "~") && !x.quoted && !tilde(l.Value, len(in) > 1) {
		out = append(out, &syntax.SglQuoted{Value: "~"})
		in = append([]syntax.WordPart{&syntax.Lit{ValuePos: l.ValuePos, ValueEnd: l.ValueEnd, Value: l.Value[1:]}}, in[1:]...)
	}
	for i, p := range in {
		if inner, ok := x.substitute(p); ok {
			out = append(out, x.loosely(inner)...)
			continue
		}
		out = append(out, x.part(p, i+1 < len(in) && startsWithBrace(in[i+1])))
	}
	return out
}

func first(parts []syntax.WordPart) syntax.WordPart {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// tilde reports whether a word's beginning names a home: ~, ~user, up to a
// slash or the end of the word.
func tilde(s string, more bool) bool {
	name, _, slash := strings.Cut(s[1:], "/")
	return (slash || !more) && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
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

package inspect

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) redirSubsts(rs []*syntax.Redirect) {
	for _, r := range rs {
		w.substs([]*syntax.Word{r.Word})
		if r.Hdoc != nil {
			w.node(r.Hdoc)
		}
	}
}

// input is the known standard input that redirects give.
func (w *walker) input(rs []*syntax.Redirect) (*string, bool) {
	for _, r := range slices.Backward(rs) {
		if r.N != nil && r.N.Value != "0" {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if r.Hdoc == nil {
				return known(""), true
			}
			return known(w.hdoc(r).s), true
		case syntax.WordHdoc:
			if d := w.one(r.Word); !d.opaque {
				return known(d.s + "\n"), true
			}
			return nil, true
		case syntax.RdrIn:
			if s, ok := w.file(w.one(r.Word)); ok {
				return known(s), true
			}
			return nil, true
		case syntax.RdrInOut, syntax.DplIn:
			return nil, true
		}
	}
	return nil, false
}

func (w *walker) hdoc(r *syntax.Redirect) word {
	if quoted(r.Word) {
		var b strings.Builder
		for _, p := range r.Hdoc.Parts {
			if l, ok := p.(*syntax.Lit); ok {
				b.WriteString(l.Value)
			}
		}
		return word{s: b.String()}
	}
	d := w.document(r.Hdoc)
	if r.Op == syntax.DashHdoc {
		d.s = tabs(d.s)
	}
	return d
}

func tabs(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, "\t")
	}
	return strings.Join(lines, "\n")
}

// quoted reports whether a here-document's delimiter is quoted, so that its
// body is taken as it stands.
func quoted(wd *syntax.Word) bool {
	for _, p := range wd.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.Contains(p.Value, `\`) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

package inspect

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arith walks the substitutions in an arithmetic expression and performs its
// assignments.
func (w *walker) arith(e syntax.ArithmExpr) {
	if e == nil {
		return
	}
	w.node(e)
	w.numeric(e)
	x := &expander{w: w, src: w.src}
	if x.sums(e) {
		w.evaluate(e)
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryArithm); ok && strings.HasSuffix(b.Op.String(), "=") {
			if wd, ok := b.X.(*syntax.Word); ok && wd.Lit() != "" {
				w.sc.set(wd.Lit(), unknowable)
			}
		}
		return true
	})
}

func (w *walker) test(t syntax.TestExpr) {
	switch t := t.(type) {
	case *syntax.BinaryTest:
		w.test(t.X)
		w.test(t.Y)
		switch t.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{t.X, t.Y} {
				if wd, ok := side.(*syntax.Word); ok {
					w.number(w.one(wd).s, 0)
				}
			}
		}
	case *syntax.UnaryTest:
		w.test(t.X)
		if wd, ok := t.X.(*syntax.Word); ok {
			w.subscript(w.one(wd).s)
		}
	case *syntax.ParenTest:
		w.test(t.X)
	case *syntax.Word:
		w.substs([]*syntax.Word{t})
	}
}

// subscript walks the substitutions bash performs in an array subscript even
// when it was quoted: [[ -v 'a[$(cmd)]' ]].
func (w *walker) subscript(s string) {
	i := strings.IndexByte(s, '[')
	if i < 0 || !strings.ContainsAny(s[i:], "$`") {
		return
	}
	wd, err := syntax.NewParser().Document(strings.NewReader(s[i:]))
	if err != nil {
		w.in.opaque("an array subscript that does not parse")
		return
	}
	c := w.within("subscript", true)
	c.src = s[i:]
	c.substs([]*syntax.Word{wd})
}

// numeric walks what evaluating an arithmetic expression runs beyond its own
// substitutions: bash evaluates the values of its variables too.
func (w *walker) numeric(e syntax.ArithmExpr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		if wd, ok := n.(*syntax.Word); ok {
			w.number(w.one(wd).s, 0)
			return false
		}
		return true
	})
}

func (w *walker) number(s string, depth int) {
	w.subscript(s)
	if !syntax.ValidName(s) || depth > 8 {
		return
	}
	for _, v := range w.sc.get(s).alts {
		if v != s {
			w.number(v, depth+1)
		}
	}
}

// prompted walks what ${x@P} runs: the substitutions in the value of x.
func (w *walker) prompted(name string) {
	if ok, _ := w.known(name); !ok {
		w.in.opaque("${" + name + "@P} runs a text known only when it runs")
		return
	}
	w.subscript("[" + w.sc.Get(name).String())
}

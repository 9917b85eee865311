package inspect

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) branch(c *syntax.IfClause) {
	w.stmts(c.Cond)
	before := w.sc.fork()
	w.stmts(c.Then)
	then := w.sc.fork()
	*w.sc = *before
	if c.Else != nil {
		w.branch(c.Else)
	}
	other := w.sc.fork()
	w.sc.become(then, other)
}

// while walks a loop twice: the second time with whatever the first changed
// also unknown, which stands for all further turns.
func (w *walker) while(c *syntax.WhileClause) {
	w.maybe(func(w *walker) {
		var turns []*scope
		d := *w
		d.turns = append(slices.Clone(w.turns), &turns)
		w = &d
		defer w.landed(&turns, endsTurn)
		before := w.sc.fork()
		w.stmts(c.Cond)
		w.stmts(c.Do)
		w.landed(&turns, endsTurn)
		changed := false
		for n := range w.sc.vars.changed(&before.vars) {
			v := w.sc.get(n)
			if old, ok := before.variable(n); !ok || !old.equal(v) {
				v.unknown = true
				if v.isList {
					v = unknowable
				}
				w.sc.set(n, v)
				changed = true
			}
		}
		if changed {
			w.stmts(c.Do)
		}
	})
}

// landed joins the states in which a loop or a function was left early, after
// it.
func (w *walker) landed(states *[]*scope, by end) {
	if w.sc.dead <= by {
		w.sc.dead = goesOn
	}
	for _, st := range *states {
		st.dead = goesOn
		if w.sc.dead != goesOn {
			*w.sc = *st
			continue
		}
		w.sc.become(w.sc.fork(), st)
	}
	*states = nil
}

func (w *walker) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		w.forEach(c, l)
	case *syntax.CStyleLoop:
		w.arith(l.Init)
		w.arith(l.Cond)
		w.arith(l.Post)
		w.while(&syntax.WhileClause{Do: c.Do})
	}
}

func (w *walker) forEach(c *syntax.ForClause, l *syntax.WordIter) {
	w.substs(l.Items)
	items := w.sc.params
	if l.InPos.IsValid() {
		items = w.fields(l.Items)
	} else if !w.sc.args {
		items = []word{{opaque: true}}
	}
	if len(items) > maxItems {
		items = append(items[:maxItems:maxItems], word{opaque: true})
	}
	if c.Select {
		items = append(slices.Clone(items), word{opaque: true})
	}
	var turns []*scope
	d := *w
	d.turns = append(slices.Clone(w.turns), &turns)
	for _, it := range items {
		if it.opaque {
			w.sc.set(l.Name.Value, unknowable)
		} else {
			w.sc.set(l.Name.Value, scalar(it.s))
		}
		d.stmts(c.Do)
		d.landed(&turns, endsTurn)
	}
}

func (w *walker) cases(c *syntax.CaseClause) {
	w.substs([]*syntax.Word{c.Word})
	before := w.sc.fork()
	result := before.fork()
	for _, it := range c.Items {
		w.substs(it.Patterns)
		*w.sc = *before.fork()
		w.stmts(it.Stmts)
		arm := w.sc.fork()
		joined := result.fork()
		joined.become(result, arm)
		result = joined
	}
	*w.sc = *result
}

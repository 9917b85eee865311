package inspect

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// alternatives are the variables in a command that may have several values.
func (w *walker) alternatives(c *syntax.CallExpr, redirs []*syntax.Redirect) (names []string) {
	note := func(name string) {
		v := w.sc.get(name)
		if len(v.alts) > 0 && !v.isList && (len(v.alts) > 1 || v.unknown) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	note("PWD")
	visit := func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			note("IFS")
			note(p.Param.Value)
			if p.Excl {
				for _, to := range w.sc.get(p.Param.Value).alts {
					note(to)
				}
			}
		}
		if wd, ok := n.(*syntax.Word); ok && syntax.ValidName(wd.Lit()) {
			note(wd.Lit()) // a name in an arithmetic expression
		}
		return true
	}
	for _, a := range c.Args {
		if _, ok := plain(a); !ok {
			syntax.Walk(a, visit)
		}
	}
	for _, a := range c.Assigns {
		if a.Value != nil {
			syntax.Walk(a.Value, visit)
		}
	}
	for _, r := range redirs {
		if r.Word != nil {
			syntax.Walk(r.Word, visit)
		}
	}
	return names
}

// combine yields every combination of the values that the named variables may
// have: a world.
func (w *walker) combine(names []string) func(func(map[string]int) bool) {
	sizes := make([]int, len(names))
	for i, n := range names {
		v := w.sc.get(n)
		sizes[i] = len(v.alts)
		if v.unknown {
			sizes[i]++
		}
	}
	total := 1
	for _, n := range sizes {
		total = min(total*n, 2*maxWorlds)
	}
	if total > maxWorlds {
		return w.vary(names, sizes)
	}
	return func(yield func(map[string]int) bool) {
		for turn := range total {
			pick := make(map[string]int, len(names))
			for i, n := range names {
				pick[n] = turn % sizes[i]
				turn /= sizes[i]
			}
			if !yield(pick) {
				return
			}
		}
	}
}

// vary yields worlds that differ from the first in one variable each, for
// commands with more combinations than can be looked at.
func (w *walker) vary(names []string, sizes []int) func(func(map[string]int) bool) {
	return func(yield func(map[string]int) bool) {
		if !yield(map[string]int{}) {
			return
		}
		for i, n := range names {
			for k := 1; k < sizes[i]; k++ {
				if !yield(map[string]int{n: k}) {
					return
				}
			}
		}
	}
}

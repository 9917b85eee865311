package inspect

import (
	"slices"
	"strings"

	"sallyport/policy"
)

func (w *walker) setAlias(args []word) {
	for _, a := range args {
		name, body, ok := strings.Cut(a.s, "=")
		if !ok || a.opaque {
			continue
		}
		w.sc.aliases.set(name, body)
		if !strings.HasPrefix(body, name+" ") && body != name {
			w.within("alias", true).text(body)
		}
	}
}

// alias runs an alias, as a shell with expand_aliases does; the command of that
// name is run besides, as every other shell does.
func (w *walker) alias(s simple, text string) {
	c := w.within("alias:"+s.argv[0].s, false)
	saved, _ := w.sc.aliases.get(s.argv[0].s)
	w.sc.aliases.del(s.argv[0].s)
	defer func() { w.sc.aliases.set(s.argv[0].s, saved) }()
	parts := []string{text}
	for _, a := range s.argv[1:] {
		if a.opaque {
			parts = append(parts, a.s)
		} else {
			parts = append(parts, quote(a.s))
		}
	}
	c.maybe(func(c *walker) { c.text(strings.Join(parts, " ")) })
	w.maybe(func(w *walker) { w.run(s) })
}

// function runs a declared function: each body it may have, and where it may
// not be declared the command of that name.
func (w *walker) function(s simple, f function) {
	if len(f.bodies) == 1 && !f.maybe {
		w.enter(s, f.bodies[0])
		return
	}
	name := s.argv[0].s
	for _, b := range f.bodies {
		w.maybe(func(w *walker) { w.enter(s, b) })
	}
	if f.maybe {
		w.maybe(func(w *walker) {
			w.sc.funcs.del(name)
			w.run(s)
			w.sc.funcs.set(name, f)
		})
	}
}

// enter runs a function's body with its arguments. A function that calls itself
// is recorded, not followed; one that does so in a pipe or in the background is
// a fork bomb.
func (w *walker) enter(s simple, f body) {
	*f.called = true
	if slices.Contains(w.funcs, f.stmt) {
		n, _ := w.emit(s)
		if w.forks > 0 {
			w.in.facts.Cmds[n].Patterns = append(w.in.facts.Cmds[n].Patterns, "danger.fork-bomb")
			w.in.find(policy.Finding{Rule: "danger.fork-bomb", Severity: "critical", Text: excerpt(f.src)})
		}
		return
	}
	c := w.within("function:"+s.argv[0].s, false)
	c.funcs = append(slices.Clone(w.funcs), f.stmt)
	c.src = f.src
	c.forks = 0
	var calls []*scope
	locals := map[string]variable{}
	c.calls, c.turns, c.locals = &calls, nil, &locals
	oldParams, oldArgs := w.sc.params, w.sc.args
	w.sc.params, w.sc.args = positional(s.argv[1:]), true
	c.redirs = append(slices.Clone(w.redirs), s.redirs...)
	if slices.ContainsFunc(s.argv, func(a word) bool { return a.opaque }) {
		c.maybe(func(c *walker) { c.stmt(f.stmt) }) // an argument that fails to expand fails the call
	} else {
		c.stmt(f.stmt)
	}
	c.landed(&calls, endsCall)
	for name, old := range locals {
		// A local declared in a branch that was not taken is none: both hold.
		w.sc.vars.set(name, old.join(w.sc.get(name)))
	}
	w.sc.params, w.sc.args = oldParams, oldArgs
}

func (w *walker) shift(args []word) {
	n := 1
	if len(args) > 0 {
		n = 0
		for _, r := range args[0].s {
			n = n*10 + int(r-'0')
		}
	}
	if n >= 0 && n <= len(w.sc.params) {
		w.sc.params = w.sc.params[n:]
	}
}

func (w *walker) setParams(args []word) {
	for i, a := range args {
		if a.s == "--" {
			w.sc.params, w.sc.args = positional(args[i+1:]), true
			return
		}
		if a.s == "-o" || a.s == "+o" {
			return
		}
		if !strings.HasPrefix(a.s, "-") && !strings.HasPrefix(a.s, "+") {
			w.sc.params, w.sc.args = positional(args[i:]), true
			return
		}
	}
}

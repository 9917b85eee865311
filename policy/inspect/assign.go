package inspect

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) assignSubsts(a *syntax.Assign) {
	if a.Index != nil {
		w.node(a.Index)
	}
	if a.Value != nil {
		w.substs([]*syntax.Word{a.Value})
	}
	if a.Array != nil {
		w.node(a.Array)
	}
}

// assign performs one assignment.
func (w *walker) assign(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	switch {
	case a.Array != nil:
		w.assignArray(a)
	case a.Index != nil:
		w.sc.set(name, unknowable)
	case a.Naked:
	default:
		v := w.value(a)
		if a.Append {
			v = w.sc.get(name).append(v)
		}
		w.sc.set(name, v)
	}
	if _, ok := w.sc.exports.get(name); ok {
		w.sc.exports.set(name, w.sc.Get(name).Str)
	}
	w.variableRuns(name)
}

// value is what a word assigned to a variable may be, in every world.
func (w *walker) value(a *syntax.Assign) variable {
	if a.Value == nil {
		return scalar("")
	}
	out := variable{}
	add := func() {
		v := w.one(a.Value)
		if v.opaque {
			out.unknown, out.own = true, v.s == "$!" || v.s == "${!}"
		} else if !slices.Contains(out.alts, v.s) {
			out.alts = append(out.alts, v.s)
		}
	}
	names := w.alternatives(&syntax.CallExpr{Args: []*syntax.Word{a.Value}}, nil)
	if len(names) == 0 {
		add()
		return out
	}
	old := w.sc.pick
	for pick := range w.combine(names) {
		w.sc.pick = pick
		add()
	}
	w.sc.pick = old
	if len(out.alts) > maxAlts {
		out.alts, out.unknown = out.alts[:maxAlts], true
	}
	return out
}

func (v variable) append(o variable) variable {
	if v.isList || v.unknown || o.unknown {
		return unknowable
	}
	if len(v.alts) == 0 {
		return o
	}
	out := variable{}
	for _, a := range v.alts {
		for _, b := range o.alts {
			if len(out.alts) == maxAlts || len(a)+len(b) > maxText {
				out.unknown = true
				return out
			}
			out.alts = append(out.alts, a+b)
		}
	}
	return out
}

func (w *walker) assignArray(a *syntax.Assign) {
	v := variable{isList: true}
	if old := w.sc.get(a.Name.Value); a.Append && old.isList {
		v = old
		v.list = slices.Clone(old.list)
	} else if a.Append && len(old.alts) == 1 {
		v.list = slices.Clone(old.alts)
	}
	v.own = len(v.list) == 0 || v.own
	for _, e := range a.Array.Elems {
		if e.Index != nil || e.Value == nil {
			w.sc.set(a.Name.Value, unknowable)
			return
		}
		for _, f := range w.fields([]*syntax.Word{e.Value}) {
			v.list = append(v.list, f.s)
			v.unknown = v.unknown || f.opaque
			v.own = v.own && f.s == "$!"
		}
	}
	w.sc.set(a.Name.Value, v)
}

// declare is export, declare, local, readonly and typeset, which the parser
// keeps apart from other commands.
func (w *walker) declare(c *syntax.DeclClause) {
	argv := []word{{s: c.Variant.Value}}
	assigns, dark := map[string]string{}, map[string]bool{}
	attr := ""
	if c.Variant.Value == "readonly" {
		attr = isFixed
	}
	for _, a := range c.Args {
		w.assignSubsts(a)
		if a.Name == nil {
			v := w.one(a.Value)
			if c.Variant.Value != "export" {
				attr = attribute(v.s, attr)
			}
			argv = append(argv, v)
			w.declareText(c.Variant.Value, v)
			continue
		}
		w.declareOne(a, attr)
		v := word{s: a.Name.Value}
		if !a.Naked {
			val := w.sc.Get(a.Name.Value)
			v.s += "=" + val.String()
			v.opaque = w.sc.get(a.Name.Value).unknown
			assigns[a.Name.Value] = val.String()
			dark[a.Name.Value] = v.opaque
		}
		if c.Variant.Value == "export" {
			w.sc.exports.set(a.Name.Value, w.sc.Get(a.Name.Value).String())
		}
		argv = append(argv, v)
	}
	n, cl := w.emit(simple{argv: argv, assigns: assigns, dark: dark})
	if cl == nil || len(assigns) == 0 || c.Variant.Value == "local" {
		return
	}
	cl.environment(assigns)
	w.in.facts.Cmds[n].Targets = append(w.in.facts.Cmds[n].Targets, cl.targets...)
}

// attribute is what declare's flags do to later assignments.
func attribute(flags, old string) string {
	if !strings.HasPrefix(flags, "-") {
		return old
	}
	for _, f := range flags[1:] {
		switch f {
		case 'n':
			return isRef
		case 'i', 'u', 'l', 'c', 'A':
			old = isShaped
		case 'r':
			if old == "" {
				old = isFixed
			}
		}
	}
	return old
}

func (w *walker) declareOne(a *syntax.Assign, attr string) {
	name := a.Name.Value
	w.localize(name)
	switch attr {
	case isRef:
		w.sc.taint()
		w.sc.vars.set(name, unknowable)
		w.sc.special.set(name, isRef)
	case isShaped:
		w.sc.special.set(name, isShaped)
		w.sc.vars.set(name, unknowable)
	default:
		w.assign(a)
		if attr != "" {
			w.sc.special.set(name, attr)
		}
	}
	w.variableRuns(name)
}

// declareText performs export "$x" where the expansion makes the assignment.
func (w *walker) declareText(variant string, v word) {
	w.subscript(v.s)
	n, val, ok := strings.Cut(v.s, "=")
	if !ok || v.opaque || !syntax.ValidName(n) {
		return
	}
	w.sc.set(n, scalar(val))
	if variant == "export" {
		w.sc.exports.set(n, val)
	}
}

// localize remembers what a variable was before the function around declared it.
func (w *walker) localize(name string) {
	if w.locals == nil {
		return
	}
	if _, ok := (*w.locals)[name]; ok {
		return
	}
	old, ok := w.sc.variable(name)
	if !ok {
		old = unset
	}
	(*w.locals)[name] = old
}

// variableRuns walks the text of a variable that the shell itself runs.
func (w *walker) variableRuns(name string) {
	switch name {
	case "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "BASH_ENV", "ENV":
	default:
		return
	}
	for _, text := range w.sc.get(name).alts {
		d := w.within(name, true)
		switch {
		case name == "PROMPT_COMMAND":
			d.text(text)
		case strings.ContainsAny(text, "$`"):
			d.subscript("[" + text)
		}
	}
}

// evaluate performs an arithmetic expression for its assignments.
func (w *walker) evaluate(e syntax.ArithmExpr) {
	_, _ = expand.Arithm(&expand.Config{Env: w.sc}, e)
}

package inspect

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
)

// builtinNames are the commands bash performs itself.
var builtinNames = set(`. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs
 disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd
 printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit
 umask unalias unset wait`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// builtin performs what a builtin does to the state of the shell.
func (w *walker) builtin(c *call) {
	args := c.s.argv[1:]
	switch c.name {
	case "cd", "pushd":
		w.chdir(c)
	case "popd":
		w.sc.set("PWD", unknowable)
	case "exit", "return", "break", "continue":
		w.leave(c)
	case "shopt":
		w.sc.piped = w.sc.piped || slices.ContainsFunc(args, func(a word) bool { return a.opaque || a.s == "lastpipe" })
	case "eval":
		w.eval(c, args)
	case "source", ".":
		w.source(c)
	case "trap":
		w.trap(c)
	case "alias":
		w.setAlias(args)
	case "shift":
		w.shift(args)
	case "set":
		w.setParams(args)
	case "unset":
		for _, a := range c.args {
			w.subscript(a.s)
			w.sc.vars.del(a.s)
			w.sc.funcs.del(a.s)
		}
	case "read", "mapfile", "readarray":
		w.readVars(c)
	case "printf":
		w.printfTo(args)
	case "getopts":
		if len(c.args) > 1 {
			w.sc.set(c.args[1].s, unknowable)
		}
		w.sc.set("OPTARG", unknowable)
	case "test", "[":
		for i, a := range args {
			if a.s == "-v" && i+1 < len(args) {
				w.subscript(args[i+1].s)
			}
		}
	case "hash":
		if v, ok := c.value("-p"); ok && len(c.args) > 0 {
			w.sc.aliases.set(c.args[0].s, quote(v.s))
		}
	case "complete", "bind", "fc":
		for i, a := range args {
			if (a.s == "-C" || a.s == "-x" || a.s == "-e") && i+1 < len(args) {
				w.within(c.name, true).text(args[i+1].s)
			}
		}
	case "export", "readonly", "declare", "typeset", "local":
		for _, a := range args {
			if a.opaque {
				w.sc.taint()
			}
			if n, v, ok := strings.Cut(a.s, "="); ok && !a.opaque && syntax.ValidName(n) {
				w.sc.set(n, scalar(v))
				if c.name == "export" {
					w.sc.exports.set(n, v)
				}
			}
		}
	}
}

// leave ends the code here, when the builtin surely does.
func (w *walker) leave(c *call) {
	state := w.sc.fork()
	note := func(states *[]*scope) {
		if states != nil && len(*states) < maxItems {
			*states = append(*states, state)
		}
	}
	sure := len(c.s.argv) == 1 || len(c.s.argv) == 2 && !c.s.argv[1].opaque && strings.Trim(c.s.argv[1].s, "0123456789") == "" && c.s.argv[1].s != ""
	sure = sure && len(c.s.redirs) == 0
	switch c.name {
	case "exit":
		if sure {
			w.sc.dead = endsShell
		}
	case "return":
		note(w.calls)
		if sure && w.calls != nil {
			w.sc.dead = endsCall
		}
	default:
		for _, states := range w.turns {
			note(states)
		}
		if len(c.s.argv) == 1 && sure && len(w.turns) > 0 {
			w.sc.dead = endsTurn
		}
	}
}

// trap walks a trap's text now and, since it runs later, once more when the
// shell ends. Between the two its variables may hold anything.
func (w *walker) trap(c *call) {
	if len(c.args) < 2 {
		return
	}
	if c.args[0].opaque {
		c.opaque = "runs a text known only when it runs"
		return
	}
	text := c.args[0].s
	w.within("trap", true).text(text)
	if !strings.ContainsAny(text, "$`") {
		return
	}
	for _, sig := range c.args[1:] {
		switch strings.TrimPrefix(sig.s, "SIG") {
		case "EXIT", "0":
			w.in.traps = append(w.in.traps, trap{text, w})
		default:
			d := w.within("trap", true)
			d.sc.taint()
			d.text(text)
		}
	}
}

func (w *walker) chdir(c *call) {
	switch {
	case len(c.args) == 0:
		w.sc.set("PWD", w.sc.get("HOME"))
	case c.args[0].opaque:
		w.sc.set("PWD", unknowable)
	case c.args[0].s == "-":
		if old, ok := w.sc.variable("OLDPWD"); ok {
			w.sc.set("OLDPWD", w.sc.get("PWD"))
			w.sc.set("PWD", old)
		} else {
			w.sc.set("PWD", unknowable)
		}
	default:
		w.sc.set("OLDPWD", w.sc.get("PWD"))
		if to := w.in.abs(c.dir, c.args[0].s); to != "" {
			w.sc.set("PWD", scalar(to))
		} else {
			w.sc.set("PWD", unknowable)
		}
	}
}

func (w *walker) eval(c *call, args []word) {
	if len(args) > 0 && args[0].s == "--" {
		args = args[1:]
	}
	parts := make([]string, len(args))
	for i, a := range args {
		if a.opaque {
			c.opaque = "eval of a text known only when it runs"
			defer w.sc.taint()
		}
		parts[i] = a.s
	}
	w.within("eval", false).text(strings.Join(parts, " "))
}

// source runs a file in this very shell.
func (w *walker) source(c *call) {
	if len(c.args) == 0 {
		return
	}
	d := w.within("source", false)
	d.calls = &[]*scope{}
	defer func() {
		d.landed(d.calls, endsCall)
		if c.opaque != "" {
			w.sc.taint()
		}
	}()
	if len(c.args) > 1 {
		old := w.sc.params
		d.sc.params = c.args[1:]
		defer func() { w.sc.params = old }()
	}
	d.scriptFile(c, c.args[0], langShell)
}

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
	w.sc.params, w.sc.args = s.argv[1:], true
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
			w.sc.params, w.sc.args = args[i+1:], true
			return
		}
		if a.s == "-o" || a.s == "+o" {
			return
		}
		if !strings.HasPrefix(a.s, "-") && !strings.HasPrefix(a.s, "+") {
			w.sc.params, w.sc.args = args[i:], true
			return
		}
	}
}

// readVars gives the variables of read and mapfile what the standard input is
// known to hold.
func (w *walker) readVars(c *call) {
	names := c.args
	if len(names) == 0 {
		names = []word{{s: "REPLY"}}
	}
	for _, n := range names {
		if n.opaque {
			w.sc.taint()
		}
		w.subscript(n.s)
		w.sc.set(n.s, unknowable)
	}
	if c.name != "read" && w.stdin != nil && len(c.args) > 0 && (len(c.opts) == 0 || len(c.opts) == 1 && c.opts[0].name == "-t") {
		w.sc.set(c.args[0].s, lines(*w.stdin, len(c.opts) == 1))
	}
	if sep, ok := c.s.assigns["IFS"]; ok && strings.Trim(sep, " \t\n") != "" || w.sc.Get("IFS").Str != " \t\n" {
		return
	}
	if c.name != "read" || w.stdin == nil || len(c.opts) > 0 && !(len(c.opts) == 1 && c.opts[0].name == "-r") {
		return
	}
	line, _, _ := strings.Cut(*w.stdin, "\n")
	fields := strings.Fields(line)
	for i, n := range names {
		switch {
		case i >= len(fields):
			w.sc.set(n.s, scalar(""))
		case i == len(names)-1:
			w.sc.set(n.s, scalar(strings.Join(fields[i:], " ")))
		default:
			w.sc.set(n.s, scalar(fields[i]))
		}
	}
}

func (w *walker) printfTo(args []word) {
	if len(args) < 3 || args[0].s != "-v" {
		return
	}
	w.subscript(args[1].s)
	if args[1].opaque {
		w.sc.taint()
	}
	plainArgs := make([]string, 0, len(args))
	for _, a := range args[2:] {
		if a.opaque {
			w.sc.set(args[1].s, unknowable)
			return
		}
		plainArgs = append(plainArgs, a.s)
	}
	if s, ok := w.printf(plainArgs); ok {
		w.sc.set(args[1].s, scalar(s))
	} else {
		w.sc.set(args[1].s, unknowable)
	}
}

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
			out.unknown = true
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
	for _, e := range a.Array.Elems {
		if e.Index != nil || e.Value == nil {
			w.sc.set(a.Name.Value, unknowable)
			return
		}
		for _, f := range w.fields([]*syntax.Word{e.Value}) {
			v.list = append(v.list, f.s)
			v.unknown = v.unknown || f.opaque
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

// lookup is the file a system program's name stands for, "" when the table
// does not know it.
func (in *inspection) lookup(name string) string {
	if strings.Contains(name, "/") || !systemName(name) {
		return ""
	}
	return path.Join("/usr/bin", name)
}

// systemName reports whether a program of that name comes with the system.
func systemName(name string) bool {
	_, ok := programs()[name]
	return ok || builtinNames[name] || sameProgram[name] != ""
}

// lines is the array mapfile makes of a text; trim is its -t.
func lines(text string, trim bool) variable {
	v := variable{isList: true}
	for _, l := range strings.SplitAfter(text, "\n") {
		if l == "" {
			continue
		}
		if trim {
			l = strings.TrimSuffix(l, "\n")
		}
		v.list = append(v.list, l)
		if len(v.list) > maxWords {
			return unknowable
		}
	}
	return v
}

package inspect

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
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
	if len(args) == 1 && args[0].opaque {
		if m := initText.FindStringSubmatch(args[0].s); m != nil && !w.redefined(strings.Fields(m[1])[0]) {
			w.sc.taint()
			return
		}
	}
	parts := make([]string, len(args))
	for i, a := range args {
		if a.opaque {
			c.opaque = "runs a text (eval) known only when it runs"
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

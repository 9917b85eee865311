package inspect

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
)

// simple is one simple command after expansion, before it became a fact.
type simple struct {
	argv    []word
	assigns map[string]string
	dark    map[string]bool // assignments whose value is not known
	redirs  []*syntax.Redirect
	loose   bool // an alternative reading: variables nobody set taken as empty
	pos     int  // unused text position; -1 for none
}

// call expands a simple command, in every world its alternatives make, and
// runs it.
func (w *walker) call(c *syntax.CallExpr, redirs []*syntax.Redirect) {
	for _, a := range c.Assigns {
		w.assignSubsts(a)
	}
	w.substs(c.Args)
	w.redirSubsts(redirs)
	if in, ok := w.input(redirs); ok {
		d := *w
		d.stdin, d.fromFile = in, in == nil
		w = &d
	}
	if len(w.redirs) > 0 {
		redirs = append(slices.Clone(redirs), w.redirs...)
	}
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			w.assign(a)
		}
		if len(redirs) > 0 {
			w.emit(simple{redirs: redirs})
		}
		return
	}
	names := w.alternatives(c, redirs)
	if len(names) == 0 {
		w.callOnce(c, redirs)
		return
	}
	before := w.sc.fork()
	var after *scope
	for pick := range w.combine(names) {
		*w.sc = *before.fork()
		w.sc.pick = pick
		w.callOnce(c, redirs)
		w.sc.pick = before.pick
		now := w.sc.fork()
		if after == nil {
			after = now
		} else {
			after.become(after.fork(), now)
		}
	}
	*w.sc = *after
}

// callOnce expands and runs a command in one world.
func (w *walker) callOnce(c *syntax.CallExpr, redirs []*syntax.Redirect) {
	if inner, ok := w.negated(c); ok {
		w.within("", true).text(inner)
		return
	}
	x := &expander{w: w, src: w.src}
	argv := x.fields(c.Args)
	if len(argv) == 0 {
		return
	}
	s := simple{argv: argv, redirs: redirs}
	s.assigns, s.dark = w.prefix(c.Assigns)
	if argv[0].opaque && x.bare {
		w.bareName(c, s)
	}
	if argv[0].opaque {
		s = w.located(s)
		argv = s.argv
	}
	if kept := dropped(argv); len(kept) > 0 {
		d := s
		d.argv = kept
		w.within("", true).run(d)
	}
	w.run(s)
}

// dropped is the command as it is when an argument near its beginning that may
// be no word at all is none: git $x push. It is nil when there is no such one.
func dropped(argv []word) []word {
	for i := 1; i < len(argv) && i < 3; i++ {
		if a := argv[i]; a.many && (strings.HasPrefix(a.s, "$") || strings.HasPrefix(a.s, "`")) && !argv[0].opaque && len(argv) > i+1 {
			if p := programs()[path.Base(argv[0].s)]; p != nil && p.sub {
				return slices.Delete(slices.Clone(argv), i, i+1)
			}
		}
	}
	return nil
}

// negated is the text of a subshell written !(…). The parser takes it for a
// pattern, which it is only after shopt -s extglob; bash -c negates a subshell.
func (w *walker) negated(c *syntax.CallExpr) (inner string, ok bool) {
	if w.depth > 0 || len(c.Args) != 1 || len(c.Args[0].Parts) != 1 || len(c.Assigns) > 0 || strings.Contains(w.src, "extglob") {
		return "", false
	}
	glob, ok := c.Args[0].Parts[0].(*syntax.ExtGlob)
	if !ok || glob.Op != syntax.GlobExcept {
		return "", false
	}
	return glob.Pattern.Value, true
}

// bareName adds the reading a clean shell gives to a command name that holds a
// variable nobody set: r${x}m is rm.
func (w *walker) bareName(c *syntax.CallExpr, s simple) {
	x := &expander{w: w, src: w.src, loose: true}
	if argv := x.fields(c.Args); len(argv) > 0 && !argv[0].opaque && !strings.HasPrefix(argv[0].s, "-") {
		s.argv, s.loose = argv, true
		w.within("", true).run(s)
	}
}

// prefix are the assignments before a command; they hold for it alone.
func (w *walker) prefix(as []*syntax.Assign) (out map[string]string, dark map[string]bool) {
	if len(as) == 0 {
		return nil, nil
	}
	out, dark = make(map[string]string, len(as)), map[string]bool{}
	for _, a := range as {
		if a.Name != nil {
			v := w.one(a.Value)
			out[a.Name.Value] = v.s
			if v.opaque {
				dark[a.Name.Value] = true
			}
		}
	}
	return out, dark
}

// run records a command and follows what it runs in turn.
func (w *walker) run(s simple) {
	if len(s.argv) == 0 || !w.in.step() {
		return
	}
	if w.depth > maxDepth {
		w.in.opaque("commands inside commands, deeper than can be looked at")
		return
	}
	if f, ok := w.sc.funcs.get(s.argv[0].s); ok && !s.argv[0].opaque {
		w.function(s, f)
		return
	}
	if body, ok := w.sc.aliases.get(s.argv[0].s); ok && !s.argv[0].opaque {
		w.alias(s, body)
		return
	}
	n, cl := w.emit(s)
	if cl == nil {
		return
	}
	cl.at = n
	w.builtin(cl)
	w.follow(cl)
	cl.leaves()
	w.in.facts.Cmds[n].Targets = append(w.in.facts.Cmds[n].Targets, cl.targets...)
	w.in.facts.Cmds[n].Script = cl.script
	for _, p := range cl.patterns {
		if !slices.Contains(w.in.facts.Cmds[n].Patterns, p) {
			w.in.facts.Cmds[n].Patterns = append(w.in.facts.Cmds[n].Patterns, p)
		}
	}
	if cl.opaque != "" {
		w.in.facts.Cmds[n].Opaque.Args = true
		w.in.facts.Cmds[n].Opaque.Reason = cl.opaque
	}
}

// call is one simple command while it is being followed.
type call struct {
	w        *walker
	at       int // its fact
	s        simple
	name     string // program
	path     string // what argv[0] resolves to
	p        *program
	opts     []opt
	args     []word // operands
	dir      string // where its relative paths lie
	targets  []policy.FileFact
	script   *policy.Script
	patterns []string
	opaque   string // reason to mark the command's arguments opaque
}

// emit records the fact of one simple command and reads its arguments.
func (w *walker) emit(s simple) (int, *call) {
	in := w.in
	in.budget.commands--
	if in.budget.commands < 0 {
		in.opaque("more commands than can be looked at")
		return 0, nil
	}
	c := policy.Cmd{
		Dir: w.sc.dir(), Via: w.via, FedBy: w.fed, Assigns: map[string]string{},
		Argv: []string{}, Flags: []string{}, Args: []string{}, Redirects: []policy.Redirect{},
		Targets: []policy.FileFact{}, Patterns: []string{},
	}
	w.sc.exported(c.Assigns)
	maps.Copy(c.Assigns, s.assigns)
	if c.Via == nil {
		c.Via = []string{}
	}
	var cl *call
	if len(s.argv) > 0 {
		cl = w.read(s, &c)
	}
	w.redirects(s.redirs, &c)
	c.Text = show(c.Argv, 200)
	if len(in.lists.patterns) > 0 {
		c.Patterns = append(c.Patterns, in.lists.match("command", quotedText(c))...)
	}
	in.facts.Cmds = append(in.facts.Cmds, c)
	return len(in.facts.Cmds) - 1, cl
}

// read fills a fact from the arguments.
func (w *walker) read(s simple, c *policy.Cmd) *call {
	c.Argv = make([]string, 0, min(len(s.argv), maxShown))
	for i, a := range s.argv {
		if i == maxShown {
			c.Opaque.Args, c.Opaque.Reason = true, "more arguments than are shown"
			break
		}
		c.Argv = append(c.Argv, a.s)
		if a.opaque {
			c.Opaque.Args, c.Opaque.Reason = true, "an argument is known only when it runs"
		} else if r := strange(a.s); r != "" {
			c.Opaque.Args, c.Opaque.Reason = true, "an argument holds "+r
		}
	}
	name := s.argv[0]
	cl := &call{w: w, s: s, dir: w.sc.dir()}
	base, somewhere := literalBase(name)
	if !somewhere {
		base, somewhere = w.packageOf(name)
	}
	switch r := strangeName(name.s); {
	case somewhere: // "$(go env GOPATH)/bin/tool": which file is not known, its name is
	case name.opaque:
		c.Opaque.Name, c.Opaque.Reason = true, "the command name is known only when it runs"
	case r != "":
		c.Opaque.Name, c.Opaque.Reason = true, "the command name holds "+r
	case name.s == "":
		c.Opaque.Name, c.Opaque.Reason = true, "the command name is empty"
	case strings.ContainsAny(name.s, "*?[") && name.s != "[" && name.s != "[[" && !w.elsewhere():
		c.Opaque.Name, c.Opaque.Reason = true, "the command name is a glob"
	}
	if c.Opaque.Name {
		c.Flags, c.Args, cl.args = []string{}, c.Argv[1:], s.argv[1:]
		return cl
	}
	cl.name = w.in.program(name.s)
	if somewhere {
		cl.name = w.in.program(base)
	}
	cl.p = programs()[cl.name]
	c.Program = cl.name
	if somewhere {
		c.Lookalike = systemName(base) || cl.p != nil // perhaps not the system's
	} else {
		c.Path, c.Lookalike = w.resolve(name.s, cl)
	}
	cl.path = c.Path
	argv := s.argv[1:]
	if cl.name == "vim" {
		argv = silentEx(argv)
	}
	cl.opts, cl.args = readArgs(cl.p, argv)
	c.Flags = flagNames(cl.p, cl.opts, s.argv[1:])
	args := cl.args
	if cl.p != nil && cl.p.sub && len(args) > 0 {
		c.Sub, args = args[0].s, args[1:]
	}
	c.Args = make([]string, 0, min(len(args), maxShown))
	for _, a := range args[:min(len(args), maxShown)] {
		c.Args = append(c.Args, a.s)
	}
	return cl
}

// program is the name rules know a program by.
func (in *inspection) program(argv0 string) string {
	base := path.Base(argv0)
	for _, p := range []string{"python", "pip", "perl", "ruby", "node", "nodejs", "php", "lua", "gcc", "clang"} {
		if rest, ok := strings.CutPrefix(base, p); ok && rest != "" && strings.Trim(rest, "0123456789.-") == "" {
			base = p
		}
	}
	if to, ok := sameProgram[base]; ok {
		return to
	}
	return base
}

// sameProgram are programs known by several names.
var sameProgram = map[string]string{
	"nodejs": "node", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "gtar": "tar", "bsdtar": "tar",
	"grm": "rm", "gcp": "cp", "gmv": "mv", "gln": "ln", "gchmod": "chmod", "gchown": "chown", "gdd": "dd", "gtee": "tee", "gsort": "sort", "gcat": "cat", "gfind": "find", "gxargs": "xargs", "gtimeout": "timeout", "genv": "env", "vi": "vim", "view": "vim",
	"nvim": "vim", "ex": "vim", "netcat": "nc", "ncat": "nc", "nc.openbsd": "nc", "nc.traditional": "nc",
	"docker-compose": "docker-compose", "rview": "vim", "rvim": "vim", "gvim": "vim", "vimdiff": "vim", "nvimdiff": "vim", "yash": "sh", "posh": "sh", "bosh": "sh", "c89": "cc", "c99": "cc", "sash": "sh", "osh": "bash", "podman-remote": "podman", "pypy": "python", "pypy3": "python", "ash": "sh",
	"rbash": "bash", "apt-get": "apt-get", "pkexec": "sudo", "ipython": "python", "unpigz": "gunzip",
}

// resolve finds argv[0] as the cell would.
func (w *walker) resolve(argv0 string, cl *call) (string, bool) {
	if builtinNames[argv0] {
		return "", false
	}
	if strings.Contains(argv0, "/") {
		abs := w.in.abs(cl.dir, argv0)
		_, inside := w.in.inside(abs)
		return abs, inside && systemName(path.Base(argv0))
	}
	dirs := w.in.opts.Path
	if v := w.sc.get("PATH"); len(v.alts) > 0 {
		dirs = strings.Split(v.alts[0], ":")
	}
	if p, ok := cl.s.assigns["PATH"]; ok {
		dirs = strings.Split(p, ":")
	}
	for _, d := range dirs {
		if !path.IsAbs(d) {
			d = w.in.abs(cl.dir, d)
		}
		p := path.Join(d, argv0)
		if rel, ok := w.in.inside(p); ok {
			_, made := w.in.written[p]
			if made || w.in.files != nil && w.in.files.Exists(rel) == "file" {
				return p, systemName(argv0)
			}
			continue
		}
		if w.in.lookup(argv0) == p {
			return p, false
		}
	}
	return w.in.lookup(argv0), false
}

// show renders arguments for people, escaped and cut to max bytes.
func show(argv []string, max int) string {
	var b strings.Builder
	for i, a := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(a))
		if b.Len() > max {
			s := b.String()[:max-3]
			for len(s) > 0 && s[len(s)-1] >= 0x80 {
				s = s[:len(s)-1]
			}
			return s + "..."
		}
	}
	return b.String()
}

// quotedText is what "command" patterns are matched on: the arguments joined
// by single spaces, and the redirects.
func quotedText(c policy.Cmd) string {
	var b strings.Builder
	b.WriteString(strings.Join(c.Argv, " "))
	for _, r := range c.Redirects {
		b.WriteString(" " + r.Op + " " + r.Path)
	}
	return b.String()
}

// quote quotes an argument where a shell would need it, control and invisible
// characters escaped.
func quote(s string) string {
	if s == "" {
		return "''"
	}
	if r := strange(s); r != "" {
		return escaped(s)
	}
	if strings.ContainsAny(s, " \t\n'\"\\$`|&;<>()#!") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// elsewhere reports whether the command is handed to another machine's or
// container's program, past any shell.
func (w *walker) elsewhere() bool {
	return len(w.via) > 0 && remote[w.via[len(w.via)-1]] && w.via[len(w.via)-1] != "ssh"
}

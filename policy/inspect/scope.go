package inspect

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"sallyport/sandbox"
)

// home stands for the home directory of whoever runs the call, whatever the
// cell makes of it: rules recognise homes by this form.
const home = "/home/agent"

// word is one argument: its literal, or the source text of what could not be
// resolved.
type word struct {
	s      string
	opaque bool
	many   bool // opaque, and may be any number of words
	steady bool // many, but each part of it that splits stays one word
}

// positional are arguments as a function or a shell numbers them: behind one
// that may be any number of words none is known.
func positional(args []word) []word {
	for i, a := range args {
		if !a.many {
			continue
		}
		out := slices.Clone(args)
		for j := range out[i:] {
			out[i+j].opaque = true
		}
		return out
	}
	return args
}

// variable is what is known of a shell variable: the values it may have. More
// than one when branches differ; unknown when there is another one besides.
type variable struct {
	alts    []string
	list    []string // elements of an indexed array
	isList  bool
	unknown bool
	own     bool // unknown, but the id of a process this shell started
}

func scalar(s string) variable { return variable{alts: []string{s}} }

var unknowable = variable{unknown: true}

func (v variable) equal(o variable) bool {
	return v.unknown == o.unknown && v.own == o.own && v.isList == o.isList && slices.Equal(v.alts, o.alts) && slices.Equal(v.list, o.list)
}

// join is the variable after two branches met.
func (v variable) join(o variable) variable {
	if v.equal(o) {
		return v
	}
	if v.isList || o.isList {
		return unknowable
	}
	out := variable{alts: slices.Clone(v.alts), unknown: v.unknown || o.unknown, own: (v.own || len(v.alts) > 0) && (o.own || len(o.alts) > 0)}
	for _, a := range o.alts {
		if !slices.Contains(out.alts, a) {
			out.alts = append(out.alts, a)
		}
	}
	if len(out.alts) > maxAlts {
		out.alts, out.unknown = out.alts[:maxAlts], true
	}
	return out
}

// function is a declared shell function with the text it was declared in.
type function struct {
	bodies []body
	maybe  bool // it may also not be declared
}

// body is one of the bodies a function may have.
type body struct {
	stmt   *syntax.Stmt
	src    string
	called *bool
}

// join is the function after two branches met, one of which may not have it.
func (f function) join(okf bool, g function, okg bool) function {
	out := function{maybe: f.maybe || g.maybe || !okf || !okg}
	for _, b := range append(slices.Clone(f.bodies), g.bodies...) {
		if !slices.Contains(out.bodies, b) && len(out.bodies) < maxAlts {
			out.bodies = append(out.bodies, b)
		}
	}
	return out
}

// scope is the state of one shell. It is forked where the shell forks.
type scope struct {
	path    string // PATH before the text changes it
	vars    forkMap[variable]
	funcs   forkMap[function]
	aliases forkMap[string]
	exports forkMap[string]
	params  []word          // $1 …
	args    bool            // params are known
	name    string          // $0
	pick    map[string]int  // alternative chosen per variable while a command is expanded
	dead    end             // what was reached that ends the code here
	special forkMap[string] // attributes of variables that change what an assignment does
	piped   bool            // the last command of a pipe runs in this shell
	tainted bool            // what ran may have set any variable
}

// end says what ends the code after a statement.
type end byte

// The ends. Code after one still makes facts, but changes nothing.
const (
	goesOn    end = iota
	endsTurn      // break, continue
	endsCall      // return
	endsShell     // exit
)

// Attributes of variables.
const (
	isRef    = "nameref"
	isFixed  = "readonly"
	isShaped = "integer or case"
)

// set assigns a variable as far as its attributes let it.
func (s *scope) set(name string, v variable) {
	switch attr, _ := s.special.get(name); attr {
	case isRef:
		s.taint()
		return
	case isFixed:
		v = s.get(name).join(v)
	case isShaped:
		v = unknowable
	}
	s.vars.set(name, v)
}

// taint makes every variable hold possibly something else: what ran may have
// assigned any of them.
func (s *scope) taint() {
	s.tainted = true
	for name, v := range s.vars.clone() {
		if name == "PWD" {
			continue
		}
		if v.isList {
			v = unknowable
		}
		v.unknown = true
		s.vars.set(name, v)
	}
}

func (in *inspection) newScope(e *sandbox.Exec) *scope {
	s := &scope{path: in.path, name: "bash", args: true}
	dir := e.Dir
	if !path.IsAbs(dir) {
		dir = path.Join(in.root, dir)
	}
	s.vars.set("PWD", scalar(path.Clean(dir)))
	for k, v := range e.Env {
		s.vars.set(k, scalar(v))
		s.exports.set(k, v)
	}
	return s
}

// ambient are variables that a shell or a cell sets to something that is not
// known here.
var ambient = set(`RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME PPID BASHPID UID EUID USER LOGNAME HOSTNAME HOSTTYPE
 MACHTYPE LANG TERM SHELL BASH_VERSION SHELLOPTS BASHOPTS TMPDIR LINENO PIPESTATUS REPLY COLUMNS LINES FUNCNAME BASH_SOURCE
 BASH_LINENO BASH_COMMAND DIRSTACK GROUPS SHLVL _ COMP_LINE BASH_REMATCH CI`)

// variable is what is known of a variable, and whether anything sets it.
func (s *scope) variable(name string) (variable, bool) {
	if v, ok := s.vars.get(name); ok {
		return v, true
	}
	switch name {
	case "HOME":
		return scalar(home), true
	case "PATH":
		return scalar(s.path), true
	case "IFS":
		return scalar(" \t\n"), true
	case "OSTYPE":
		return scalar("linux-gnu"), true
	case "BASH":
		return scalar("/bin/bash"), true
	case "OPTIND":
		return scalar("1"), true
	}
	return unknowable, ambient[name]
}

func (s *scope) get(name string) variable {
	v, ok := s.variable(name)
	if !ok {
		return variable{}
	}
	return v
}

// exported adds the exported variables to a command's assignments.
func (s *scope) exported(to map[string]string) {
	if s.exports.layer != nil {
		maps.Copy(to, s.exports.clone())
	}
}

func (s *scope) fork() *scope {
	c := *s
	c.vars, c.funcs, c.aliases, c.exports = s.vars.fork(), s.funcs.fork(), s.aliases.fork(), s.exports.fork()
	c.special = s.special.fork()
	return &c
}

// asChild leaves what a process started here inherits: exported variables.
func (s *scope) asChild() {
	vars := forkMap[variable]{}
	if s.exports.layer != nil {
		for name := range s.exports.clone() {
			vars.set(name, s.get(name))
		}
	}
	s.vars, s.funcs, s.aliases = vars, forkMap[function]{}, forkMap[string]{}
	s.pick = nil
}

// become makes s the state where two branches meet.
func (s *scope) become(a, b *scope) {
	switch {
	case a.dead != goesOn && b.dead == goesOn:
		*s = *b
		return
	case b.dead != goesOn && a.dead == goesOn:
		*s = *a
		return
	}
	out := a.fork()
	for n := range a.vars.changed(&b.vars) {
		va, oka := a.variable(n)
		vb, okb := b.variable(n)
		switch {
		case oka && okb:
			out.vars.set(n, va.join(vb))
		case oka:
			out.vars.set(n, va.join(unset))
		case okb:
			out.vars.set(n, vb.join(unset))
		}
	}
	for n := range a.funcs.changed(&b.funcs) {
		fa, oka := a.funcs.get(n)
		fb, okb := b.funcs.get(n)
		out.funcs.set(n, fa.join(oka, fb, okb))
	}
	out.aliases.adopt(&b.aliases)
	out.special.adopt(&b.special)
	out.dead = min(a.dead, b.dead)
	out.piped = a.piped || b.piped
	out.tainted = a.tainted || b.tainted
	*s = *out
}

// unset stands in a join for the branch that did not set the variable: it may
// come from the environment.
var unset = variable{unknown: true}

// Get implements expand.Environ for the alternatives picked now.
func (s *scope) Get(name string) expand.Variable {
	switch name {
	case "@", "*":
		list := make([]string, len(s.params))
		for i, p := range s.params {
			list[i] = p.s
		}
		return expand.Variable{Set: true, Kind: expand.Indexed, List: list}
	case "#":
		return str(itoa(len(s.params)))
	case "0":
		return str(s.name)
	case "HOME root":
		return str("/root")
	}
	if len(name) == 1 && name[0] >= '1' && name[0] <= '9' {
		if n := int(name[0] - '1'); n < len(s.params) {
			return str(s.params[n].s)
		}
		return expand.Variable{}
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return str("~" + user) // as it stands when there is no such user; abs takes it for a home
	}
	v, ok := s.variable(name)
	switch {
	case !ok:
		return expand.Variable{}
	case v.isList:
		return expand.Variable{Set: true, Kind: expand.Indexed, List: v.list}
	case len(v.alts) == 0:
		return expand.Variable{}
	}
	return str(v.alts[min(s.pick[name], len(v.alts)-1)])
}

func str(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}

// Each implements expand.Environ.
func (s *scope) Each(f func(string, expand.Variable) bool) {
	for _, n := range slices.Sorted(maps.Keys(s.vars.clone())) {
		if !f(n, s.Get(n)) {
			return
		}
	}
}

// Set implements expand.WriteEnviron: ${x:=y} and $((x=1)).
func (s *scope) Set(name string, v expand.Variable) error {
	switch v.Kind {
	case expand.Indexed:
		s.set(name, variable{isList: true, list: v.List})
	case expand.String:
		s.set(name, scalar(v.Str))
	default:
		s.vars.del(name)
	}
	return nil
}

func (s *scope) dir() string {
	v := s.get("PWD")
	if len(v.alts) == 0 {
		return ""
	}
	return v.alts[min(s.pick["PWD"], len(v.alts)-1)]
}

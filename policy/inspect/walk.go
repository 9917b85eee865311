package inspect

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
)

// walker goes through one text in one shell. It is copied where the shell
// forks; the facts are gathered in the inspection they share.
type walker struct {
	in       *inspection
	sc       *scope
	src      string
	via      []string
	stdin    *string  // what the standard input holds, nil when not known
	fromFile bool     // the standard input is a file that is not known
	running  []string // digests of the scripts on the way down
	fed      string   // program whose output is the standard input
	listed   []word   // where the find that feeds the standard input looks, when one does
	depth    int
	// redirs are those of the compound commands around.
	redirs  []*syntax.Redirect
	funcs   []*syntax.Stmt       // bodies of the functions on the way down
	escapes *[]*scope            // states in which an expansion may fail, which ends the line
	turns   []*[]*scope          // states in which the loops around may end early, outermost first
	calls   *[]*scope            // states in which the function around may return
	locals  *map[string]variable // variables of the function around, as they were before
	forks   int                  // pipes and background jobs since the innermost function began
}

func known(s string) *string { return &s }

// within is a walker for what a command runs: in a shell of its own when forked.
func (w *walker) within(via string, forked bool) *walker {
	c := *w
	c.depth++
	if via != "" {
		c.via = append(w.via[:len(w.via):len(w.via)], via)
	}
	if forked {
		c.sc = w.sc.fork()
		c.escapes, c.turns, c.calls = nil, nil, nil
	}
	return &c
}

// text walks a command text. A text that cannot be parsed makes the facts
// opaque.
func (w *walker) text(text string) { w.textWithin(text, maxText) }

func (w *walker) textWithin(text string, limit int) {
	if w.depth > maxDepth {
		w.in.opaque("texts inside texts, deeper than can be looked at")
		return
	}
	f, reason := w.in.parse(text, limit)
	if reason != "" {
		w.in.opaque(reason)
		w.in.scanLines(text, "")
		return
	}
	c := *w
	c.src = text
	c.lines(f.Stmts)
}

// lines walks the statements of a whole text. An expansion that fails ends the
// line it stands in, not the text: what the line would have changed later may
// not have happened.
func (w *walker) lines(list []*syntax.Stmt) {
	if w.escapes != nil {
		w.stmts(list)
		return
	}
	var states []*scope
	w.escapes = &states
	for i, s := range list {
		w.stmt(s)
		if len(states) == 0 || i+1 < len(list) && list[i+1].Pos().Line() == s.End().Line() {
			continue
		}
		for _, st := range states {
			st.dead = goesOn
			if w.sc.dead != goesOn {
				*w.sc = *st
				continue
			}
			w.sc.become(w.sc.fork(), st)
		}
		states = states[:0]
	}
}

// mayFail notes that an expansion may fail here.
func (w *walker) mayFail() {
	if w.escapes != nil && len(*w.escapes) < maxItems {
		*w.escapes = append(*w.escapes, w.sc.fork())
	}
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		if w.sc.dead != goesOn {
			d := *w
			d.sc = w.sc.fork()
			d.sc.dead = goesOn
			w = &d
		}
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil || !w.in.step() {
		return
	}
	if s.Background || s.Coprocess {
		w = w.within("", true)
		w.forks++
	}
	defer w.captures(s)
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		w.call(call, s.Redirs)
		return
	}
	if len(s.Redirs) > 0 {
		c := *w
		w = &c
		w.redirect(s)
	}
	w.command(s)
}

// redirect records the redirects of a compound command and makes a known
// standard input of its here-documents.
func (w *walker) redirect(s *syntax.Stmt) {
	w.redirSubsts(s.Redirs)
	if in, ok := w.input(s.Redirs); ok {
		w.stdin, w.fromFile = in, in == nil
	}
	w.redirs = append(slices.Clone(w.redirs), s.Redirs...)
	if s.Cmd == nil || !hasCall(s.Cmd) {
		w.emit(simple{redirs: w.redirs})
		w.redirs = nil
	}
}

// hasCall reports whether a compound command surely leads to a simple command
// that will carry its redirects.
func hasCall(c syntax.Command) bool {
	switch c.(type) {
	case *syntax.Block, *syntax.Subshell:
		return true
	}
	return false
}

func (w *walker) command(s *syntax.Stmt) {
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		w.within("", true).stmts(c.Stmts)
	case *syntax.BinaryCmd:
		w.binary(c)
	case *syntax.IfClause:
		w.branch(c)
	case *syntax.WhileClause:
		w.while(c)
	case *syntax.ForClause:
		w.loop(c)
	case *syntax.CaseClause:
		w.cases(c)
	case *syntax.FuncDecl:
		if c.Name != nil {
			b := body{stmt: c.Body, src: w.src, called: new(bool)}
			w.sc.funcs.set(c.Name.Value, function{bodies: []body{b}})
			w.in.declared = append(w.in.declared, declared{name: c.Name.Value, body: b, w: w.within("", true)})
		} else {
			w.in.opaque("a function without a name")
		}
	case *syntax.DeclClause:
		w.declare(c)
	case *syntax.LetClause:
		for _, e := range c.Exprs {
			w.arith(e)
		}
	case *syntax.ArithmCmd:
		w.arith(c.X)
	case *syntax.TestClause:
		w.test(c.X)
	case *syntax.TimeClause:
		w.within("time", false).stmt(c.Stmt)
	case *syntax.CoprocClause:
		w.within("coproc", true).stmt(c.Stmt)
	default:
		w.in.opaque("shell syntax that is not looked at")
	}
}

func (w *walker) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		w.pipe(c)
	case syntax.AndStmt:
		w.stmt(c.X)
		from := w.sc.get("PWD")
		w.maybe(func(w *walker) { w.stmt(c.Y) })
		w.arrived(from)
	default: // ||
		w.stmt(c.X)
		w.maybe(func(w *walker) { w.stmt(c.Y) })
	}
}

// arrived takes cd after && as done when it leads from one directory of the
// workspace to another: where it fails, what follows stays in the workspace.
func (w *walker) arrived(from variable) {
	now := w.sc.get("PWD")
	if len(from.alts) != 1 || len(now.alts) != 2 || now.unknown || now.alts[0] != from.alts[0] {
		return
	}
	for _, dir := range now.alts {
		if s := w.in.scope(dir); s != policy.ScopeWorkspace && s != policy.ScopeTemp {
			return
		}
	}
	w.sc.vars.set("PWD", scalar(now.alts[1]))
}

// maybe walks what may or may not run.
func (w *walker) maybe(f func(*walker)) {
	before := w.sc.fork()
	f(w)
	after := w.sc.fork()
	w.sc.become(before, after)
}

func (w *walker) pipe(c *syntax.BinaryCmd) {
	from := len(w.in.facts.Cmds)
	out, ok := w.prints([]*syntax.Stmt{c.X})
	left := w.within("", true)
	left.forks++
	w.in.found = nil
	left.stmt(c.X)
	mid := len(w.in.facts.Cmds)
	right := w.within("", true)
	right.forks++
	right.fed = w.in.head(mid-1, mid)
	if from == mid {
		right.fed = ""
	}
	right.stdin, right.listed = nil, nil
	if right.fed == "find" {
		right.listed = w.in.found
	}
	if ok {
		right.stdin = &out
	}
	if w.sc.piped {
		right.sc = w.sc
		right.maybe(func(r *walker) { r.stmt(c.Y) })
	} else {
		right.stmt(c.Y)
	}
	if end := len(w.in.facts.Cmds); end > mid && mid > from {
		feeds := w.in.head(mid, end)
		for i := from; i < mid; i++ {
			if cmd := &w.in.facts.Cmds[i]; cmd.Feeds == "" && !slices.ContainsFunc(cmd.Via[min(len(w.via), len(cmd.Via)):], captured) {
				cmd.Feeds = feeds
			}
		}
	}
}

// captured reports a way down into what does not write to this pipe.
func captured(via string) bool {
	return strings.HasSuffix(via, "()") || via == "subscript" || via == "trap"
}

// head is the program that really stands first in facts[from:to]: what a chain
// of wrappers runs.
func (in *inspection) head(from, to int) string {
	if from < 0 || from >= to {
		return ""
	}
	name := in.facts.Cmds[from].Program
	for i := from + 1; i < to; i++ {
		prev, cur := in.facts.Cmds[i-1], in.facts.Cmds[i]
		if len(cur.Via) == 0 || cur.Via[len(cur.Via)-1] != prev.Program || !transparent[prev.Program] {
			break
		}
		name = cur.Program
	}
	return name
}

// transparent wrappers hand their standard streams to what they run.
var transparent = map[string]bool{
	"sudo": true, "doas": true, "env": true, "nice": true, "ionice": true, "nohup": true, "setsid": true, "stdbuf": true,
	"timeout": true, "command": true, "builtin": true, "exec": true, "busybox": true, "toybox": true, "unshare": true,
	"nsenter": true, "chroot": true, "flock": true, "time": true,
}

// substs walks the commands that the expansion of words runs.
func (w *walker) substs(words []*syntax.Word) {
	for _, wd := range words {
		if wd != nil {
			if _, ok := plain(wd); !ok {
				w.node(wd)
			}
		}
	}
}

// node walks every substitution beneath a node, each in a shell of its own.
func (w *walker) node(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.inner("$()", n.Stmts)
			return false
		case *syntax.ProcSubst:
			w.inner(n.Op.String()+")", n.Stmts)
			return false
		case *syntax.ParamExp:
			if n.Excl || n.Slice != nil || n.Index != nil {
				w.mayFail()
			}
			if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word.Lit() == "P" && n.Param != nil {
				w.prompted(n.Param.Value)
			}
		case *syntax.ArithmExp:
			w.mayFail()
			w.numeric(n.X)
		}
		return true
	})
}

func (w *walker) inner(via string, stmts []*syntax.Stmt) {
	if w.depth > maxNest {
		w.in.opaque("substitutions nested deeper than can be looked at")
		return
	}
	c := w.within(via, true)
	c.stdin, c.fed, c.redirs = nil, "", nil
	c.stmts(stmts)
}

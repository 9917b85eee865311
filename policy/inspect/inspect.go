package inspect

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
	"sallyport/sandbox"
)

// Options are what an Inspector needs from its surroundings. Every field may
// be zero.
type Options struct {
	// Data gives the current lists. It is called once per Inspect; forms
	// compiled from it are kept for as long as the pointer stays the same.
	Data func() *policy.Data
	// Files opens confined reads beneath a workspace. Without it no script is
	// read, and a script that would run is opaque.
	Files func(workspace string) (Files, error)
	// Author tells who wrote that content through the tools; "" for nobody.
	Author func(workspace, path, sha256 string) string
	// Path is the PATH of the cell; nil means /usr/local/bin, /usr/bin and /bin.
	Path []string
}

// Files reads beneath one workspace. Paths are relative to it and never lead
// outside.
type Files interface {
	// ReadFile returns the whole file, or an error when it is longer than max
	// bytes or not a regular file.
	ReadFile(path string, max int64) ([]byte, error)
	// Exists tells "file", "dir", "link" or "other", and "absent" for nothing.
	Exists(path string) string
}

// Inspector implements policy.Inspector. It may be used concurrently.
type Inspector struct {
	o     Options
	lists atomic.Pointer[lists]
}

// New makes an Inspector.
func New(o Options) *Inspector {
	if o.Path == nil {
		o.Path = []string{"/usr/local/bin", "/usr/bin", "/bin"}
	}
	return &Inspector{o: o}
}

// Inspect implements policy.Inspector. What it cannot understand it marks
// opaque; it fails only when ctx is done or the workspace cannot be opened.
func (i *Inspector) Inspect(ctx context.Context, c policy.Call) (f policy.Facts, err error) {
	in := &inspection{ctx: ctx, call: c, opts: i.o, lists: i.current(), budget: newBudget()}
	in.path = strings.Join(i.o.Path, ":")
	in.root = path.Clean(c.Action.Workspace)
	if c.Action.Workspace == "" {
		in.root = c.Workspace.Root
	}
	if i.o.Files != nil && in.root != "" {
		if in.files, err = i.o.Files(in.root); err != nil {
			return f, fmt.Errorf("open the workspace to look at the call: %w", err)
		}
	}
	// The parser and the expander are fed hostile text. A panic in them must
	// be a refusal, not the end of the daemon.
	defer func() {
		if r := recover(); r != nil {
			in.facts.Opaque = &policy.Opaque{Name: true, Args: true, Reason: fmt.Sprintf("the inspector gave up: %v", r)}
			f, err = in.facts, nil
		}
	}()
	in.operations(c)
	if c.Phase != policy.PhaseEffects && c.Action.Exec != nil {
		in.exec(c.Action.Exec)
	}
	if err := ctx.Err(); err != nil {
		return policy.Facts{}, fmt.Errorf("look at the call: %w", err)
	}
	return in.facts, nil
}

// inspection is one Inspect: what it works on and what it found so far.
type inspection struct {
	ctx      context.Context
	call     policy.Call
	opts     Options
	lists    *lists
	files    Files
	root     string // workspace, absolute
	path     string // PATH of the cell
	facts    policy.Facts
	budget   budget
	nets     map[policy.NetFact]bool
	traps    []trap // EXIT traps, for the end
	parser   *syntax.Parser
	expand   *expand.Config // reused: the library needs one for every word
	written  written        // what the call writes before it runs it
	found    []word         // where the last find looks
	declared []declared     // functions, for those that are never called
}

// exec looks at the program of a call.
func (in *inspection) exec(e *sandbox.Exec) {
	sc := in.newScope(e)
	w := &walker{in: in, sc: sc}
	if e.Shell != "" {
		w.text(e.Shell)
		w.finish()
		in.endpoints(e.Net)
		return
	}
	argv := make([]word, len(e.Argv))
	for n, a := range e.Argv {
		argv[n] = word{s: a, opaque: strings.ContainsRune(a, 0)}
	}
	if len(e.Stdin) > 0 {
		w.stdin = known(string(e.Stdin))
	}
	w.run(simple{argv: argv, pos: -1})
	w.finish()
	in.endpoints(e.Net)
}

func (in *inspection) opaque(reason string) {
	if in.facts.Opaque == nil {
		in.facts.Opaque = &policy.Opaque{Reason: reason}
	}
}

// declared is a function definition, with the shell it was made in.
type declared struct {
	name string
	body body
	w    *walker
}

// trap is the text of an EXIT trap and the shell that runs it.
type trap struct {
	text string
	w    *walker
}

// finish walks EXIT traps as the end of their shell finds them, and the bodies of functions that nothing called, with arguments not
// known: something else may call them.
func (w *walker) finish() {
	for _, t := range w.in.traps {
		t.w.within("trap", true).text(t.text)
	}
	for i := 0; i < len(w.in.declared) && i < maxItems; i++ {
		d := w.in.declared[i]
		if *d.body.called {
			continue
		}
		*d.body.called = true
		from := len(w.in.facts.Cmds)
		c := d.w.within("function:"+d.name, true)
		c.funcs = []*syntax.Stmt{d.body.stmt}
		c.src = d.body.src
		c.sc.args, c.sc.params = false, nil
		c.stmt(d.body.stmt)
		for n := from; n < len(w.in.facts.Cmds); n++ {
			// A name that comes from an argument is not known because the
			// function was not called; that alone is no alarm.
			if o := &w.in.facts.Cmds[n].Opaque; o.Name && strings.HasPrefix(w.in.facts.Cmds[n].Argv[0], "$") {
				o.Name, o.Args = false, true
			}
		}
	}
}

package approval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/policy"
	"sallyport/sandbox"
)

// Describe is what a person decides on and is shown of a call: as much of it as
// the call, its facts and the decision tell. The caller adds what it alone knows:
// Subject.Schema, Show.Diff, a transaction, and a sentence in Show.Cut for
// whatever it could not show.
func Describe(c policy.Call, f policy.Facts, d policy.Decision) (Subject, Show) {
	s := Subject{
		Agent: c.Agent.Name, Session: c.Agent.Session, User: c.Agent.User,
		Tool: c.Tool, Args: c.Args,
		Workspace: c.Workspace.Root, Branch: c.Workspace.Branch, Commit: c.Workspace.Commit,
		Revision: d.Revision,
		Files:    map[string]string{}, Scripts: map[string]string{},
	}
	show := Show{Content: f.Content}
	for _, x := range named(f) {
		if s.Files[x.Path] == "" { // an absent or unread path does not hide what is known of it
			s.Files[x.Path] = x.SHA256
		}
	}
	seen := map[Touch]bool{}
	for _, x := range append(named(f), redirected(f, c.Workspace.Root)...) {
		if t := (Touch{Op: x.Op, Path: x.Path, Guard: x.Guard}); !seen[t] {
			seen[t] = true
			show.Files = append(show.Files, t)
		}
	}
	for _, cmd := range f.Cmds {
		show.Tree = append(show.Tree, step(cmd))
		if cmd.Script != nil {
			s.Scripts[cmd.Script.Path] = cmd.Script.SHA256
			show.Scripts = append(show.Scripts, *cmd.Script)
		}
	}
	for _, n := range f.Net {
		show.Net = append(show.Net, sandbox.Endpoint{Host: n.Host, Port: n.Port})
	}
	if x := c.Action.Exec; x != nil {
		show.Argv, show.Shell, show.Dir, show.Stdin = x.Argv, x.Shell, x.Dir, string(x.Stdin)
		for _, name := range slices.Sorted(maps.Keys(x.Env)) {
			show.Env = append(show.Env, name+"="+x.Env[name])
		}
		for _, e := range x.Net {
			if !slices.Contains(show.Net, e) {
				show.Net = append(show.Net, e)
			}
		}
	}
	for _, ch := range c.Changes {
		s.Files[ch.Path] = ch.Before
		show.Files = append(show.Files, Touch{Op: ch.Kind, Path: ch.Path})
	}
	show.Summary = summary(c, show)
	show.Risks = risks(c, f, show)
	return s, show
}

func step(cmd policy.Cmd) Step {
	text := Quote(cmd.Argv)
	for _, r := range cmd.Redirects {
		text += " " + r.Op + " " + Quote([]string{r.Path})
	}
	st := Step{Depth: len(cmd.Via), Text: text, Via: cmd.Via}
	switch {
	case cmd.Opaque.Name || cmd.Opaque.Args:
		st.Note = "not fully known before it runs: " + cmd.Opaque.Reason
	case cmd.Lookalike:
		st.Note = "a file in the workspace that bears the name of a system program"
	}
	return st
}

// risks are the sentences a hurried person should read first.
func risks(c policy.Call, f policy.Facts, show Show) []string {
	var out []string
	add := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if f.Opaque != nil {
		add("The command as a whole cannot be understood: %s.", f.Opaque.Reason)
	}
	for _, cmd := range f.Cmds {
		switch {
		case cmd.Opaque.Name:
			add("Which program runs is not known before it runs: %s.", cmd.Opaque.Reason)
		case cmd.Opaque.Args:
			add("What %s is given is not fully known before it runs: %s.", cmd.Program, cmd.Opaque.Reason)
		}
		if cmd.Lookalike {
			add("%s is a file in the workspace that bears the name of a system program.", cmd.Path)
		}
		if cmd.Script != nil && cmd.Script.Author != "" {
			add("It runs %s, which %s wrote through the tools.", cmd.Script.Path, cmd.Script.Author)
		}
	}
	for _, x := range append(named(f), redirected(f, c.Workspace.Root)...) {
		switch {
		case x.Op == "read" || x.Op == "list" || x.Op == "glob" || x.Op == "search":
			if x.Guard == policy.GuardSecret {
				add("It reads a secret: %s.", x.Path)
			}
		case x.Guard != "":
			add("It touches %s, which is guarded (%s).", x.Path, x.Guard)
		case x.Scope == policy.ScopeOutside || x.Scope == policy.ScopeDevice:
			add("It touches %s, which is outside the workspace.", x.Path)
		}
	}
	for _, e := range show.Net {
		if e.Host == "" {
			add("It reaches a host that is not known before it runs.")
		}
	}
	if c.Session.ReadsSecret && len(show.Net) > 0 {
		add("This session has read a secret earlier, and the call reaches the network.")
	}
	return out
}

// named are the paths the inspector looked at.
func named(f policy.Facts) []policy.FileFact {
	out := slices.Clone(f.Files)
	for _, cmd := range f.Cmds {
		out = append(out, cmd.Targets...)
	}
	return out
}

// quiet are the devices that hold nothing: writing or reading them says nothing.
var quiet = map[string]bool{
	"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true,
	"/dev/tty": true, "/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true,
}

// redirected are the paths a shell would open for a command. Their content is not
// known here.
func redirected(f policy.Facts, root string) []policy.FileFact {
	var out []policy.FileFact
	for _, cmd := range f.Cmds {
		for _, r := range cmd.Redirects {
			op := "write"
			if r.Op == "<" {
				op = "read"
			}
			if r.Path == "" || quiet[r.Path] {
				continue
			}
			p := r.Path
			if in, ok := strings.CutPrefix(p, root+"/"); ok && root != "" {
				p = in
			}
			out = append(out, policy.FileFact{Op: op, Path: p, Scope: r.Scope, Guard: r.Guard})
		}
	}
	return out
}

func summary(c policy.Call, show Show) string {
	switch {
	case show.Shell != "":
		return c.Tool + ": " + show.Shell
	case len(show.Argv) > 0:
		return c.Tool + ": " + Quote(show.Argv)
	case len(show.Files) == 1:
		return c.Tool + ": " + show.Files[0].Op + " " + show.Files[0].Path
	case len(show.Files) > 1:
		return fmt.Sprintf("%s: %s and %d more", c.Tool, show.Files[0].Path, len(show.Files)-1)
	}
	return c.Tool
}

package rego

import (
	"strings"
	"time"

	"sallyport/policy"
	"sallyport/sandbox"
)

// Input is what a rule sees: the whole of it, in the names of
// policies/schema/input.json. Rules are evaluated once per simple command (Unit
// "cmd", with Cmd) and once for the call (Unit "call", with Has).
type Input struct {
	Version   int               `json:"version"` // policy.InputVersion
	Unit      string            `json:"unit"`
	Now       time.Time         `json:"now"` // RFC 3339, UTC
	Phase     policy.Phase      `json:"phase"`
	Call      Caller            `json:"call"`
	Workspace policy.Workspace  `json:"workspace"`
	Has       *Has              `json:"has,omitempty"`
	Cmd       *Command          `json:"cmd,omitempty"`
	Files     []policy.FileFact `json:"files"`
	Content   []policy.Finding  `json:"content"`
	Net       []policy.NetFact  `json:"net"`
	Opaque    *policy.Opaque    `json:"opaque,omitempty"`
	Session   policy.Session    `json:"session"`
}

// The units a rule is evaluated for.
const (
	unitCall = "call"
	unitCmd  = "cmd"
)

// Caller is who calls what.
type Caller struct {
	Tool string `json:"tool"`
	Kind string `json:"kind"` // Data.ToolKinds of Tool, "" for an unknown one
	policy.Agent
	Granted bool              `json:"granted"` // the agent may use the tool (Data.Agents)
	Exec    bool              `json:"exec"`    // the call runs a command
	Write   sandbox.WriteMode `json:"write"`
}

// Has says what of a call is worth looking at. Rules begin with it, so that the
// rule index leaves out the others: an index look-up is some nanoseconds, a rule
// body a microsecond.
type Has struct {
	Files   bool `json:"files"`
	Writes  bool `json:"writes"` // a file is written, edited, moved or removed
	Guards  bool `json:"guards"` // a file bears a guard
	Content bool `json:"content"`
	Net     bool `json:"net"`
	Opaque  bool `json:"opaque"`
}

// Command is a simple command with what follows from it.
type Command struct {
	policy.Cmd
	Class  string  `json:"class"`  // Data.Programs of Program, "" for none
	Writes []Touch `json:"writes"` // targets and redirects it writes or removes; /dev/null and its like left out
	Reads  []Touch `json:"reads"`  // those it reads or runs
	Plain  bool    `json:"plain"`  // all of it is known, nothing is written, nothing is unusual
	Has    CmdHas  `json:"has"`
}

// Touch is a path a command reads or writes. Scope has two words more than a
// FileFact's: "home" is the cell's own home, which is empty and vanishes, and
// "unknown" is a path that cannot be told from the text.
type Touch struct {
	Op    string       `json:"op"`
	Path  string       `json:"path"`
	Scope policy.Scope `json:"scope"`
	Guard policy.Guard `json:"guard"`
}

// CmdHas is Has for one command.
type CmdHas struct {
	Writes    bool `json:"writes"`
	Guards    bool `json:"guards"`  // a path it reads or writes bears a guard
	Outside   bool `json:"outside"` // a path it reads lies outside the workspace
	Redirects bool `json:"redirects"`
	Assigns   bool `json:"assigns"`
	Patterns  bool `json:"patterns"`
	Script    bool `json:"script"`
	Via       bool `json:"via"`
}

func newInput(c policy.Call, f policy.Facts, d *policy.Data) Input {
	in := Input{
		Version: policy.InputVersion, Unit: unitCall, Now: c.Now.UTC(), Phase: c.Phase,
		Call:      Caller{Tool: c.Tool, Kind: d.ToolKinds[c.Tool], Agent: c.Agent, Granted: d.Agent(c.Agent.Name).Allows(c.Tool)},
		Workspace: c.Workspace, Files: f.Files, Content: f.Content, Net: f.Net,
		Opaque: f.Opaque, Session: c.Session,
		Has: &Has{Files: len(f.Files) > 0, Content: len(f.Content) > 0, Net: len(f.Net) > 0, Opaque: f.Opaque != nil},
	}
	if in.Phase == "" {
		in.Phase = policy.PhaseCall
	}
	if c.Action.Exec != nil {
		in.Call.Exec, in.Call.Write = true, asked(c.Action.Exec)
	}
	for _, file := range f.Files {
		in.Has.Writes = in.Has.Writes || file.Op != opExec && sandbox.Op(file.Op).Writes()
		in.Has.Guards = in.Has.Guards || file.Guard != ""
	}
	return in
}

// sets names the query for the call.
func (in Input) sets() string {
	if *in.Has == (Has{}) {
		return unitCall
	}
	return unitCall + having
}

// sets names the query for the command.
func (c *Command) sets() string {
	if c.Has == (CmdHas{}) {
		return unitCmd
	}
	return unitCmd + having
}

// opExec is the FileFact operation of a file that is run.
const opExec = "exec"

func newCommand(c policy.Cmd, d *policy.Data) *Command {
	out := &Command{Cmd: c, Class: class(c.Program, d)}
	add := func(op, path string, scope policy.Scope, guard policy.Guard) {
		t := Touch{op, path, scopeOf(path, scope), guard}
		switch {
		case op == opExec || !sandbox.Op(op).Writes():
			out.Reads = append(out.Reads, t)
			out.Has.Outside = out.Has.Outside || t.Scope == policy.ScopeOutside
		case !quiet(path):
			out.Writes = append(out.Writes, t)
		default:
			return
		}
		out.Has.Guards = out.Has.Guards || guard != ""
	}
	for _, t := range c.Targets {
		add(t.Op, t.Path, t.Scope, t.Guard)
	}
	for _, r := range c.Redirects {
		switch {
		case descriptor(r):
		case strings.Contains(r.Op, ">"):
			add(string(sandbox.OpWrite), r.Path, r.Scope, r.Guard)
		case r.Op == "<":
			add(string(sandbox.OpRead), r.Path, r.Scope, r.Guard)
		}
	}
	out.Has.Writes, out.Has.Redirects = len(out.Writes) > 0, len(c.Redirects) > 0
	out.Has.Assigns, out.Has.Patterns = len(c.Assigns) > 0, len(c.Patterns) > 0
	out.Has.Script, out.Has.Via = c.Script != nil, len(c.Via) > 0
	out.Plain = !c.Opaque.Name && !c.Lookalike && !out.Has.Assigns && !out.Has.Patterns && !out.Has.Writes && !out.Has.Script
	return out
}

// cellHome is the home directory in facts, whoever runs the command; in a cell
// it is private.
const cellHome = "/home/agent/"

func scopeOf(path string, scope policy.Scope) policy.Scope {
	switch {
	case scope == policy.ScopeOutside && path == "":
		return "unknown"
	case scope == policy.ScopeOutside && strings.HasPrefix(path, cellHome):
		return "home"
	}
	return scope
}

// class is the class of a program; a version at its end does not matter.
func class(program string, d *policy.Data) string {
	if c, ok := d.Programs[program]; ok || program == "" {
		return c
	}
	if strings.HasPrefix(program, "mkfs.") {
		return d.Programs["mkfs"]
	}
	return d.Programs[strings.TrimRight(program, "0123456789.-")]
}

// quiet reports devices that hold nothing: writing them harms nobody.
func quiet(path string) bool {
	switch path {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/ptmx":
		return true
	}
	return strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/dev/pts/")
}

// descriptor reports a redirection such as 2>&1, which moves a descriptor and
// opens no file.
func descriptor(r policy.Redirect) bool {
	return strings.HasSuffix(r.Op, "&") && strings.Trim(r.Path, "0123456789-") == ""
}

// asked is how much a command asks to write. A plan that could use more without
// having asked for it asks for nothing.
func asked(e *sandbox.Exec) sandbox.WriteMode {
	if e.Asked || e.Write == sandbox.WriteDiscard {
		return e.Write
	}
	return sandbox.WriteNone
}

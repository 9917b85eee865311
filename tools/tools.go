// Package tools is what an agent can call. A tool acts on nothing: it turns
// arguments into a sandbox.Action, plain data that is judged, recorded and run
// elsewhere, and later turns the Result into the text a model reads. One file
// per tool; All is the one list.
package tools

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/sandbox"
)

// Tool is one entry of the list. The booleans are MCP's annotations.
type Tool struct {
	Name        string
	Title       string
	Description string          // the prompt a model chooses by, at most 2,048 characters
	Input       json.RawMessage // JSON Schema 2020-12 of the arguments

	ReadOnly    bool
	Destructive bool
	Idempotent  bool
	OpenWorld   bool

	schema *jsonschema.Schema
	decode func(json.RawMessage) (any, error)
	plan   func(any, Place) (sandbox.Action, error)
	answer func(any, sandbox.Action, sandbox.Result) Answer
}

// Place is what a plan may know of the workspace.
type Place struct {
	Root   string                // absolute, symlink-free
	Exists func(rel string) bool // whether a workspace-relative path names something
	// Resolve says where a workspace-relative path leads when symbolic links
	// are followed. With it a file operation is planned on the real file, which
	// is then what policy judges; without it, on the path as it was asked.
	Resolve func(rel string) (string, error)
	Mark    Mark // of the call, for the commits it makes
}

func (p Place) has(rel string) bool { return p.Exists != nil && p.Exists(rel) }

// All lists the tools as a reader should meet them: looking, changing, running,
// git. The caller may change the slice.
func All() []Tool { return append([]Tool(nil), list()...) }

// Find gives the tool of that exact name.
func Find(name string) (Tool, bool) {
	for _, t := range list() {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// NotFound is the failure of a call to a tool that does not exist.
func NotFound(name string) *Failure {
	var names []string
	for _, t := range list() {
		names = append(names, t.Name)
	}
	return &Failure{Kind: KindToolNotFound, Class: Fixable, Msg: fmt.Sprintf("there is no tool %q", clipped(name, 100)),
		Remedy: "use one of " + strings.Join(names, ", ")}
}

// list is built once and never changed.
var list = sync.OnceValue(func() []Tool {
	return []Tool{
		readFile(), listDirectory(), glob(), grep(),
		writeFile(), editFile(),
		runCommand(), runTests(),
		gitStatus(), gitDiff(), gitLog(), gitAdd(), gitCommit(),
	}
})

// define completes t with its schema and its two typed halves. A schema that
// does not compile is a bug of this package and panics at first use.
func define[T any](t Tool, schema string, plan func(T, Place) (sandbox.Action, error), answer func(T, sandbox.Action, sandbox.Result) Answer) Tool {
	t.Input = compact(schema)
	t.schema = compile(t.Name, t.Input)
	t.decode = func(raw json.RawMessage) (any, error) {
		var v T
		err := json.Unmarshal(raw, &v)
		return v, err
	}
	t.plan = func(v any, p Place) (sandbox.Action, error) { return plan(v.(T), p) }
	t.answer = func(v any, act sandbox.Action, res sandbox.Result) Answer { return answer(v.(T), act, res) }
	return t
}

// Plan says what the call would do. It looks at nothing but through p. A path that leads
// out of the workspace stays in the plan as it was asked, so that policy and
// audit see it; the sandbox refuses it.
func (t Tool) Plan(a Args, p Place) (sandbox.Action, error) {
	if a.tool != t.Name {
		return sandbox.Action{}, &Failure{Kind: KindInvalidParameters, Class: Unrecoverable,
			Msg: fmt.Sprintf("plan %s with arguments parsed for %q", t.Name, a.tool), Remedy: "parse the arguments with the tool that runs them"}
	}
	act, err := t.plan(a.value, p)
	act.Workspace = p.Root
	return act, err
}

// fileAction is a plan of one file operation.
func fileAction(p Place, op sandbox.FileOp) (sandbox.Action, error) {
	if p.Resolve != nil {
		if real, err := p.Resolve(op.Path); err == nil {
			op.Path, op.Real = real, true
		}
	}
	return sandbox.Action{Files: []sandbox.FileOp{op}}, nil
}

// rel is the form of a path that an Action wants: cleaned and relative to the
// workspace. What lies elsewhere is kept as it was asked.
func (p Place) rel(asked string) string {
	if asked == "" {
		return "."
	}
	if !filepath.IsAbs(asked) {
		return path.Clean(asked)
	}
	in, err := filepath.Rel(p.Root, asked)
	if err != nil || !filepath.IsLocal(in) {
		return asked
	}
	return filepath.ToSlash(in)
}

package rego

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sallyport/policies"
	"sallyport/policy"
	"sallyport/sandbox"
)

// Check compiles the layers, checks them against the schemas and the
// invariants, and runs no tests. Its errors name file and line.
func Check(ctx context.Context, layers ...Layer) error {
	_, err := Load(ctx, Options{Layers: layers, SkipTests: true})
	return err
}

// Test runs the Rego tests and the input/expected folders of the last layer, or
// of the built-in one when there is no layer.
func Test(ctx context.Context, layers ...Layer) (TestReport, error) {
	e, err := Load(ctx, Options{Layers: layers, SkipTests: true, builtinTests: len(layers) == 0})
	if err != nil {
		return TestReport{}, err
	}
	last := Layer{Name: builtin, FS: policies.FS}
	if len(layers) > 0 {
		last = layers[len(layers)-1]
	}
	report, err := e.current.Load().test(ctx, last.Name)
	if err != nil || last.FS == nil {
		return report, err
	}
	return report, e.testCases(ctx, last, &report)
}

// expected is what a case folder says of its input.
type expectedDecision struct {
	Tier    policy.Tier    `json:"tier"`
	Verdict policy.Verdict `json:"verdict"`
	Rules   []string       `json:"rules"` // ids that must be among those that fired
}

// testCases judges every folder that holds input.json and expected.json.
func (e *Engine) testCases(ctx context.Context, l Layer, report *TestReport) error {
	return fs.WalkDir(l.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(p) != "expected.json" {
			return err
		}
		if reason := e.testCase(ctx, l, path.Dir(p)); reason != "" {
			report.Failed = append(report.Failed, TestFailure{Name: path.Dir(p), At: l.Name + "/" + p + ":1", Reason: reason})
			return nil
		}
		report.Passed++
		return nil
	})
}

func (e *Engine) testCase(ctx context.Context, l Layer, dir string) (reason string) {
	var in Input
	var want expectedDecision
	for name, into := range map[string]any{"input.json": &in, "expected.json": &want} {
		text, err := readBounded(l.FS, path.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			return name + ": " + err.Error()
		}
	}
	d, err := e.Eval(ctx, in)
	if err != nil {
		return err.Error()
	}
	if d.Tier != want.Tier || d.Verdict != want.Verdict {
		return fmt.Sprintf("it is %s %s, expected %s %s (%s)", d.Tier, d.Verdict, want.Tier, want.Verdict, strings.Join(ids(d), ", "))
	}
	for _, id := range want.Rules {
		if !slices.Contains(ids(d), id) {
			return fmt.Sprintf("rule %s did not fire; these did: %s", id, strings.Join(ids(d), ", "))
		}
	}
	return ""
}

func ids(d policy.Decision) []string {
	out := make([]string, len(d.Rules))
	for i, r := range d.Rules {
		out[i] = r.ID
	}
	return out
}

// Eval judges one input as a rule sees it: a call or one command of it.
func (e *Engine) Eval(ctx context.Context, in Input) (policy.Decision, error) {
	c := policy.Call{
		Phase: in.Phase, Tool: in.Call.Tool, Agent: in.Call.Agent, Workspace: in.Workspace, Session: in.Session, Now: in.Now,
	}
	f := policy.Facts{Files: in.Files, Content: in.Content, Net: in.Net, Opaque: in.Opaque}
	if in.Cmd != nil {
		f.Cmds = []policy.Cmd{in.Cmd.Cmd}
	}
	if in.Call.Exec || in.Cmd != nil {
		c.Action.Exec = &sandbox.Exec{Write: in.Call.Write}
	}
	return e.Decide(ctx, c, f)
}

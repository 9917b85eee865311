package main

import (
	"context"
	"fmt"
	"os"

	"sallyport/policy"
	"sallyport/policy/inspect"
	"sallyport/policy/rego"
	"sallyport/sandbox"
)

// judge is the policy side: the rules and the gate over them.
type judge struct {
	engine *rego.Engine
	gate   *policy.Gate
}

func newJudge(ctx context.Context, c config) (*judge, error) {
	var layers []rego.Layer
	for _, l := range []struct{ name, dir string }{
		{"administrator", c.Policy.Administrator}, {"user", c.Policy.User},
	} {
		if l.dir == "" {
			continue
		}
		if _, err := os.Stat(l.dir); err != nil {
			return nil, fmt.Errorf("open the %s policy: %w", l.name, err)
		}
		layers = append(layers, rego.Layer{Name: l.name, FS: os.DirFS(l.dir)})
	}
	engine, err := rego.Load(ctx, rego.Options{Layers: layers})
	if err != nil {
		return nil, fmt.Errorf("load the policy: %w", err)
	}
	inspector := inspect.New(inspect.Options{
		Data:  engine.Data,
		Files: func(root string) (inspect.Files, error) { return reader(root), nil },
		Path:  sandbox.SearchPath(),
	})
	return &judge{engine: engine, gate: &policy.Gate{Inspector: inspector, Decider: engine}}, nil
}

// reader reads beneath a workspace for the inspector. It opens the workspace
// anew each time, so that nothing has to be closed.
type reader string

func (r reader) ReadFile(path string, most int64) ([]byte, error) {
	w, err := sandbox.OpenWorkspace(string(r))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.ReadFile(path, most)
}

func (r reader) Exists(path string) string {
	w, err := sandbox.OpenWorkspace(string(r))
	if err != nil {
		return "absent"
	}
	defer w.Close()
	return w.Kind(path)
}

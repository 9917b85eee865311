package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"sallyport/policy"
	"sallyport/policy/inspect"
	"sallyport/policy/rego"
	"sallyport/sandbox"
)

// judge is the policy of one set of layers and the gate over it.
type judge struct {
	engine *rego.Engine
	gate   *policy.Gate
}

// authorOf tells which agent and session wrote a file's content through the
// tools, and when: "agent/session at TIME"; "" for nobody known.
type authorOf func(workspace, path, sha256 string) string

func newJudge(ctx context.Context, layers []rego.Layer, author authorOf) (*judge, error) {
	engine, err := rego.Load(ctx, rego.Options{Layers: layers})
	if err != nil {
		return nil, fmt.Errorf("load the policy: %w", err)
	}
	inspector := inspect.New(inspect.Options{
		Data:   engine.Data,
		Author: author,
		Files:  func(root string) (inspect.Files, error) { return reader(root), nil },
		Path:   sandbox.SearchPath(),
	})
	return &judge{engine: engine, gate: &policy.Gate{Inspector: inspector, Decider: engine}}, nil
}

// layersOf are the layers that the configuration names, strongest first. The
// user layer is the policy folder beside config.yaml unless another is named.
func layersOf(p place, c config) ([]rego.Layer, error) {
	var layers []rego.Layer
	user := c.Policy.User
	if user == "" {
		if dir := filepath.Join(p.config, "policy"); isDir(dir) {
			user = dir
		}
	}
	for _, l := range []struct{ name, dir string }{{"administrator", c.Policy.Administrator}, {"user", user}} {
		if l.dir == "" {
			continue
		}
		if !isDir(l.dir) {
			return nil, fmt.Errorf("open the %s policy: %s is not a folder", l.name, l.dir)
		}
		layer := rego.Layer{Name: l.name, FS: os.DirFS(l.dir)}
		if l.name == "administrator" && c.Policy.AdministratorKey != "" {
			pem, err := os.ReadFile(c.Policy.AdministratorKey)
			if err != nil {
				return nil, fmt.Errorf("read policy.administrator_key: %w", err)
			}
			layer.Signature = &rego.Signature{PublicKey: string(pem), Algorithm: c.Policy.AdministratorAlgorithm}
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

func isDir(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// judges holds the machine's policy and, for each workspace with a policy of
// its own, the two together. It is the gate of the daemon; its methods may be
// called concurrently.
type judges struct {
	loaded chan struct{} // closed when base, or why there is none, is set
	base   *judge
	broken error

	layers   []rego.Layer
	accepted *accepted
	watch    func(*rego.Engine) // follows an engine's files
	author   authorOf

	mu      sync.Mutex
	project map[string]*judge
}

// projectDir is where a workspace keeps its own policy. It can only tighten, and
// counts once a person has accepted it.
const projectDir = ".sallyport/policy"

// newJudges loads the machine's policy.
func newJudges(ctx context.Context, p place, c config, author authorOf) (*judges, error) {
	j, err := openJudges(p, c, author)
	if err != nil {
		return nil, err
	}
	j.load(ctx, func(*judge) {})
	return j, j.broken
}

// openJudges finds the machine's policy; load has to be called once, and nothing
// is judged before it is done.
func openJudges(p place, c config, author authorOf) (*judges, error) {
	layers, err := layersOf(p, c)
	if err != nil {
		return nil, err
	}
	return &judges{
		loaded: make(chan struct{}), layers: layers, accepted: &accepted{file: filepath.Join(p.state, "accepted-policies.json")},
		watch: func(*rego.Engine) {}, author: author, project: map[string]*judge{},
	}, nil
}

// load loads the policy and hands it to use before anybody is judged by it.
func (j *judges) load(ctx context.Context, use func(*judge)) {
	defer close(j.loaded)
	if j.base, j.broken = newJudge(ctx, j.layers, j.author); j.broken == nil {
		use(j.base)
	}
}

// ready waits until the machine's policy is there. Its error is why it will
// never be, or that ctx has ended.
func (j *judges) ready(ctx context.Context) error {
	select {
	case <-j.loaded:
		return j.broken
	default:
	}
	select {
	case <-j.loaded:
		return j.broken
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Admit judges a call by the policy of its workspace. A project policy that
// cannot be loaded denies: it may be the stricter one.
func (j *judges) Admit(ctx context.Context, c policy.Call) (policy.Decision, policy.Facts) {
	if err := j.ready(ctx); err != nil {
		return unjudged("gate.policy", err, "ask a person to mend the policy; `sallyport policy check` shows where"), policy.Facts{}
	}
	one, err := j.of(ctx, c.Workspace.Root)
	if err != nil {
		return unjudged("gate.project-policy", err, "ask a person to mend "+projectDir+"; `sallyport policy check "+projectDir+"` shows where"), policy.Facts{}
	}
	d, f := one.gate.Admit(ctx, c)
	if bad := one.engine.LastError(); bad != nil && d.Verdict != policy.Allow {
		d.Rules = append(d.Rules, policy.RuleHit{
			ID: "gate.policy-edit", Tier: d.Tier, Verdict: d.Verdict,
			Reason: "the last edit of the policy was refused and the one before it decides: " + oneLine(bad.Error(), 200),
			Remedy: "a person mends it; `sallyport policy check` shows where",
		})
	}
	return d, f
}

// unjudged denies a call that there is no policy for.
func unjudged(id string, why error, remedy string) policy.Decision {
	return policy.Decision{Tier: policy.L3, Verdict: policy.Deny, Rules: []policy.RuleHit{{
		ID: id, Tier: policy.L3, Verdict: policy.Deny, Reason: why.Error(), Remedy: remedy,
	}}}
}

// of is the policy of a workspace.
func (j *judges) of(ctx context.Context, root string) (*judge, error) {
	if err := j.ready(ctx); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, projectDir)
	if root == "" || !isDir(dir) {
		return j.base, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if one := j.project[root]; one != nil {
		return one, nil
	}
	one, err := newJudge(ctx, append(j.layers[:len(j.layers):len(j.layers)], j.projectLayer(root)), j.author)
	if err != nil {
		return nil, err
	}
	j.project[root] = one
	j.watch(one.engine)
	return one, nil
}

func (j *judges) projectLayer(root string) rego.Layer {
	return rego.Layer{
		Name: "project", FS: os.DirFS(filepath.Join(root, projectDir)),
		Accepted: func(digest string) bool { return j.accepted.has(root, digest) },
	}
}

// accepted remembers which project policies a person has seen and accepted.
type accepted struct {
	file string
	mu   sync.Mutex
}

func (a *accepted) has(root, digest string) bool {
	m, err := a.read()
	return err == nil && m[root] == digest
}

func (a *accepted) add(root, digest string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.read()
	if err != nil {
		return err
	}
	m[root] = digest
	return replaceFile(a.file, asJSON(m))
}

func (a *accepted) read() (map[string]string, error) {
	m := map[string]string{}
	b, err := os.ReadFile(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the accepted project policies: %w", err)
	}
	return m, decodeJSON(b, &m)
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

package rego

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

// files makes a file system of name -> text.
func files(pairs ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return out
}

func rule(layer, id, tier, body string) string {
	return "package sallyport." + layer + `

# METADATA
# title: A rule
# custom:
#   id: ` + id + `
#   tier: ` + tier + `
#   reason: because
#   remedy: another way
hit contains rego.metadata.rule().custom if {
` + body + `
}
`
}

func decide(t *testing.T, e *Engine, c policy.Call, f policy.Facts) policy.Decision {
	t.Helper()
	d, err := e.Decide(context.Background(), c, f)
	require.NoError(t, err)
	return d
}

// A project that allows everything, in every way it can, loosens nothing.
func TestProjectCannotLoosen(t *testing.T) {
	t.Parallel()
	plain := load(t)
	allow := load(t, Layer{Name: "project", FS: files("allow.rego", `package sallyport.project

# METADATA
# title: Allow everything
# custom:
#   id: project.allow
#   tier: L0
#   verdict: allow
#   reason: we trust the agent
#   remedy: ""
#   obligations: {write: direct, net: [{host: evil.example, port: 443}], limits: {memory: -1, pids: 100000}, profile: debug}
hit contains rego.metadata.rule().custom
`)})
	for _, i := range append(invariants(), invariant{name: "an ordinary command", call: call("run_command"), facts: policy.Facts{Cmds: []policy.Cmd{command("frobnicate")}}}) {
		before, after := decide(t, plain, i.call, i.facts), decide(t, allow, i.call, i.facts)
		assert.GreaterOrEqual(t, after.Tier, before.Tier, i.name)
		assert.LessOrEqual(t, after.Verdict, before.Verdict, i.name)
		assert.LessOrEqual(t, after.Obligations.Terms.Write, before.Obligations.Terms.Write, i.name)
		assert.Subset(t, before.Obligations.Terms.Net, after.Obligations.Terms.Net, i.name)
		assert.Empty(t, after.Obligations.Terms.Profile, i.name)
	}
}

func TestProjectCannotReachBuiltinRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"another package":        {"x.rego", "package sallyport.rules\n\nreading := true\n", "package sallyport.rules is not this layer's"},
		"no package of its own":  {"x.rego", "package other\n", "call it sallyport.project"},
		"a list that widens":     {"x.yaml", "sallyport:\n  programs: {psql: reader}\n", "project/x.yaml:2: programs can loosen the policy"},
		"relax":                  {"x.yaml", "sallyport:\n  relax: [{rule: git.push, tier: L1, why: x}]\n", "relax can loosen the policy"},
		"shadow":                 {"x.yaml", "sallyport:\n  shadow: [git.push]\n", "shadow can loosen the policy"},
		"a pattern of that name": {"x.yaml", "sallyport:\n  patterns: [{id: danger.raw-disk, on: [command], regex: x, severity: low, tier: L0, verdict: allow, reason: x, remedy: x}]\n", "exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Check(context.Background(), Layer{Name: "project", FS: files(tt.file, tt.text)})
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLayersTighten(t *testing.T) {
	t.Parallel()
	e := load(t,
		Layer{Name: "administrator", FS: files(
			"a.rego", rule("administrator", "administrator.no-make", "L3", `	input.cmd.program == "make"`),
			"a.yaml", "sallyport:\n  allowed_hosts: [{host: proxy.corp, port: 443}, {host: mirror.corp, port: 443}]\n  limits: {repeats: 20}\n")},
		Layer{Name: "project", FS: files(
			"p.rego", rule("project", "project.no-ls", "L2", `	input.cmd.program == "ls"`),
			"p.yaml", "sallyport:\n  allowed_hosts: [{host: mirror.corp, port: 443}]\n  protected_paths: [schema.sql]\n  protected_branches: [develop]\n  limits: {repeats: 5, calls: 100000}\n  agents: {'*': {max_tier: L2}}\n")},
	)
	run := call("run_command")
	assert.Equal(t, policy.L3, decide(t, e, run, policy.Facts{Cmds: []policy.Cmd{command("make")}}).Tier)
	assert.Equal(t, policy.L2, decide(t, e, run, policy.Facts{Cmds: []policy.Cmd{command("ls")}}).Tier)

	d := e.Data()
	assert.Equal(t, []sandbox.Endpoint{{Host: "mirror.corp", Port: 443}}, d.AllowedHosts, "the project keeps only what it names too")
	assert.Contains(t, d.ProtectedPaths, "schema.sql")
	assert.Contains(t, d.ProtectedBranches, "main")
	assert.Contains(t, d.ProtectedBranches, "develop")
	assert.Equal(t, 5, d.Limits.Repeats)
	assert.Less(t, d.Limits.Calls, 100000)
	assert.Equal(t, policy.L2, d.Agent("anyone").MaxTier)
}

func TestOwnerMayRelaxAndShadow(t *testing.T) {
	t.Parallel()
	lists := "sallyport:\n  relax: [{rule: packages.install, tier: L1, programs: [pip], why: our mirror is scanned}]\n  shadow: [git.fetch]\n"
	for _, owner := range []string{"administrator", "user"} {
		e := load(t, Layer{Name: owner, FS: files("x.yaml", lists)})
		pip := decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("pip", "install", "x")}})
		assert.Equal(t, policy.L1, pip.Tier)
		assert.Equal(t, policy.Allow, pip.Verdict)
		assert.Contains(t, pip.Rules[0].Reason, "our mirror is scanned")
		apt := decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("apt-get", "install", "x")}})
		assert.Equal(t, policy.L2, apt.Tier, "another program")
		fetch := decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("git", "fetch")}})
		assert.Equal(t, policy.L1, fetch.Tier)
		assert.Equal(t, "git.fetch", fetch.Shadow[0].ID)
	}
	err := Check(context.Background(), Layer{Name: "administrator"}, Layer{Name: "user", FS: files("x.yaml", lists)})
	assert.ErrorContains(t, err, "user/x.yaml:2", "where there is an administrator the user may not")
}

func TestRelaxCannotBreakInvariants(t *testing.T) {
	t.Parallel()
	err := Check(context.Background(), Layer{Name: "user", FS: files("x.yaml", "sallyport:\n  relax: [{rule: git.push, tier: L1, why: x}]\n")})
	assert.ErrorContains(t, err, "a push is L1 allow; it must be at least L3")
	err = Check(context.Background(), Layer{Name: "user", FS: files("x.yaml", "sallyport:\n  relax: [{rule: git.psuh, tier: L1, why: x}]\n")})
	assert.ErrorContains(t, err, `the rule "git.psuh", which does not exist`)
}

func TestErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"syntax":                  {"x.rego", "package sallyport.user\n\nhit contains if\n", "user/x.rego:3"},
		"a misspelt fact":         {"x.rego", rule("user", "user.x", "L3", `	input.cmd.progarm == "x"`), "user/x.rego:11"},
		"a misspelt list":         {"x.rego", rule("user", "user.x", "L3", `	input.cmd.program in data.sallyport.protected_brunches`), "user/x.rego:11: there is no data.sallyport.protected_brunches"},
		"no METADATA":             {"x.rego", "package sallyport.user\n\nhit contains {\"id\": \"x\"} if input.cmd.program == \"x\"\n", "user/x.rego:3: the rule has no METADATA"},
		"METADATA without a tier": {"x.rego", strings.Replace(rule("user", "user.x", "L3", `	input.unit == "cmd"`), "#   tier: L3\n", "", 1), "user/x.rego:9: the METADATA lacks custom.tier"},
		"a complete rule":         {"x.rego", strings.Replace(rule("user", "user.x", "L3", `	input.unit == "cmd"`), "hit contains rego.metadata.rule().custom", "hit := rego.metadata.rule().custom", 1), "hit must be a set"},
		"an id twice":             {"x.rego", rule("user", "git.push", "L3", `	input.unit == "cmd"`), `user/x.rego:10: rule "git.push" exists already in builtin/git.rego`},
		"the clock":               {"x.rego", rule("user", "user.x", "L3", `	time.now_ns() > 0`), "user/x.rego:11: rego_type_error: undefined function time.now_ns"},
		"the network":             {"x.rego", rule("user", "user.x", "L3", `	http.send({"method": "get", "url": "http://x"})`), "undefined function http.send"},
		"randomness":              {"x.rego", rule("user", "user.x", "L3", `	rand.intn("x", 2) == 1`), "undefined function rand.intn"},
		"the environment":         {"x.rego", rule("user", "user.x", "L3", `	opa.runtime().env.HOME == "x"`), "undefined function opa.runtime"},
		"the clock through with":  {"x.rego", rule("user", "user.x", "L3", `	data.sallyport.rules.reading with input.cmd.program as time.now_ns()`), "undefined function time.now_ns"},
		"yaml syntax":             {"x.yaml", "sallyport:\n  guards: [\n", "user/x.yaml: yaml: line"},
		"an unknown list":         {"x.yaml", "sallyport:\n  protected_braches: []\n", "user/x.yaml:2: sallyport: additional properties 'protected_braches' not allowed"},
		"a wrong tier":            {"x.yaml", "sallyport:\n  relax:\n    - rule: git.push\n      tier: L7\n      why: x\n", "user/x.yaml:4"},
		"a wrong expression":      {"x.yaml", "sallyport:\n  patterns:\n    - {id: x, on: [command], severity: low, tier: L0, verdict: ask, reason: x, remedy: x,\n       regex: '('}\n", "user/x.yaml:4: pattern \"x\""},
		"a wrong glob":            {"x.yaml", "sallyport:\n  protected_paths:\n    - ok\n    - '['\n", "user/x.yaml:4: \"[\" is not a glob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Check(context.Background(), Layer{Name: "user", FS: files(tt.file, tt.text)})
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLayerTestsRunOnLoad(t *testing.T) {
	t.Parallel()
	layer := Layer{Name: "user", FS: files(
		"x.rego", rule("user", "user.no-make", "L3", `	input.cmd.program == "make"`),
		"x_test.rego", "package sallyport.user_test\n\ntest_make if count(data.sallyport.user.hit) == 1 with input as {\"cmd\": {\"program\": \"mak\"}}\n")}
	_, err := Load(context.Background(), Options{Layers: []Layer{layer}})
	assert.ErrorContains(t, err, "user/x_test.rego:3: data.sallyport.user_test.test_make")
	_, err = Load(context.Background(), Options{Layers: []Layer{layer}, SkipTests: true})
	assert.NoError(t, err)
}

func TestCaseFolders(t *testing.T) {
	t.Parallel()
	input := `{"version":1,"unit":"cmd","now":"2026-01-02T03:04:05Z","phase":"call","call":{"tool":"run_command","agent":"a","max_tier":"L3","exec":true,"write":"none"},"workspace":{"root":"/w"},"cmd":{"program":"make","argv":["make"]},"session":{}}`
	layer := func(expected string) Layer {
		return Layer{Name: "user", FS: files(
			"x.rego", rule("user", "user.no-make", "L3", `	input.cmd.program == "make"`),
			"cases/make/input.json", input, "cases/make/expected.json", expected)}
	}
	report, err := Test(context.Background(), layer(`{"tier":"L3","verdict":"ask","rules":["user.no-make"]}`))
	require.NoError(t, err)
	assert.True(t, report.OK(), "%v", report.Failed)
	assert.Equal(t, 1, report.Passed)
	assert.Equal(t, []string{"user.no-make"}, report.Uncovered, "case folders are no unit tests of a rule")
	report, err = Test(context.Background(), layer(`{"tier":"L1","verdict":"allow","rules":[]}`))
	require.NoError(t, err)
	require.Len(t, report.Failed, 1)
	assert.Contains(t, report.Failed[0].Reason, "it is L3 ask, expected L1 allow")
}

func TestProjectLayerWaitsForAPerson(t *testing.T) {
	t.Parallel()
	accepted := ""
	layer := Layer{Name: "project", FS: files("x.rego", rule("project", "project.no-ls", "L2", `	input.cmd.program == "ls"`)), Accepted: func(d string) bool { return d == accepted }}
	e := load(t, layer)
	ls := policy.Facts{Cmds: []policy.Cmd{command("ls")}}
	assert.Equal(t, policy.L0, decide(t, e, call("run_command"), ls).Tier)
	require.Len(t, e.Held(), 1)
	digest, err := Digest(layer)
	require.NoError(t, err)
	assert.Equal(t, Held{Layer: "project", Digest: digest}, e.Held()[0])

	accepted = digest
	changed, err := e.Reload(context.Background())
	require.NoError(t, err)
	assert.True(t, changed)
	assert.Empty(t, e.Held())
	assert.Equal(t, policy.L2, decide(t, e, call("run_command"), ls).Tier)
}

func TestHeldLayerMayBeBroken(t *testing.T) {
	t.Parallel()
	e := load(t, Layer{Name: "project", FS: files("x.rego", "not rego"), Accepted: func(string) bool { return false }})
	assert.Len(t, e.Held(), 1)
}

func TestReloadKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.rego"), []byte(text), 0o644))
	}
	ctx := context.Background()
	write(rule("user", "user.no-ls", "L2", `	input.cmd.program == "ls"`))
	e := load(t, Layer{Name: "user", FS: os.DirFS(dir)})
	ls := policy.Facts{Cmds: []policy.Cmd{command("ls")}}
	first := e.Revision()

	changed, err := e.Reload(ctx)
	require.NoError(t, err)
	assert.False(t, changed, "nothing changed")

	write(rule("user", "user.no-ls", "L3", `	input.cmd.progarm == "ls"`))
	_, err = e.Reload(ctx)
	require.ErrorContains(t, err, "the last good one stays in force")
	assert.ErrorContains(t, e.LastError(), "user/x.rego:11")
	assert.Equal(t, first, e.Revision())
	d := decide(t, e, call("run_command"), ls)
	assert.Equal(t, policy.L2, d.Tier)
	assert.Contains(t, d.Rules[0].Remedy, "the newest policy edit is broken", "the next refusal says so")

	write(rule("user", "user.no-ls", "L3", `	input.cmd.program == "ls"`))
	changed, err = e.Reload(ctx)
	require.NoError(t, err)
	assert.True(t, changed)
	assert.NoError(t, e.LastError())
	assert.NotEqual(t, first, e.Revision())
	assert.Equal(t, policy.L3, decide(t, e, call("run_command"), ls).Tier)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := load(t, Layer{Name: "user", FS: os.DirFS(dir)})
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan Event, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Watch(ctx, func(ev Event) { events <- ev })
	}()
	next := func() Event {
		select {
		case ev := <-events:
			return ev
		case <-time.After(30 * time.Second):
			t.Fatal("no event came")
			return Event{}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.rego"), []byte(rule("user", "user.x", "L3", `	input.cmd.program == "ls"`)), 0o644))
	assert.True(t, next().Changed)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.rego"), []byte("broken"), 0o644))
	assert.Error(t, next().Err)
	cancel()
	<-done
}

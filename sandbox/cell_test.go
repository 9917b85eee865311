//go:build linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// put writes files beneath a workspace.
func put(t testing.TB, ws string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		p := filepath.Join(ws, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return string(out)
}

func TestProtectedPathsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	git(t, ws, "init", "-q", ".")
	put(t, ws, map[string]string{
		".mcp.json": "{}", ".claude/settings.json": "{}", ".envrc": "x", "ci/deploy.yml": "x", "free": "x",
		".git/hooks/pre-commit": "#!/bin/sh\n",
	})
	modes := []WriteMode{WriteDiscard, WriteTransaction, WriteDirect}
	if testing.Short() {
		modes = modes[1:]
	}
	for _, tc := range []struct{ cmd, path string }{
		{"echo evil > .git/hooks/pre-commit", ".git/hooks/pre-commit"},
		{"echo evil > .git/hooks/post-commit", ".git/hooks/post-commit"},
		{"echo evil >> .git/config", ".git/config"},
		{"git config user.name evil", ".git/config"},
		{"mv .git .gone", ".git"},
		{"rm -rf .git/hooks", ".git/hooks"},
		{"mv .git/hooks .git/hooks2", ".git/hooks"},
		{"ln -sf /tmp/x .mcp.json", ".mcp.json"},
		{"echo evil > .mcp.json", ".mcp.json"},
		{"echo evil > .claude/settings.json", ".claude/settings.json"},
		{"rm .envrc", ".envrc"},
		{"chmod 777 .envrc", ".envrc"},
		{"echo evil > ci/deploy.yml", "ci/deploy.yml"},
	} {
		for _, mode := range modes {
			before, _ := os.ReadFile(filepath.Join(ws, tc.path))
			res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(tc.cmd, mode)},
				Terms{Write: mode, Protected: []string{"ci/deploy.yml"}})
			require.NoError(t, err)
			assert.NotZero(t, res.Exit, "%s in %s", tc.cmd, mode)
			after, _ := os.ReadFile(filepath.Join(ws, tc.path))
			assert.Equal(t, string(before), string(after), tc.cmd)
			if assert.NotEmpty(t, res.Denials, "%s in %s: %s", tc.cmd, mode, res.Stderr.Data) {
				assert.Contains(t, res.Denials[0].What, "protected path", tc.cmd)
			}
		}
	}
	assert.Zero(t, run(t, r, ws, shell("echo fine > free && echo fine > .git/free", WriteDirect)).Exit)
}

func TestNewProtectedPathsAreMovedAside(t *testing.T) {
	t.Parallel()
	r, ws, outside := newRunner(t), newWorkspace(t), newWorkspace(t)
	put(t, ws, map[string]string{".git/HEAD": "x", ".git/config": "x", "f": "f"})
	require.NoError(t, os.Symlink(outside, filepath.Join(ws, "link")))
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(
		"echo evil > .mcp.json; mkdir -p .claude .git/hooks; echo evil > .git/hooks/pre-commit; ln -s /etc .vscode", WriteDirect)},
		Terms{Write: WriteDirect, Protected: []string{"link/x"}})
	require.NoError(t, err)
	for _, p := range []string{".mcp.json", ".claude", ".git/hooks", ".vscode"} {
		_, err := os.Lstat(filepath.Join(ws, p))
		assert.ErrorIs(t, err, os.ErrNotExist, p)
	}
	require.Len(t, res.Denials, 4)
	assert.Contains(t, res.Denials[0].What, "protected path")

	fresh := newWorkspace(t)
	res = run(t, r, fresh, shell("git init -q . && git commit -q --allow-empty -m x && git log --oneline | wc -l", WriteDirect))
	assert.Equal(t, "1\n", string(res.Stdout.Data), "a new repository is the command's own")
	assert.DirExists(t, filepath.Join(fresh, ".git/hooks"))
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	put(t, ws, map[string]string{".env": "K=canary", ".env.local": "K=canary", ".env.example": "K=",
		"id_rsa": "canary", "id_rsa.pub": "pub", ".aws/credentials": "canary", "deep/secret.txt": "canary"})
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(
		"cat .env .env.local id_rsa .aws/credentials deep/secret.txt; ls .aws; cat .env.example id_rsa.pub", WriteDirect)},
		Terms{Write: WriteDirect, Hidden: []string{"deep/secret.txt"}})
	require.NoError(t, err)
	assert.Equal(t, "K=pub", string(res.Stdout.Data))
	require.NotEmpty(t, res.Denials)
	assert.Equal(t, "read of .env refused: hidden path", res.Denials[0].What)
}

func TestLinkedWorktreeCommits(t *testing.T) {
	t.Parallel()
	r, base := newRunner(t), newWorkspace(t)
	main := filepath.Join(base, "main")
	require.NoError(t, os.Mkdir(main, 0o755))
	git(t, main, "init", "-q", ".")
	git(t, main, "commit", "-q", "--allow-empty", "-m", "first")
	tree := filepath.Join(base, "tree")
	git(t, main, "worktree", "add", "-q", tree)
	res := run(t, r, tree, shell("echo x > f && git add f && git commit -qm second && git log --oneline | wc -l", WriteDirect))
	assert.Equal(t, "2\n", string(res.Stdout.Data), "stderr: %s", res.Stderr.Data)
	assert.Contains(t, git(t, tree, "log", "-1", "--format=%s"), "second")
	for _, cmd := range []string{
		"echo evil > ../main/.git/hooks/pre-commit", "git config a.b c", "echo gitdir: /tmp > .git",
	} {
		assert.NotZero(t, run(t, r, tree, shell(cmd, WriteDirect)).Exit, cmd)
	}
	run(t, r, tree, shell("echo x > ../main/f", WriteDirect))
	assert.NoFileExists(t, filepath.Join(main, "f"), "the main tree is not in the view")
	assert.NotZero(t, run(t, r, tree, shell("git commit --allow-empty -qm third", WriteNone)).Exit)
}

func TestPlantedWorktreePointerMountsNothing(t *testing.T) {
	t.Parallel()
	r, base := newRunner(t), newWorkspace(t)
	victim, ws := filepath.Join(base, "victim"), filepath.Join(base, "ws")
	put(t, victim, map[string]string{"worktrees/x/gitdir": "/elsewhere/.git\n", "HEAD": "", "objects/a": "", "refs/a": "", "secret": "canary"})
	put(t, ws, map[string]string{".git": "gitdir: " + filepath.Join(victim, "worktrees/x") + "\n"})
	res := run(t, r, ws, shell("cat "+filepath.Join(victim, "secret"), WriteDirect))
	assert.NotZero(t, res.Exit)
	assert.NotContains(t, string(res.Stdout.Data), "canary")
}

func TestLimitsAreTypedResults(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	grouped := func(t *testing.T) {
		if _, err := r.groups(); err != nil {
			t.Skip("no control groups here: ", err)
		}
	}
	for _, tc := range []struct {
		limit  string
		cmd    string
		limits Limits
		group  bool
	}{
		{"memory", `python3 -c 'x=bytearray(200<<20)'`, Limits{Memory: 64 << 20}, true},
		{"pids", `for i in $(seq 40); do sleep 5 & done; wait`, Limits{Pids: 16, Wall: time.Minute}, true},
		{"output", `yes | head -c 3000000`, Limits{Output: 1 << 16}, false},
		{"file", `head -c 2000000 /dev/zero > /tmp/f`, Limits{File: 1 << 20}, false},
		{"disk", `head -c 2000000 /dev/zero > /tmp/f`, Limits{Disk: 1 << 20}, false},
		{"wall", `sleep 30`, Limits{Wall: 100 * time.Millisecond}, false},
	} {
		t.Run(tc.limit, func(t *testing.T) {
			if tc.group {
				grouped(t)
			}
			res, err := r.Run(context.Background(), Action{Workspace: newWorkspace(t), Exec: shell(tc.cmd, WriteNone)}, Terms{Limits: tc.limits})
			if tc.limit != "wall" {
				require.NoError(t, err)
			}
			require.NotEmpty(t, res.Hit, "exit %d, stderr: %.300s", res.Exit, res.Stderr.Data)
			assert.Equal(t, tc.limit, res.Hit[0].Limit)
			assert.Positive(t, res.Hit[0].Value)
			assert.GreaterOrEqual(t, res.Hit[0].Peak, res.Hit[0].Value)
		})
	}
}

func TestWriteLayersAreBounded(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > f$i; done; sleep 30", WriteDiscard)},
		Terms{Write: WriteDiscard, Limits: Limits{Disk: 2 << 20, Wall: 20 * time.Second}})
	require.NoError(t, err)
	assert.Equal(t, "SIGKILL", res.Signal)
	require.NotEmpty(t, res.Hit)
	assert.Equal(t, "disk", res.Hit[0].Limit)
	assert.Greater(t, res.Hit[0].Peak, int64(2<<20))
}

func TestOutputKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("seq 100000", WriteNone)}, Terms{Limits: Limits{Output: 1000}})
	require.NoError(t, err)
	out := string(res.Stdout.Data)
	assert.LessOrEqual(t, len(out), 1000)
	assert.True(t, strings.HasPrefix(out, "1\n2\n3\n"))
	assert.True(t, strings.HasSuffix(out, "99999\n100000\n"))
	assert.Contains(t, out, "bytes left out here")
	assert.EqualValues(t, 588895, res.Stdout.Total)
}

func TestNothingOutlivesARun(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	const mark = "98762"
	run(t, r, ws, shell("setsid sleep "+mark+" >/dev/null 2>&1 & (sleep "+mark+" &) ; echo done", WriteNone))
	assert.Empty(t, processes(t, mark))
}

// processes lists the command lines on the host that hold mark.
func processes(t testing.TB, mark string) []string {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, p := range procs {
		if cmdline, _ := os.ReadFile(p); strings.Contains(string(cmdline), mark) {
			found = append(found, p+": "+string(cmdline))
		}
	}
	return found
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("SALLYPORT_TEST_SECRET", "canary")
	r, ws := newRunner(t), newWorkspace(t)
	res := run(t, r, ws, &Exec{Argv: []string{"env"}, Env: map[string]string{"WANTED": "yes"}})
	out := string(res.Stdout.Data)
	assert.NotContains(t, out, "canary")
	assert.Contains(t, out, "WANTED=yes\n")
	assert.Contains(t, out, "HOME="+cellHome+"\n")
}

func TestStartFailuresAreTyped(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	for _, tc := range []struct {
		name string
		ws   string
		e    Exec
		kind Kind
	}{
		{"no such program", ws, Exec{Argv: []string{"no-such-program"}}, KindStart},
		{"no such directory", ws, Exec{Argv: []string{"true"}, Dir: "absent"}, KindStart},
		{"directory outside", ws, Exec{Argv: []string{"true"}, Dir: "../.."}, KindOutside},
		{"nothing to run", ws, Exec{}, KindInvalid},
		{"both forms", ws, Exec{Argv: []string{"a"}, Shell: "b"}, KindInvalid},
		{"NUL", ws, Exec{Argv: []string{"a\x00b"}}, KindInvalid},
		{"whole machine", "/", Exec{Argv: []string{"true"}}, KindInvalid},
		{"system folder", "/usr/lib", Exec{Argv: []string{"true"}}, KindInvalid},
		{"no workspace", ws + "/absent", Exec{Argv: []string{"true"}}, KindMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.Run(context.Background(), Action{Workspace: tc.ws, Exec: &tc.e}, Terms{})
			var typed *Error
			require.ErrorAs(t, err, &typed)
			assert.Equal(t, tc.kind, typed.Kind, typed.Msg)
			assert.NotEmpty(t, typed.Remedy)
		})
	}
}

func TestNoNetwork(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res := run(t, r, ws, shell("git ls-remote https://example.com/x.git", WriteNone))
	assert.NotZero(t, res.Exit)
	require.NotEmpty(t, res.Denials, "stderr: %s", res.Stderr.Data)
	assert.Equal(t, "network is off in this cell", res.Denials[0].What)
}

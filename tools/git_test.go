package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

// repo is a repository with one commit whose configuration tries to run
// programs: each would make the file "ran" beside the workspace.
func repo(t *testing.T) (*bench, string) {
	b := newBench(t, map[string]string{"a.txt": "one\n", ".gitattributes": "*.txt diff=evil\n"})
	trap := filepath.Join(t.TempDir(), "ran")
	run := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", b.ws.Root()}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@t")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run("init", "-q", "-b", "main")
	run("add", "-A")
	run("commit", "-qm", "first")
	script := filepath.Join(t.TempDir(), "evil.sh")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+trap+"\n"), 0o755))
	for _, key := range []string{
		"core.fsmonitor", "core.pager", "core.editor", "diff.external", "diff.evil.command", "diff.evil.textconv",
		"gpg.program", "pager.log", "pager.diff", "sequence.editor", "credential.helper",
	} {
		run("config", key, script)
	}
	for _, kv := range [][2]string{{"commit.gpgsign", "true"}, {"log.showSignature", "true"}, {"alias.status", "!" + script}, {"color.ui", "always"}} {
		run("config", kv[0], kv[1])
	}
	for _, hook := range []string{"pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"} {
		body, err := os.ReadFile(script)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(b.ws.Root(), ".git/hooks", hook), body, 0o755))
	}
	return b, trap
}

func TestGitRunsNothingOfTheRepository(t *testing.T) {
	t.Parallel()
	needs(t, "git", "--version")
	b, trap := repo(t)
	b.call("write_file", `{"path":"a.txt","content":"two\n"}`)
	for _, c := range [][2]string{
		{"git_status", `{}`}, {"git_diff", `{}`}, {"git_diff", `{"stat":true}`}, {"git_add", `{"paths":["a.txt"]}`}, {"git_diff", `{"staged":true}`},
		{"git_commit", `{"message":"second\n\n# not a comment"}`}, {"git_log", `{}`}, {"git_diff", `{"ref":"HEAD~1..HEAD","path":"a.txt"}`}, {"git_log", `{"path":"a.txt","limit":1}`},
	} {
		ans := b.call(c[0], c[1])
		assert.False(t, ans.IsError, "%s %s: %s", c[0], c[1], ans.Text)
		assert.NotContains(t, ans.Text, "\x1b")
	}
	if got, err := os.ReadFile(trap); err == nil {
		t.Errorf("the repository ran programs:\n%s", got)
	}
	b.call("write_file", `{"path":"a.txt","content":"three\n"}`)
	control := exec.Command("git", "-C", b.ws.Root(), "commit", "-qam", "control")
	_ = control.Run()
	assert.FileExists(t, trap, "the trap works: plain git runs the repository's programs")
	out, err := exec.Command("git", "-C", b.ws.Root(), "log", "-1", "--format=%B", "--grep=second").Output()
	require.NoError(t, err)
	assert.Equal(t, "second\n\n# not a comment", strings.TrimSpace(string(out)))
}

func TestGitPathsAreLiteral(t *testing.T) {
	t.Parallel()
	needs(t, "git", "--version")
	b, _ := repo(t)
	for _, p := range []string{":(glob)**", ":/", "*.txt", ":!a.txt"} {
		b.call("write_file", `{"path":"a.txt","content":"changed\n"}`)
		args, err := json.Marshal(map[string]any{"paths": []string{p}})
		require.NoError(t, err)
		ans := b.call("git_add", string(args))
		assert.True(t, ans.IsError, "%s: %s", p, ans.Text)
		assert.NotContains(t, b.call("git_status", `{}`).Text, "M  a.txt")
	}
	ans := b.call("git_add", `{"paths":["--all"]}`)
	assert.True(t, ans.IsError, ans.Text)
	for _, tool := range []string{"git_diff", "git_log"} {
		ans := b.call(tool, `{"path":"--output=x"}`)
		assert.False(t, b.ws.Exists("x"), ans.Text)
	}
}

func TestGitIdentity(t *testing.T) {
	t.Parallel()
	needs(t, "git", "--version")
	b, _ := repo(t)
	author := func() string {
		out, err := exec.Command("git", "-C", b.ws.Root(), "log", "-1", "--format=%an <%ae>").Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	b.call("write_file", `{"path":"a.txt","content":"two\n"}`)
	ans := b.call("git_commit", `{"message":"m","all":true}`)
	require.False(t, ans.IsError, ans.Text)
	assert.Contains(t, author(), "<agent@sallyport.invalid>", "a commit works without an identity")
	require.NoError(t, exec.Command("git", "-C", b.ws.Root(), "config", "user.name", "Ada").Run())
	require.NoError(t, exec.Command("git", "-C", b.ws.Root(), "config", "user.email", "ada@example.org").Run())
	b.call("write_file", `{"path":"a.txt","content":"three\n"}`)
	ans = b.call("git_commit", `{"message":"m","paths":["a.txt"]}`)
	require.False(t, ans.IsError, ans.Text)
	assert.Equal(t, "Ada <ada@example.org>", author(), "the repository's identity wins")
}

func TestGitPlans(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]sandbox.WriteMode{
		"git_status": sandbox.WriteNone, "git_diff": sandbox.WriteNone, "git_log": sandbox.WriteNone,
		"git_add": sandbox.WriteDirect, "git_commit": sandbox.WriteDirect,
	} {
		tool, _ := Find(name)
		args := map[string]string{"git_add": `{"paths":["/w/a","../b","/etc/passwd"]}`, "git_commit": `{"message":"m"}`}[name]
		a, err := tool.Parse(json.RawMessage(args))
		require.NoError(t, err)
		act, err := tool.Plan(a, Place{Root: "/w"})
		require.NoError(t, err)
		assert.Equal(t, want, act.Exec.Write, name)
		assert.Equal(t, "/w", act.Workspace)
		if name == "git_add" {
			assert.Equal(t, []string{"--", "a", "../b", "/etc/passwd"}, act.Exec.Argv[len(act.Exec.Argv)-4:])
		}
	}
}

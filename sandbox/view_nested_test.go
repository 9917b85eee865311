//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNestedNamesAreFound(t *testing.T) {
	t.Parallel()
	ws, outside := newWorkspace(t), newWorkspace(t)
	put(t, outside, map[string]string{".env": "x"})
	put(t, ws, map[string]string{
		".env": "root's own are not nested", ".vscode/tasks.json": "{}", "a/.env": "x", "a/b/.env.local": "x", "a/b/.env.example": "",
		"a/b/id_rsa": "x", "a/b/id_rsa.pub": "x", "a/b/server.key": "tests need it", "a/.vscode/tasks.json": "{}", "a/.mcp.json": "{}", "a/.ssh/config": "",
		"node_modules/x/.env": "x", "a/testdata/.env": "x", "repo/.git/hooks/x": "", "repo/.git/config": "", "repo/.git/sub/.env": "",
		".git/modules/m/HEAD": "", ".git/modules/m/hooks/x": "", ".git/modules/m/config": "", ".git/modules/deep/n/HEAD": "",
		".git/modules/deep/n/config": "", ".git/modules/m/modules/o/HEAD": "", ".git/modules/m/modules/o/config": "", ".git/modules/m/objects/config": "",
	})
	require.NoError(t, os.Symlink(outside, filepath.Join(ws, "link")))
	n := &nested{}
	t.Cleanup(n.forget)
	short := func(list []string) (rel []string) {
		for _, p := range list {
			rel = append(rel, strings.TrimPrefix(p, ws+"/"))
		}
		return rel
	}
	look := func() (hidden, protected []string) {
		found := n.find(ws)
		return short(found.hidden), short(found.protected)
	}
	hidden, protected := look()
	assert.ElementsMatch(t, []string{"a/.env", "a/.ssh", "a/b/.env.local", "a/b/id_rsa"}, hidden)
	assert.ElementsMatch(t, []string{"a/.mcp.json", "a/.vscode", "repo/.git/config", "repo/.git/hooks", ".git/modules/m/config", ".git/modules/m/hooks",
		".git/modules/deep/n/config", ".git/modules/m/modules/o/config"}, protected)

	// What changes is met at once, however fast, and also when times are set back.
	past := time.Unix(1e9, 0)
	for i := range 20 {
		name := fmt.Sprintf("a/b/.env.%d", i)
		put(t, ws, map[string]string{name: "x"})
		require.NoError(t, os.Chtimes(filepath.Join(ws, "a/b"), past, past))
		hidden, _ = look()
		assert.Contains(t, hidden, name)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(ws, "a")))
	hidden, _ = look()
	assert.Empty(t, hidden)
	assert.NotContains(t, n.dirs, filepath.Join(ws, "a/b"), "what is gone is forgotten")
}

func TestNestedWalkIsBounded(t *testing.T) {
	t.Parallel()
	ws := newWorkspace(t)
	for i := range maxNestedNames + 20 {
		put(t, ws, map[string]string{fmt.Sprintf("d%d/.env", i): "x", fmt.Sprintf("d%d/.envrc", i): "x"})
	}
	r := newRunner(t)
	found := r.nestedOf(ws).find(ws)
	assert.Len(t, found.hidden, maxNestedNames)
	assert.Len(t, found.protected, maxNestedNames)
	for i := range 2 * maxNested {
		r.nestedOf(fmt.Sprint(ws, i))
	}
	assert.Len(t, r.nested, maxNested)
}

func TestNestedNamesAreGuarded(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	files := map[string]string{"a/b/.env": "canary", "a/.ssh/id": "canary", "a/.vscode/tasks.json": "{}", "repo/.git/hooks/pre-commit": "#!/bin/sh\n",
		"repo/.git/config": "[core]\n", ".git/HEAD": "x", ".git/modules/m/HEAD": "x", ".git/modules/m/config": "[core]\n"}
	put(t, ws, files)
	for _, mode := range []WriteMode{WriteNone, WriteDiscard, WriteTransaction, WriteDirect} {
		res := run(t, r, ws, shell("cat a/b/.env a/.ssh/id; mv a/b a/c; cat a/c/.env", mode))
		assert.NotContains(t, string(res.Stdout.Data), "canary", mode)
		assert.NotEmpty(t, res.Denials, mode)
	}
	put(t, ws, files)
	for _, cmd := range []string{
		"echo evil > repo/.git/hooks/pre-commit", "echo evil > repo/.git/hooks/new", "echo evil >> repo/.git/config", "mv repo/.git repo/gone",
		"mv repo gone", "echo evil > a/.vscode/tasks.json", "mv a gone", "echo evil >> .git/modules/m/config", "mv .git/modules/m .git/modules/n",
	} {
		res := run(t, r, ws, shell(cmd, WriteDirect))
		assert.NotZero(t, res.Exit, cmd)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(ws, name))
		if err == nil || !strings.HasPrefix(name, "a/b/") { // moved to a/c above
			require.NoError(t, err)
			assert.Equal(t, want, string(got), name)
		}
	}
	// One that appears after cells were made ready.
	idle(t, r)
	put(t, ws, map[string]string{"late/.env": "canary"})
	assert.NotContains(t, string(run(t, r, ws, shell("cat late/.env", WriteDirect)).Stdout.Data), "canary")

	// A transaction may change them; what it did is judged.
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("echo evil > a/.vscode/tasks.json", WriteTransaction)}, Terms{Write: WriteTransaction})
	require.NoError(t, err)
	require.Len(t, res.Changes, 1)
	assert.Equal(t, "a/.vscode/tasks.json", res.Changes[0].Path)
	require.NoError(t, r.Drop(res.Tx))
}

// BenchmarkNestedWalk is what a command pays for a workspace of 1,000 folders.
func BenchmarkNestedWalk(b *testing.B) {
	ws := newWorkspace(b)
	for i := range 1000 {
		require.NoError(b, os.MkdirAll(filepath.Join(ws, fmt.Sprintf("d%d/e%d", i/40, i)), 0o755))
	}
	time.Sleep(50 * time.Millisecond)
	n := &nested{}
	b.Cleanup(n.forget)
	n.find(ws)
	for b.Loop() {
		n.find(ws)
	}
}

// TestNestedWithoutWatches is the way of file systems that other machines write
// to, and of users who have no watches left.
func TestNestedWithoutWatches(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		ws := newWorkspace(t)
		put(t, ws, map[string]string{"a/b/f": "x", ".git/HEAD": "x", "r/.git/HEAD": "x"})
		n := &nested{}
		t.Cleanup(n.forget)
		n.find(ws)
		if !watched {
			n.watches.close()
		}
		for i := range 30 {
			name := fmt.Sprintf("a/b/%v-%d/.env", watched, i)
			assert.NotContains(t, n.find(ws).hidden, filepath.Join(ws, name))
			put(t, ws, map[string]string{name: "x"})
			assert.Contains(t, n.find(ws).hidden, filepath.Join(ws, name))
			require.NoError(t, os.Rename(filepath.Join(ws, "a/b"), filepath.Join(ws, "a/c")))
			assert.Contains(t, n.find(ws).hidden, filepath.Join(ws, strings.Replace(name, "a/b", "a/c", 1)), "a folder above was renamed")
			require.NoError(t, os.Rename(filepath.Join(ws, "a/c"), filepath.Join(ws, "a/b")))
		}
		put(t, ws, map[string]string{".git/modules/m/HEAD": "x", ".git/modules/m/config": "x", "r/.git/hooks/x": "x"})
		assert.ElementsMatch(t, []string{filepath.Join(ws, ".git/modules/m/config"), filepath.Join(ws, "r/.git/hooks")}, n.find(ws).protected)
		require.NoError(t, os.Rename(ws, ws+"-old"))
		put(t, ws, map[string]string{"a/b/new/.env": "x"})
		assert.Equal(t, []string{filepath.Join(ws, "a/b/new/.env")}, n.find(ws).hidden, "the workspace was replaced")
	}
}

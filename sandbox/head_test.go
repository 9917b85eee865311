package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A linked worktree counts as one only where its repository knows of it.
func TestReadHeadOfALinkedWorktree(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	main, linked, fake := filepath.Join(dir, "main"), filepath.Join(dir, "linked"), filepath.Join(dir, "fake")
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", main, "-c", "user.name=x", "-c", "user.email=x@example.test"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.Mkdir(main, 0o755))
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "start")
	git("worktree", "add", "-q", "-b", "side", linked)

	h := ReadHead(main)
	assert.Equal(t, "main", h.Branch)
	assert.False(t, h.Worktree)
	assert.Empty(t, h.Main)

	h = ReadHead(linked)
	assert.Equal(t, "side", h.Branch)
	assert.True(t, h.Worktree)
	assert.Equal(t, main, h.Main)
	assert.Len(t, h.Commit, 40)

	// Somebody else's .git file: it leads to a worktree that is registered elsewhere.
	require.NoError(t, os.Mkdir(fake, 0o755))
	link, err := os.ReadFile(filepath.Join(linked, ".git"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(fake, ".git"), link, 0o644))
	h = ReadHead(fake)
	assert.False(t, h.Worktree, "a .git file alone makes no worktree")
	assert.Empty(t, h.Main)

	// Nor does one that brings its own record along.
	own := filepath.Join(dir, "own")
	require.NoError(t, os.MkdirAll(filepath.Join(own, "store", "refs"), 0o755))
	for name, text := range map[string]string{
		".git": "gitdir: store\n", "store/HEAD": "ref: refs/heads/main\n", "store/commondir": ".\n", "store/gitdir": filepath.Join(own, ".git") + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(own, name), []byte(text), 0o644))
	}
	assert.False(t, ReadHead(own).Worktree)

	// A repository whose .git lies elsewhere is no linked worktree either.
	apart := filepath.Join(dir, "apart")
	require.NoError(t, os.Mkdir(apart, 0o755))
	out, err := exec.Command("git", "init", "-q", "-b", "main", "--separate-git-dir", filepath.Join(dir, "store"), apart).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.False(t, ReadHead(apart).Worktree)
}

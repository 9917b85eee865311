package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// Head is where a workspace's git stands. The zero value means no git.
type Head struct {
	Branch string // short name; "" when detached
	Commit string // hex; "" before the first commit
	// Worktree says that this is a linked worktree which its repository knows of
	// (gitrepository-layout(5): worktrees/<id>/gitdir leads back here).
	Worktree bool
	// Main is the main working tree of a linked worktree; "" where there is none.
	Main string
}

// ReadHead reads the workspace's HEAD from its files, without starting git.
// Whatever cannot be read is left empty.
func ReadHead(workspace string) Head {
	dir, common, linked := gitDirs(workspace)
	h := Head{Worktree: linked && dir != common && registered(dir, workspace)}
	if h.Worktree && filepath.Base(common) == ".git" {
		h.Main = filepath.Dir(common)
	}
	head, err := readRegular(filepath.Join(dir, "HEAD"))
	if err != nil {
		return Head{}
	}
	ref, symbolic := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: ")
	if !symbolic {
		h.Commit = ref
		return h
	}
	h.Branch = strings.TrimPrefix(ref, "refs/heads/")
	if strings.Contains(ref, "..") {
		return h
	}
	if b, err := readRegular(filepath.Join(common, filepath.FromSlash(ref))); err == nil {
		h.Commit = strings.TrimSpace(string(b))
	} else {
		h.Commit = packedRef(filepath.Join(common, "packed-refs"), ref)
	}
	return h
}

// registered reports whether a repository's record of a linked worktree leads back
// to the workspace: a .git file alone anybody can write. A record that lies in the
// workspace itself proves nothing: what is in there, the agent may have made.
func registered(dir, workspace string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if rel, err := filepath.Rel(workspace, real); err != nil || filepath.IsLocal(rel) {
		return false
	}
	back, err := readRegular(filepath.Join(dir, "gitdir"))
	if err != nil {
		return false
	}
	there, err := os.Stat(joined(dir, strings.TrimSpace(string(back))))
	if err != nil {
		return false
	}
	here, err := os.Stat(filepath.Join(workspace, ".git"))
	return err == nil && os.SameFile(here, there)
}

// gitDirs are a workspace's git folder, the one it shares with other worktrees of
// its repository, and whether these are two.
func gitDirs(workspace string) (dir, common string, linked bool) {
	dir = filepath.Join(workspace, ".git")
	common = dir
	if link, err := readRegular(dir); err == nil {
		linked = true
		dir = joined(workspace, strings.TrimSpace(strings.TrimPrefix(string(link), "gitdir:")))
		common = dir
		if c, err := readRegular(filepath.Join(dir, "commondir")); err == nil {
			common = joined(dir, strings.TrimSpace(string(c)))
		}
	}
	return dir, common, linked
}

// CommonDir is the folder that holds the objects and refs of a workspace's
// repository; "" where there is none.
func CommonDir(workspace string) string {
	_, common, _ := gitDirs(workspace)
	if i, err := os.Stat(filepath.Join(common, "objects")); err != nil || !i.IsDir() {
		return ""
	}
	return common
}

func joined(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func packedRef(file, ref string) string {
	b, err := readRegular(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if commit, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return commit
		}
	}
	return ""
}

// readRegular reads a small regular file; anything else (a FIFO would block) is
// an error.
func readRegular(path string) ([]byte, error) {
	i, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !i.Mode().IsRegular() || i.Size() > 1<<20 {
		return nil, os.ErrInvalid
	}
	return os.ReadFile(path)
}

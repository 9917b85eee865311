package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sallyport/sandbox"
	"sallyport/tools"
)

// replica is a copy of a repository at a commit, for running recorded calls
// again. Nothing in it is shared with the original, not even by hard links: a
// command may write what it owns.
type replica struct {
	runner *sandbox.Runner
	of     string // the workspace it is a copy of
	root   string
	head   string // the recorded commit it stands for; "" before start
}

// start makes the copy anew, at a commit. What a session had not committed when
// it began is not in it.
func (c *replica) start(ctx context.Context, branch, commit string) error {
	c.head = ""
	if err := os.RemoveAll(c.root); err != nil {
		return err
	}
	if err := os.Mkdir(c.root, 0o755); err != nil {
		return err
	}
	common := sandbox.CommonDir(c.of)
	if common == "" {
		return errors.New("the workspace is no git repository any more")
	}
	if text, err := os.ReadFile(filepath.Join(common, "objects/info/alternates")); err == nil {
		return fmt.Errorf("the repository borrows objects of %s: run `git repack -a` there and remove objects/info/alternates", strings.TrimSpace(string(text)))
	}
	if err := copyRepository(common, filepath.Join(c.root, ".git")); err != nil {
		return err
	}
	if err := own(c.root, c.of); err != nil {
		return err
	}
	args := []string{"checkout", "--quiet", "--force", "-B", branch, commit}
	if branch == "" {
		args = []string{"checkout", "--quiet", "--force", "--detach", commit}
	}
	act, err := tools.Git(c.root, args...)
	if err != nil {
		return err
	}
	act.Exec.Write = sandbox.WriteDirect
	res, err := c.runner.Run(ctx, act, sandbox.Terms{Write: sandbox.WriteDirect})
	if err == nil && res.Exit != 0 {
		err = errors.New(strings.TrimSpace(string(res.Stderr.Data)))
	}
	if err != nil {
		return fmt.Errorf("check out %s: %w", commit, err)
	}
	c.head = commit
	return nil
}

// copyRepository copies what a repository is made of. What belongs to worktrees,
// locks and anything that is neither file, folder nor link stays behind.
func copyRepository(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case rel == "worktrees":
			return fs.SkipDir
		case rel == "index" || strings.HasSuffix(rel, ".lock"):
			return nil
		case d.IsDir():
			return os.Mkdir(dst, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, dst)
		case d.Type().IsRegular():
			return copyFile(path, dst)
		}
		return nil
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, st.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sallyport/sandbox"
	"sallyport/tools"
)

// ownRunner is a runner for a command of the command line, with a state folder
// that goes with it: the daemon's belongs to the daemon.
func ownRunner(least sandbox.Level) (r *sandbox.Runner, done func(), err error) {
	dir, err := os.MkdirTemp("", "sallyport-run-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for the cells: %w", err)
	}
	r, err = sandbox.NewRunner(sandbox.Options{State: filepath.Join(dir, "state"), Warm: -1, MinLevel: least})
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, fmt.Errorf("prepare the sandbox: %w", err)
	}
	return r, func() { r.Close(); os.RemoveAll(dir) }, nil
}

// actor runs actions.
type actor interface {
	Run(ctx context.Context, a sandbox.Action, t sandbox.Terms) (sandbox.Result, error)
}

// gitOutput runs git in a cell that can write nothing.
func gitOutput(ctx context.Context, r actor, root string, args ...string) (string, error) {
	act, err := tools.Git(root, args...)
	if err != nil {
		return "", err
	}
	res, err := r.Run(ctx, act, sandbox.Terms{})
	if err != nil {
		return "", fmt.Errorf("run git %s: %w", args[0], err)
	}
	if res.Exit != 0 {
		return "", fmt.Errorf("run git %s: %s", args[0], strings.TrimSpace(string(res.Stderr.Data)))
	}
	if res.Stdout.Cut() {
		return "", fmt.Errorf("run git %s: it says more than is kept", args[0])
	}
	return string(res.Stdout.Data), nil
}

var errNoRepository = errors.New("no git repository holds it")

// repositoryOf is the innermost git worktree above a path.
func repositoryOf(path string) (string, error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errNoRepository
		}
	}
}

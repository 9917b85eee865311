package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// place is where sallyport keeps its things.
type place struct {
	state  string // log, approvals, sockets; 0700
	config string // config.yaml, policy layers
	wait   patience
}

// placeOf is the place a command works with: --state, else the XDG folders.
func placeOf(cmd *cobra.Command) (place, error) {
	state, _ := cmd.Flags().GetString("state")
	return newPlace(state)
}

func newPlace(state string) (place, error) {
	var err error
	if state == "" {
		state = os.Getenv("SALLYPORT_STATE")
	}
	if state == "" {
		if state, err = xdg("XDG_STATE_HOME", ".local/state"); err != nil {
			return place{}, err
		}
	}
	if state, err = filepath.Abs(state); err != nil {
		return place{}, fmt.Errorf("find the state folder: %w", err)
	}
	config := os.Getenv("SALLYPORT_CONFIG")
	if config == "" {
		if config, err = xdg("XDG_CONFIG_HOME", ".config"); err != nil {
			return place{}, err
		}
	}
	return place{state: state, config: config}, nil
}

func xdg(name, otherwise string) (string, error) {
	base := os.Getenv(name)
	if !filepath.IsAbs(base) { // the XDG specification says to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a home for sallyport's files: %w (set %s)", err, name)
		}
		base = filepath.Join(home, otherwise)
	}
	return filepath.Join(base, "sallyport"), nil
}

func (p place) log() string         { return filepath.Join(p.state, "audit") }
func (p place) desk() string        { return filepath.Join(p.state, "approvals.db") }
func (p place) agentSock() string   { return filepath.Join(p.state, "agent.sock") }
func (p place) controlSock() string { return filepath.Join(p.state, "control.sock") }
func (p place) daemonLog() string   { return filepath.Join(p.state, "daemon.log") }

// make creates the state folder for its owner alone.
func (p place) make() error {
	if err := os.MkdirAll(p.state, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	i, err := os.Stat(p.state)
	if err != nil {
		return fmt.Errorf("look at the state folder: %w", err)
	}
	if i.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the state folder %s can be read by others: chmod 700 it", p.state)
	}
	return nil
}

// workspace resolves where an agent works: the flag, else the host's project
// folder, else the current directory.
func workspace(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = os.Getenv("CLAUDE_PROJECT_DIR")
	}
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("find the current directory: %w", err)
		}
		dir = wd
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the workspace: %w", err)
	}
	return abs, nil
}

// checkWorkspace resolves symlinks and refuses a workspace so wide that
// guarding it would mean nothing.
func (p place) checkWorkspace(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("workspace %q is not an absolute path", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("open the workspace: %w", err)
	}
	if i, err := os.Stat(real); err != nil || !i.IsDir() {
		return "", fmt.Errorf("workspace %s is not a directory", real)
	}
	state, err := filepath.EvalSymlinks(p.state)
	if err != nil {
		return "", fmt.Errorf("find the state folder: %w", err)
	}
	if real == "/" || within(state, real) || within(real, state) {
		return "", fmt.Errorf("workspace %s holds sallyport's own state: start the agent in a project folder, or name one with --workspace", real)
	}
	if home, err := os.UserHomeDir(); err == nil && within(home, real) {
		return "", errors.New("the workspace is your whole home folder: start the agent in a project folder, or name one with --workspace")
	}
	return real, nil
}

// within reports whether path is dir or lies beneath it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// absPath is a path that means the same in the daemon.
func absPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// rung is one step of the degrade ladder: the namespaces a cell gets.
type rung struct {
	flags uintptr
	// why is what went wrong on the rung above.
	why string
}

const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// ladder lists the rungs, strongest first: everything; without a network
// namespace, with sockets refused by seccomp instead; as root without a user
// namespace; and Landlock, seccomp and rlimits alone.
func ladder() []uintptr {
	rungs := []uintptr{allNamespaces, allNamespaces &^ unix.CLONE_NEWNET}
	if os.Geteuid() == 0 {
		rungs = append(rungs, allNamespaces&^unix.CLONE_NEWUSER)
	}
	return append(rungs, 0)
}

// absent are the answers that mean a wall cannot be had on this machine. Any
// other failure may pass, and must not weaken the cells that follow.
var absentErrnos = []syscall.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.ENOSPC, unix.EUSERS}

// climb gives a cell on the strongest rung that holds, and stays on it.
func (r *Runner) climb(ctx context.Context, s *starter, p plan) (*cage, error) {
	r.mu.Lock()
	known := r.rung
	r.mu.Unlock()
	if known != nil {
		return r.raise(ctx, s, p, *known)
	}
	g := rung{}
	var first, err error
	for _, g.flags = range ladder() {
		var c *cage
		if c, err = r.raise(ctx, s, p, g); err == nil {
			r.mu.Lock()
			r.rung = &g
			r.mu.Unlock()
			return c, nil
		}
		var raise *errRaise
		if !errors.As(err, &raise) || raise.wall == cell.WriteLayer || !slices.Contains(absentErrnos, raise.errno) {
			return nil, err
		}
		if first == nil {
			first = err
		}
		g.why = err.Error()
	}
	return nil, first
}

// fitted is a plan's spec made one for a rung.
type fitted struct {
	spec  cell.Spec
	layer string            // id of the write layer, "" without
	moved map[string]string // the cell's own places that lie elsewhere
	undo  func()            // removes what was made for the rung
	open  bool              // there is no private root
}

// fit makes a plan's spec one for this rung. Without a mount namespace there
// is no private root: the cell gets a scratch folder for its own places, sees
// the machine's through Landlock, and may write nothing of the workspace,
// because Landlock cannot take protected paths out of a writable folder. A
// command whose writes would be thrown away runs all the same, and finds the
// workspace read-only.
func (r *Runner) fit(p plan, g rung) (fitted, error) {
	f := fitted{spec: p.spec, undo: func() {}}
	f.spec.Flags = g.flags
	f.spec.Rlimits = slices.Clone(f.spec.Rlimits)
	if g.flags&unix.CLONE_NEWNET == 0 && f.spec.Proxy {
		return f, wallsError("allow network to the command: a network namespace is missing", errors.New(g.why), machineRemedy())
	}
	if g.flags&unix.CLONE_NEWNS == 0 {
		return f, g.open(p, &f)
	}
	if p.spec.View.Layer != nil {
		id, upper, work, err := r.store().create(p.workspace)
		if err != nil {
			return f, err
		}
		f.layer, f.spec.View.Layer = id, &cell.Layer{Upper: upper, Work: work}
	}
	return f, nil
}

// open fits a cell without a private root.
func (g rung) open(p plan, f *fitted) error {
	if p.write > WriteDiscard {
		return wallsError(fmt.Sprintf("run with writes (%s): a mount namespace is missing", p.write), errors.New(g.why), machineRemedy())
	}
	v := p.spec.View
	v.Layer, v.Writable, v.Pinned, v.Protected = nil, false, nil, nil
	dir, moved, err := scratch(p.owner)
	if err != nil {
		return &Error{Kind: KindIO, Msg: "prepare the cell", Err: err, Remedy: "check the free space of " + os.TempDir()}
	}
	v.Tmpfs, v.Links = nil, nil
	v.Binds = slices.DeleteFunc(slices.Clone(v.Binds), func(b cell.Bind) bool { return b.Writable || b.To != "" })
	v.Binds = append(v.Binds, cell.Bind{From: dir, Writable: true})
	for _, name := range append([]string{"passwd", "group", "nsswitch.conf", "hosts"}, etcFiles...) {
		v.Binds = append(v.Binds, cell.Bind{From: "/etc/" + name, Optional: true})
	}
	f.open = true
	f.spec.View, f.moved, f.undo = v, moved, func() { _ = os.RemoveAll(dir) }
	return nil
}

// scratch is a cell's own place on a machine without private roots.
func scratch(own owner) (dir string, moved map[string]string, err error) {
	if dir, err = os.MkdirTemp("", "sallyport-cell-"); err != nil {
		return "", nil, err
	}
	moved = map[string]string{
		"/tmp": filepath.Join(dir, "tmp"), cellHome: filepath.Join(dir, "home"),
		cellCache: filepath.Join(dir, "cache"), gitConfig: filepath.Join(dir, "gitconfig"),
	}
	for _, from := range []string{"/tmp", cellHome, cellCache} {
		err = errors.Join(err, os.Mkdir(moved[from], 0o700), own.give(moved[from]))
	}
	err = errors.Join(err, os.WriteFile(moved[gitConfig], []byte(findGitIdentity().file().Data), 0o644), own.give(dir))
	return dir, moved, err
}

// relocate rewrites the cell's own places in an environment.
func relocate(env []string, moved map[string]string) []string {
	if len(moved) == 0 {
		return env
	}
	out := make([]string, len(env))
	for i, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		for from, to := range moved {
			if v == from || strings.HasPrefix(v, from+"/") {
				v = to + v[len(from):]
				break
			}
		}
		out[i] = k + "=" + v
	}
	return out
}

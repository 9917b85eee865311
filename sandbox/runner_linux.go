package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sallyport/sandbox/cell"
)

// Runner runs Actions. It is safe for concurrent use.
type Runner struct {
	opts   Options
	tools  func() toolchains
	groups func() (groups, error)
	people func() gitIdentity

	mu      sync.Mutex
	starter *starter
	rung    *rung
	filters map[filterKind][]*os.File
	bases   map[owner]baseView
	caches  map[string]owner // folders made and given
	nested  map[string]*nested
	envs    map[bool]environs // by whether there is network
	pool    *pool
	blanks  blanks
	closed  bool

	work sync.WaitGroup // cells being taken apart
}

// NewRunner prepares the state folder, which belongs to one Runner at a time:
// what a dead one's commands wrote and nobody landed is removed, in the
// background. It starts no process; the first command does.
func NewRunner(o Options) (*Runner, error) {
	if !filepath.IsAbs(o.State) {
		return nil, fmt.Errorf("open the sandbox: the state folder %q is not an absolute path", o.State)
	}
	if o.MinLevel == "" {
		o.MinLevel = LevelMinimal
	}
	if o.MinLevel.rank() < 0 {
		return nil, fmt.Errorf("open the sandbox: no level is named %q; use full, reduced or minimal", o.MinLevel)
	}
	for _, dir := range []string{o.State, filepath.Join(o.State, "cache"), filepath.Join(o.State, "tx")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open the sandbox: %w", err)
		}
	}
	gone, err := (txStore{filepath.Join(o.State, "tx")}).forget()
	if err != nil {
		return nil, fmt.Errorf("open the sandbox: %w", err)
	}
	if o.CellBinary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find sallyport-cell: %w", err)
		}
		o.CellBinary = filepath.Join(filepath.Dir(self), "sallyport-cell")
	}
	r := &Runner{
		opts:    o,
		tools:   sync.OnceValue(func() toolchains { return findToolchains(homeDir(), os.Getenv) }),
		people:  sync.OnceValue(findGitIdentity),
		filters: map[filterKind][]*os.File{},
		bases:   map[owner]baseView{},
		caches:  map[string]owner{},
		nested:  map[string]*nested{},
		envs:    map[bool]environs{},
		pool:    newPool(o.Warm),
		blanks:  blanks{keep: blanksFor(o.Warm)},
	}
	r.groups = sync.OnceValues(func() (groups, error) {
		gs, err := findGroups()
		if err == nil {
			r.background(func() { sweepTrees(gs.roots()) })
		}
		return gs, err
	})
	r.background(func() {
		for _, dir := range gone {
			_ = removeTree(dir) // what stays is removed at the next start
		}
	})
	return r, nil
}

func homeDir() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Clean(home)
}

// Run carries an Action out under a decision's terms: the file operations in
// order, then the program in a cell. A program that exits non-zero is a Result,
// not an error; every error is an *Error, and Result then tells how far it came.
func (r *Runner) Run(ctx context.Context, a Action, t Terms) (Result, error) {
	var res Result
	start := time.Now()
	left, err := r.files(ctx, a, t, &res)
	if err != nil {
		return res, err
	}
	if a.Exec == nil {
		res.Took = time.Since(start)
		return res, nil
	}
	t.Expect = left
	err = r.exec(ctx, a.Workspace, narrow(*a.Exec, t), t, &res)
	res.Took = time.Since(start)
	return res, err
}

// exec runs one narrowed Exec.
func (r *Runner) exec(ctx context.Context, workspace string, e Exec, t Terms, res *Result) error {
	if err := checkExec(workspace, e); err != nil {
		return err
	}
	p, err := r.plan(workspace, e, t)
	if err != nil {
		return err
	}
	c, dead := r.pool.take(p)
	for _, d := range dead {
		r.release(d, true)
	}
	if c == nil {
		if c, err = r.cage(ctx, p); err != nil {
			return runError(ctx, err)
		}
	}
	defer r.refill(p)
	defer func() { r.release(c, res.Tx == "") }()
	res.Walls, res.Level = c.walls, levelOf(c.walls)
	if res.Level.rank() < r.opts.MinLevel.rank() {
		return wallsError(fmt.Sprintf("run %s: this machine reaches level %s, %s is required", e.Args()[0], res.Level, r.opts.MinLevel),
			nil, "run `sallyport doctor` to see which walls are missing, or lower sandbox.min_level")
	}
	if c.open {
		p.write, p.open = WriteNone, true
	}
	if c.layer != "" { // a ready cell's layer is older than the run
		if err := r.store().begin(c.layer, workspace, t.Expect); err != nil {
			return err
		}
		p.command.layer = filepath.Join(r.opts.State, "tx", c.layer, "upper")
	}
	stop, err := c.serveNet(e.Net, res)
	if err != nil {
		return runError(ctx, err)
	}
	o, err := c.do(ctx, p.command)
	stop()
	if p.write == WriteDirect { // also when the run was cut short
		res.Denials = append(res.Denials, holdNew(p.workspace, p.protected, p.terms)...)
	}
	if err != nil {
		return runError(ctx, err)
	}
	return r.report(c, p, o, res)
}

// release takes a cell apart off the caller's path, and its write layer unless
// that holds something pending.
func (r *Runner) release(c *cage, layerToo bool) {
	apart := func() {
		_ = c.close() // a control group that stays is swept at the next start
		if layerToo && c.layer != "" {
			_ = r.Drop(c.layer) // what stays is swept at the next start
		}
	}
	if !r.background(apart) {
		apart()
	}
}

// background runs f on its own; Close waits for it. After Close it says no.
func (r *Runner) background(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		f()
	}()
	return true
}

// cage gives a cell with the plan's walls.
func (r *Runner) cage(ctx context.Context, p plan) (*cage, error) {
	// Before the starter: in cgroup v2 a group that hands controllers on must
	// be empty, and so whatever was started earlier would have to be moved.
	_, _ = r.groups()
	s, err := r.start()
	if err != nil {
		return nil, wallsError("start the sandbox", err, "install sallyport-cell beside sallyport")
	}
	c, err := r.climb(ctx, s, p)
	var raise *errRaise
	switch {
	case errors.As(err, &raise) && raise.errno == syscall.ENOTSUP:
		return nil, wallsError("raise the walls around the command", err,
			"sallyport-cell is linked with cgo, whose threads it cannot confine: build it with CGO_ENABLED=0, as `make build` does")
	case errors.As(err, &raise) && raise.wall == cell.WriteLayer:
		return nil, wallsError(fmt.Sprintf("lay the write layer that %s writes need", p.write), err,
			"use a state folder on a file system that overlayfs can write to (ext4, xfs, btrfs), on Linux 5.11 or newer")
	case errors.As(err, &raise):
		return nil, wallsError("raise the walls around the command", err, machineRemedy())
	}
	return c, err
}

// raise opens one cell on a rung, from a blank where there is one.
func (r *Runner) raise(ctx context.Context, s *starter, p plan, g rung) (*cage, error) {
	f, err := r.fit(p, g)
	if err != nil {
		return nil, err
	}
	filters, err := r.filter(filterKind{profile: p.profile, closed: g.flags&syscall.CLONE_NEWNET == 0})
	if err != nil {
		f.undo()
		return nil, wallsError("compile the seccomp filter", err, "build sallyport with cgo and libseccomp")
	}
	_, gerr := r.groups()
	if gerr != nil {
		f.spec.Rlimits = append(f.spec.Rlimits, fallbackLimits(p.limits)...)
	}
	c, err := r.told(ctx, s, p, g, f.spec, filters)
	if err != nil {
		f.undo()
		return nil, err
	}
	c.moved, c.undo, c.layer, c.open = f.moved, f.undo, f.layer, f.open
	if err := c.ready(ctx); err != nil {
		r.release(c, true)
		var raise *errRaise
		if c.blank && errors.As(err, &raise) && raise.errno == syscall.ESTALE {
			for _, old := range r.blanks.empty(false) {
				r.release(old, false)
			}
			return r.raise(ctx, s, p, g)
		}
		return nil, err
	}
	if !f.spec.Warm { // the rung holds
		r.refillBlanks(s, blankFor(p, g))
	}
	c.walls = append(c.walls, cgroupWall(gerr))
	for i := range c.walls {
		if w := &c.walls[i]; !w.Up && g.why != "" && w.Name != "cgroup" {
			w.Reason = g.why
		}
	}
	return c, nil
}

// told gives a cell that has its spec. A blank whose mounts are older than the
// workspace's is found out by itself: see cell.Spec.Ino.
func (r *Runner) told(ctx context.Context, s *starter, p plan, g rung, spec cell.Spec, filters []*os.File) (*cage, error) {
	k := blankFor(p, g)
	if !spec.Warm { // a warm one is made off the path and takes no blank
		c, stale := r.blanks.take(k)
		for _, old := range stale {
			r.release(old, false)
		}
		if c != nil {
			// One of an earlier starter would not end with this one.
			if c.from == s && tell(c.conn, spec, filters) == nil {
				c.blank = true
				return c, nil
			}
			r.release(c, false)
		}
	}
	grp, err := r.group(p.limits)
	if _, none := r.groups(); err != nil && none == nil { // it can be had, only not now
		return nil, err
	}
	c, err := s.openCage(ctx, spec, filters, grp)
	if err != nil && grp != nil {
		_ = grp.remove()
	}
	return c, err
}

func cgroupWall(err error) Wall {
	w := Wall{Name: "cgroup", Up: err == nil}
	if err != nil {
		w.Reason = err.Error() + "; rlimits stand in for it"
	}
	return w
}

func (r *Runner) group(l Limits) (group, error) {
	gs, err := r.groups()
	if err != nil {
		return nil, err
	}
	return gs.make(groupName(), l)
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (r *Runner) start() (*starter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the sandbox is closed")
	}
	if r.starter != nil {
		select {
		case <-r.starter.done:
			r.starter.conn.Close()
			r.starter = nil
		default:
			return r.starter, nil
		}
	}
	s, err := startStarter(r.opts.CellBinary)
	if err != nil {
		return nil, err
	}
	r.starter = s
	return s, nil
}

func (r *Runner) filter(k filterKind) ([]*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.filters[k]; f != nil {
		return f, nil
	}
	f, err := compileFilter(k)
	if err == nil {
		r.filters[k] = f
	}
	return f, err
}

// Close ends every cell and waits until nothing of the sandbox is left.
func (r *Runner) Close() error {
	r.mu.Lock()
	s := r.starter
	r.closed, r.starter = true, nil
	r.mu.Unlock()
	for _, c := range append(r.pool.close(), r.blanks.empty(true)...) {
		r.release(c, true)
	}
	if s != nil {
		s.close()
	}
	r.work.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nested {
		n.forget()
	}
	for _, files := range r.filters {
		for _, f := range files {
			f.Close()
		}
	}
	r.filters = nil
	return nil
}

// levelOf derives the level from the walls.
func levelOf(walls []Wall) Level {
	level := LevelFull
	for _, w := range walls {
		switch {
		case !w.Up && w.Name == "mount namespace":
			return LevelMinimal
		case !w.Up:
			level = LevelReduced
		}
	}
	return level
}

// runError types an error for the caller.
func runError(ctx context.Context, err error) error {
	var typed *Error
	switch {
	case errors.As(err, &typed):
		return err
	case ctx.Err() != nil:
		return &Error{Kind: KindCanceled, Msg: "the call was cancelled and its processes are gone", Err: ctx.Err(),
			Remedy: "repeat the call if it is still wanted"}
	default:
		return &Error{Kind: KindIO, Msg: "run the command", Err: err, Remedy: "try again; if it persists run `sallyport doctor`"}
	}
}

// cacheRoot is the one folder of a workspace's caches, owned by its owner.
func (r *Runner) cacheRoot(workspace string, own owner) (string, error) {
	dir := filepath.Join(r.opts.State, "cache", digest(workspace))
	r.mu.Lock()
	known := r.caches[dir] == own
	r.mu.Unlock()
	if known && isDir(dir) {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make the workspace's cache: %w", err)
	}
	if err := own.give(dir); err != nil {
		return "", fmt.Errorf("make the workspace's cache: %w", err)
	}
	r.mu.Lock()
	r.caches[dir] = own
	r.mu.Unlock()
	return dir, nil
}

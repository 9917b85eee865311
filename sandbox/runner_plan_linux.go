package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// plan is one command made ready for a cell.
type plan struct {
	spec      cell.Spec // without the rung's part and the write layer
	profile   string
	limits    Limits
	command   command
	workspace string
	write     WriteMode
	open      bool // found a cell without a private root
	owner     owner
	terms     Terms
	protected []string // absolute, those that exist
	// slot names the cells that could run it, key the very walls it needs.
	slot, key string
}

// plan turns a narrowed Exec into what a cell must know.
func (r *Runner) plan(workspace string, e Exec, t Terms) (plan, error) {
	p := plan{workspace: workspace, write: e.Write, terms: t, limits: t.Limits.orDefault(), profile: cmp.Or(t.Profile, e.Profile)}
	if p.profile == "" {
		p.profile = profileDefault
	}
	if !slices.Contains([]string{profileDefault, profileStrict, profileDebug, profileNoDelete}, p.profile) {
		return p, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("no seccomp profile is named %q", p.profile),
			Remedy: "use default, strict, debug or no-delete"}
	}
	if e.Timeout > 0 && (t.Limits.Wall <= 0 || e.Timeout < t.Limits.Wall) { // a decision's limit is a bound, the default is not
		p.limits.Wall = e.Timeout
	}
	own, st, err := ownerOf(workspace)
	if err != nil {
		return p, err
	}
	if err := checkWorkspace(workspace, r.opts.State); err != nil {
		return p, err
	}
	base, err := r.base(own)
	if err != nil {
		return p, &Error{Kind: KindIO, Msg: "prepare the cell", Err: err, Remedy: "check the state folder's owner and free space"}
	}
	cache, err := r.cacheRoot(workspace, own)
	if err != nil {
		return p, &Error{Kind: KindIO, Msg: "prepare the cell", Err: err, Remedy: "check the state folder's owner and free space"}
	}
	v, prints := r.view(base, workspace, e, t)
	v.Binds = append(slices.Clip(v.Binds), cell.Bind{From: cache, To: cellCache, Writable: true})
	v.Tmpfs = []cell.Tmp{
		{Path: "/tmp", Size: size(p.limits.Disk), Mode: 0o1777},
		{Path: "/dev/shm", Size: size(p.limits.Memory / 2), Mode: 0o1777},
		{Path: cellHome, Size: size(p.limits.Disk), Mode: 0o700},
	}
	p.owner = own
	p.protected = v.Protected
	if !v.Writable {
		v.Protected, v.Pinned = nil, nil
	}
	p.spec = cell.Spec{
		UID: own.uid, GID: own.gid, Dev: st.Dev, Ino: st.Ino, Become: os.Geteuid() == 0, Hostname: cellHost, View: v,
		Rlimits: baseLimits(p.limits), Proxy: len(e.Net) > 0,
	}
	env := r.environ(len(e.Net) > 0)
	p.spec.Env = env.list
	p.name(t, fmt.Sprintf("%o", st.Mode), prints)
	p.command = command{
		run: cell.Run{Argv: e.Args(), Env: env.list, Dir: filepath.Join(workspace, e.Dir),
			Expect: beneath(workspace, t.Expect, v.Hidden)},
		plain: len(e.Env) == 0, stdin: e.Stdin, limits: p.limits,
	}
	if len(e.Env) > 0 {
		p.command.run.Env = assignments(env.vars, e.Env)
	}
	return p, nil
}

// beneath gives what is expected of the files that the cell shows, by their
// absolute paths.
func beneath(workspace string, expect map[string]string, hidden []string) map[string]string {
	if len(expect) == 0 {
		return nil
	}
	out := make(map[string]string, len(expect))
	for p, sum := range expect {
		if p = filepath.Join(workspace, p); !covered(p, hidden) {
			out[p] = sum
		}
	}
	return out
}

// environs is the cells' own environment, made once.
type environs struct {
	vars map[string]string
	list []string
}

func (r *Runner) environ(net bool) environs {
	r.mu.Lock()
	defer r.mu.Unlock()
	env, ok := r.envs[net]
	if !ok {
		vars := environment(r.tools(), net)
		env = environs{vars, assignments(vars, nil)}
		r.envs[net] = env
	}
	return env
}

// view adds the workspace and its guards to the base, and gives fingerprints
// of the guarded paths: one that was replaced on the host has lost its mount
// in every cell made before.
func (r *Runner) view(base cell.View, workspace string, e Exec, t Terms) (v cell.View, prints string) {
	v = base
	v.Workspace = workspace
	v.Writable = e.Write != WriteNone
	if e.Write == WriteTransaction || e.Write == WriteDiscard {
		v.Layer = &cell.Layer{} // filled in when the cell is made
	}
	inside := r.nestedOf(workspace).find(workspace)
	if e.Write != WriteDirect {
		inside.protected = nil
	}
	v.Protected, v.Hidden, prints = guards(workspace, t, inside)
	showWorktree(&v)
	v.Pinned = pins(workspace, v.Protected)
	return v, prints
}

// base is the view that all workspaces of one owner share.
func (r *Runner) base(own owner) (cell.View, error) {
	st, err := os.Stat("/etc/ld.so.cache")
	stamp := time.Time{}
	if err == nil {
		stamp = st.ModTime()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.bases[own]; ok && b.stamp.Equal(stamp) {
		return b.view, nil
	}
	etc := filepath.Join(r.opts.State, "etc", fmt.Sprintf("%d-%d", own.uid, own.gid))
	if err := prepareEtc(etc, own, r.people()); err != nil {
		return cell.View{}, fmt.Errorf("make the cell's /etc: %w", err)
	}
	b := baseView{view: systemView(r.tools(), etc), stamp: stamp}
	r.bases[own] = b
	return b.view, nil
}

// baseView is remembered until packages were installed, which the loader's
// cache tells.
type baseView struct {
	view  cell.View
	stamp time.Time
}

// name derives the pool's names for the plan.
func (p *plan) name(t Terms, mode, prints string) {
	l := p.limits
	l.Wall, l.Output = 0, 0 // these two the daemon holds, not the cell
	p.slot = digest(fmt.Sprint(p.workspace, p.profile, p.write, l, p.spec.Proxy, t.Protected, t.Hidden))
	spec, err := json.Marshal(p.spec)
	if err != nil {
		spec = nil // a Spec holds nothing that cannot be written
	}
	p.key = digest(mode + prints + string(spec))
}

// size bounds a tmpfs; without a limit it gets the kernel's habit of half of
// memory by asking for nothing smaller than 1 GiB.
func size(n int64) int64 {
	if n <= 0 {
		return 1 << 30
	}
	return n
}

// checkWorkspace refuses folders that must never be writable or whole in a cell.
func checkWorkspace(workspace, state string) error {
	wide := []string{"/", "/home", "/root", "/tmp", "/var", "/opt", "/mnt", "/srv", "/run", homeDir()}
	if slices.Contains(wide, workspace) || covered(workspace, append([]string{"/etc", "/proc", "/sys", "/dev", "/run"}, systemDirs...)) {
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("the workspace %s holds more than a project", workspace),
			Remedy: "use the project's own folder"}
	}
	if under(workspace, state) || under(state, workspace) {
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("the workspace %s and sallyport's state %s lie in each other", workspace, state),
			Remedy: "move the state folder out of the workspace"}
	}
	return nil
}

// owner is who a cell runs as: the workspace's owner where the daemon is root,
// the daemon's own user otherwise.
type owner struct{ uid, gid int }

// A path with a symbolic link in it
// is refused.
func ownerOf(workspace string) (own owner, st unix.Stat_t, err error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, workspace, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
	}
	if errors.Is(err, unix.ELOOP) {
		if real, rerr := filepath.EvalSymlinks(workspace); rerr == nil {
			return owner{}, st, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("the workspace %s is a link to %s", workspace, real), Remedy: "use " + real}
		}
	}
	if err != nil {
		return owner{}, st, &Error{Kind: KindMissing, Msg: "open the workspace " + workspace, Err: err, Remedy: "name an existing folder"}
	}
	if os.Geteuid() != 0 {
		return owner{os.Geteuid(), os.Getegid()}, st, nil
	}
	return owner{int(st.Uid), int(st.Gid)}, st, nil
}

func (o owner) give(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// baseLimits hold in every cell.
func baseLimits(l Limits) []cell.Rlimit {
	limits := []cell.Rlimit{
		{Resource: unix.RLIMIT_CORE, Value: 0},
		{Resource: unix.RLIMIT_NOFILE, Value: 65536},
	}
	if l.File > 0 {
		limits = append(limits, cell.Rlimit{Resource: unix.RLIMIT_FSIZE, Value: uint64(l.File)})
	}
	return limits
}

// fallbackLimits stand in for control groups. RLIMIT_DATA, not RLIMIT_AS:
// Go, Node and sanitizers reserve far more address space than they use.
func fallbackLimits(l Limits) []cell.Rlimit {
	var limits []cell.Rlimit
	if l.Memory > 0 {
		limits = append(limits, cell.Rlimit{Resource: unix.RLIMIT_DATA, Value: uint64(l.Memory)})
	}
	if l.Pids > 0 {
		limits = append(limits, cell.Rlimit{Resource: unix.RLIMIT_NPROC, Value: uint64(l.Pids + shimThreads)})
	}
	return limits
}

// gitIdentity is who commits made in a cell are by: the daemon's user.
type gitIdentity struct{ name, email string }

func findGitIdentity() gitIdentity {
	ask := func(key string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, "git", "config", "--global", "--get", key).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	id := gitIdentity{ask("user.name"), ask("user.email")}
	if id.name == "" {
		id.name = "sallyport"
	}
	if id.email == "" {
		id.email = "sallyport@localhost"
	}
	return id
}

// file is the git configuration of a cell. Every directory is safe there: the
// cell holds only what it was given.
func (g gitIdentity) file() cell.File {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(s) + `"`
	}
	return cell.File{Path: gitConfig, Data: "[user]\n\tname = " + quote(g.name) + "\n\temail = " + quote(g.email) +
		"\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[core]\n\tpager = cat\n[gc]\n\tauto = 0\n"}
}

// gitConfig is where git finds it in a cell (GIT_CONFIG_GLOBAL).
const gitConfig = "/etc/sallyport.gitconfig"

package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// plan is one command made ready for a cell.
type plan struct {
	spec      cell.Spec
	profile   string
	limits    Limits
	command   command
	workspace string
	write     WriteMode
	layerID   string
	protected []string // absolute; also those that do not exist
}

// plan turns a narrowed Exec into what a cell must know.
func (r *Runner) plan(workspace string, e Exec, t Terms) (plan, error) {
	p := plan{workspace: workspace, write: e.Write, limits: t.Limits.orDefault(), profile: t.Profile}
	if p.profile == "" {
		p.profile = profileDefault
	}
	if !slices.Contains([]string{profileDefault, profileStrict, profileDebug, profileNoDelete}, p.profile) {
		return p, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("no seccomp profile is named %q", p.profile),
			Remedy: "use default, strict, debug or no-delete"}
	}
	if e.Timeout > 0 && (p.limits.Wall < 0 || e.Timeout < p.limits.Wall) {
		p.limits.Wall = e.Timeout
	}
	own, err := ownerOf(workspace)
	if err != nil {
		return p, err
	}
	if err := checkWorkspace(workspace, r.opts.State); err != nil {
		return p, err
	}
	cache, err := r.cacheRoot(workspace, own)
	if err != nil {
		return p, &Error{Kind: KindIO, Msg: "prepare the cell", Err: err, Remedy: "check the state folder's owner and free space"}
	}
	tools := r.tools()
	v := systemView(tools)
	v.Workspace = workspace
	v.Writable = e.Write != WriteNone
	v.Binds = append(v.Binds, cell.Bind{From: cache, To: cellCache, Writable: true})
	v.Files = append(people(own.uid, own.gid), r.people().file())
	v.Tmpfs = []cell.Tmp{
		{Path: "/tmp", Size: size(p.limits.Disk), Mode: 0o1777},
		{Path: "/dev/shm", Size: size(p.limits.Memory / 2), Mode: 0o1777},
		{Path: cellHome, Size: size(p.limits.Disk), Mode: 0o700},
	}
	if e.Write == WriteTransaction || e.Write == WriteDiscard {
		v.Layer = &cell.Layer{}
		if p.layerID, v.Layer.Upper, v.Layer.Work, err = r.store().create(workspace); err != nil {
			return p, err
		}
	}
	p.protected, v.Hidden = guards(workspace, t)
	if v.Writable {
		v.Protected = p.protected
	}
	showWorktree(&v)
	v.Pinned = pins(workspace, v.Protected)
	p.spec = cell.Spec{
		UID: own.uid, GID: own.gid, Become: os.Geteuid() == 0, Hostname: cellHost, View: v,
		Rlimits: baseLimits(p.limits), Proxy: len(e.Net) > 0,
	}
	p.command = command{
		run: cell.Run{Argv: e.Args(), Env: environment(tools, len(e.Net) > 0, e.Env),
			Dir: filepath.Join(workspace, e.Dir)},
		stdin: e.Stdin, limits: p.limits,
	}
	return p, nil
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
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return &Error{Kind: KindMissing, Msg: "open the workspace " + workspace, Err: err, Remedy: "name an existing folder"}
	}
	if real != workspace {
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("the workspace %s is a link to %s", workspace, real), Remedy: "use " + real}
	}
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

func ownerOf(workspace string) (owner, error) {
	if os.Geteuid() != 0 {
		return owner{os.Geteuid(), os.Getegid()}, nil
	}
	st, err := os.Stat(workspace)
	if err != nil {
		return owner{}, &Error{Kind: KindMissing, Msg: "open the workspace", Err: err, Remedy: "name an existing folder"}
	}
	sys := st.Sys().(*syscall.Stat_t)
	return owner{int(sys.Uid), int(sys.Gid)}, nil
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

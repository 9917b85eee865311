//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bait is what lies outside of the cell for probes to reach for. The test makes
// it, tells the probes where it is, and looks afterwards whether it changed.
type bait struct {
	Workspace string // the cell's own
	Layered   bool   // its writes are judged before they land
	Outside   string // a folder with "secret", "exec", "sub/f"
	State     string // sallyport's state, with "secret"
	Home      []string
	Pid       int    // a process that must stay alive and as it is
	TCP4      string // listeners on the host's loopback
	TCP6      string
	UDP4      string
	Unix      string // socket in Outside
	Abstract  string
	ShmID     int // System V segment
	ShmFile   string
	Hostname  string
}

// probe tries one way out. A nil error means that it worked; the answers in
// reached mean that the kernel took the call and only disliked the arguments.
type probe struct {
	class, name string
	try         func(b bait) error
}

// reached are the errors of a call that was let through with senseless
// arguments.
var reached = []error{unix.EFAULT, unix.EINVAL, unix.EBADF, unix.EOPNOTSUPP, unix.EBADFD}

// call makes a raw system call and gives its error.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// unknown is a call whose EINVAL says "no such thing here".
func unknown(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return errors.New("no such thing here")
	}
	return err
}

func cstr(s string) uintptr {
	p, _ := unix.BytePtrFromString(s)
	keep = append(keep, p)
	return uintptr(unsafe.Pointer(p))
}

// keep holds what raw calls point to.
var keep []*byte

func read(p string) error {
	_, err := os.ReadFile(p)
	return err
}

func openWrite(p string) error {
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func create(p string) error {
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		f.Close()
	}
	return err
}

func list(p string) error {
	e, err := os.ReadDir(p)
	if err == nil && len(e) == 0 {
		return errors.New("empty")
	}
	return err
}

func fails(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.100s", err, out)
	}
	return nil
}

func dial(network, addr string) error {
	c, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if strings.HasPrefix(network, "udp") {
		if _, err := c.Write([]byte("out")); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, err = c.Read(make([]byte, 8)) // the host's listener answers
		return err
	}
	return nil
}

func socket(domain, typ, proto int) func(bait) error {
	return func(bait) error {
		fd, err := unix.Socket(domain, typ, proto)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func syscallProbe(nr uintptr, args ...uintptr) func(bait) error {
	return func(bait) error { return call(nr, args...) }
}

// ws and out are probes with a path of the workspace or of the outside.
func ws(f func(string) error, rel string) func(bait) error {
	return func(b bait) error { return f(filepath.Join(b.Workspace, rel)) }
}

func out(f func(string) error, rel string) func(bait) error {
	return func(b bait) error { return f(filepath.Join(b.Outside, rel)) }
}

func at(f func(string) error, p string) func(bait) error {
	return func(bait) error { return f(p) }
}

// landing is a probe of what a write layer may take, because it is judged
// before it lands.
func landing(f func(string) error, rel string) func(bait) error {
	return func(b bait) error {
		if b.Layered {
			return errors.New("judged before it lands")
		}
		return f(filepath.Join(b.Workspace, rel))
	}
}

func viaLink(f func(string) error, rel string) func(bait) error {
	return func(b bait) error {
		l := filepath.Join(b.Workspace, "link-"+strconv.Itoa(os.Getpid()))
		if err := os.Symlink(filepath.Join(b.Outside, rel), l); err != nil {
			return err
		}
		defer os.Remove(l)
		return f(l)
	}
}

func fileProbes() []probe {
	const c = "files outside"
	return []probe{
		{c, "read a file outside", out(read, "secret")},
		{c, "read through ..", func(b bait) error {
			return read(b.Workspace + strings.Repeat("/..", 20) + filepath.Join(b.Outside, "secret"))
		}},
		{c, "read through /proc/self/root", func(b bait) error { return read("/proc/self/root" + b.Outside + "/secret") }},
		{c, "read through /proc/1/root", func(b bait) error { return read("/proc/1/root" + b.Outside + "/secret") }},
		{c, "read through /proc/1/cwd", func(b bait) error { return read("/proc/1/cwd" + b.Outside + "/secret") }},
		{c, "read through a new symbolic link", viaLink(read, "secret")},
		{c, "read through a symbolic link made before the cell", ws(read, "planted-link")},
		{c, "write through a symbolic link made before the cell", ws(openWrite, "planted-link")},
		{c, "write a file outside", out(openWrite, "secret")},
		{c, "write through a new symbolic link", viaLink(openWrite, "secret")},
		{c, "list a folder outside", out(list, ".")},
		{c, "hard link from outside", func(b bait) error { return os.Link(b.Outside+"/secret", b.Workspace+"/hard") }},
		{c, "hard link by descriptor path", func(b bait) error {
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/root"+b.Outside+"/secret", unix.AT_FDCWD, b.Workspace+"/hard2", unix.AT_SYMLINK_FOLLOW)
		}},
		{c, "move from outside", func(b bait) error { return os.Rename(b.Outside+"/secret", b.Workspace+"/moved") }},
		{c, "exchange with outside", func(b bait) error {
			return unix.Renameat2(unix.AT_FDCWD, b.Workspace+"/own", unix.AT_FDCWD, b.Outside+"/secret", unix.RENAME_EXCHANGE)
		}},
		{c, "remove outside", out(os.Remove, "secret")},
		{c, "remove a tree outside", out(func(p string) error {
			_, err := os.Stat(p)
			return errors.Join(err, os.RemoveAll(p))
		}, "sub")},
		{c, "chmod outside", out(func(p string) error { return os.Chmod(p, 0o777) }, "secret")},
		{c, "chown outside", out(func(p string) error { return os.Chown(p, os.Getuid(), os.Getgid()) }, "secret")},
		{c, "truncate outside", out(func(p string) error { return os.Truncate(p, 0) }, "secret")},
		{c, "set times outside", out(func(p string) error { return os.Chtimes(p, time.Now(), time.Unix(0, 0)) }, "secret")},
		{c, "set an attribute outside", out(func(p string) error { return unix.Setxattr(p, "user.x", []byte("x"), 0) }, "secret")},
		{c, "run a program outside", out(func(p string) error { return fails(p) }, "exec")},
		{c, "watch a folder outside", out(func(p string) error {
			fd, err := unix.InotifyInit1(0)
			if err == nil {
				_, err = unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS)
			}
			return err
		}, ".")},
		{c, "read sallyport's state", func(b bait) error { return read(b.State + "/secret") }},
		{c, "list sallyport's state", func(b bait) error { return list(b.State) }},
		{c, "read the home", func(b bait) error {
			for _, p := range b.Home {
				if err := read(p); err == nil || errors.Is(err, unix.EISDIR) {
					return nil
				}
			}
			return unix.ENOENT
		}},
		{c, "read /etc/shadow", at(read, "/etc/shadow")},
		{c, "learn the host's accounts", func(bait) error {
			data, err := os.ReadFile("/etc/passwd")
			if err == nil && !strings.Contains(string(data), "daemon:") {
				return errors.New("reduced")
			}
			return err
		}},
		{c, "list /run", at(list, "/run")},
		{c, "list /var/log", at(list, "/var/log")},
		{c, "write /usr", at(create, "/usr/bin/sallyport-probe")},
		{c, "write /etc", at(create, "/etc/sallyport-probe")},
		{c, "write /etc/passwd", at(openWrite, "/etc/passwd")},
		{c, "write /", at(create, "/sallyport-probe")},
		{c, "replace the loader's cache", at(openWrite, "/etc/ld.so.cache")},
		{c, "open by handle", syscallProbe(unix.SYS_OPEN_BY_HANDLE_AT, 3, 0, 0)},
		{c, "make a file handle", func(b bait) error {
			_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, b.Workspace, 0)
			return err
		}},
		{c, "see inherited descriptors", func(bait) error {
			e, err := os.ReadDir("/proc/self/fd")
			for _, f := range e {
				if n, _ := strconv.Atoi(f.Name()); n > 2 {
					l, _ := os.Readlink("/proc/self/fd/" + f.Name())
					if l != "" && !strings.HasPrefix(l, "/proc/") && !strings.HasPrefix(l, "anon_inode:") {
						return nil
					}
				}
			}
			return errors.Join(err, errors.New("none"))
		}},
		{c, "see the host's environment", func(bait) error {
			if os.Getenv("SALLYPORT_TEST_SECRET") != "" {
				return nil
			}
			return errors.New("not set")
		}},
	}
}

func guardProbes() []probe {
	const c = "protected and hidden"
	return []probe{
		{c, "write a git hook", ws(openWrite, ".git/hooks/pre-commit")},
		{c, "make a git hook", ws(create, ".git/hooks/post-merge")},
		{c, "append to the git configuration", ws(openWrite, ".git/config")},
		{c, "git config", func(b bait) error { return fails("git", "-C", b.Workspace, "config", "core.fsmonitor", "evil") }},
		{c, "move .git away", ws(func(p string) error { return os.Rename(p, p+"2") }, ".git")},
		{c, "exchange .git for a folder", func(b bait) error {
			_ = os.Mkdir(b.Workspace+"/git2", 0o755)
			return unix.Renameat2(unix.AT_FDCWD, b.Workspace+"/git2", unix.AT_FDCWD, b.Workspace+"/.git", unix.RENAME_EXCHANGE)
		}},
		{c, "move hooks away", ws(func(p string) error { return os.Rename(p, p+"2") }, ".git/hooks")},
		{c, "remove hooks", ws(os.RemoveAll, ".git/hooks")},
		{c, "move the workspace away", func(b bait) error { return os.Rename(b.Workspace, b.Workspace+"2") }},
		{c, "overwrite .mcp.json", ws(openWrite, ".mcp.json")},
		{c, "replace .mcp.json by renaming", func(b bait) error { return os.Rename(b.Workspace+"/own", b.Workspace+"/.mcp.json") }},
		{c, "replace .mcp.json by a link", ws(func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Symlink("own", p)
		}, ".mcp.json")},
		{c, "write in .claude", ws(create, ".claude/settings.local.json")},
		{c, "remove .envrc", ws(os.Remove, ".envrc")},
		{c, "write .envrc through a hard link", func(b bait) error {
			if err := os.Link(b.Workspace+"/.envrc", b.Workspace+"/envrc2"); err != nil {
				return err
			}
			return openWrite(b.Workspace + "/envrc2")
		}},
		{c, "chmod a hook", ws(func(p string) error { return os.Chmod(p, 0o777) }, ".git/hooks/pre-commit")},
		{c, "write a hook through /proc/self/fd", ws(func(p string) error {
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			return openWrite("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		}, ".git/hooks/pre-commit")},
		{c, "uncover hooks", ws(func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) }, ".git/hooks")},
		{c, "remount hooks writable", ws(func(p string) error {
			return unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		}, ".git/hooks")},
		{c, "read .env", ws(read, ".env")},
		{c, "chmod and read .env", ws(func(p string) error { _ = os.Chmod(p, 0o644); return read(p) }, ".env")},
		{c, "move and read .env", ws(func(p string) error {
			if err := os.Rename(p, p+"2"); err != nil {
				return err
			}
			return read(p + "2")
		}, ".env")},
		{c, "link and read .env", ws(func(p string) error {
			if err := os.Link(p, p+"3"); err != nil {
				return err
			}
			return read(p + "3")
		}, ".env")},
		{c, "uncover .env", ws(func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) }, ".env")},
		{c, "remove .env", ws(os.Remove, ".env")},
		{c, "read a key", ws(read, "id_rsa")},
		{c, "list credentials", ws(list, ".aws")},
		{c, "read credentials", ws(read, ".aws/credentials")},
		{c, "read .env in a sub-folder", ws(read, "sub/deep/.env")},
		{c, "move the folder and read its .env", ws(func(p string) error {
			if err := os.Rename(p, p+"2"); err != nil {
				return err
			}
			return errors.Join(read(p+"2/.env"), os.Rename(p+"2", p))
		}, "sub/deep")},
		{c, "read a key in a sub-folder", ws(read, "sub/id_ed25519")},
		{c, "write a hook of a nested repository", landing(openWrite, "sub/repo/.git/hooks/pre-commit")},
		{c, "move a nested repository's hooks away", landing(func(p string) error { return os.Rename(p, p+"2") }, "sub/repo/.git")},
		{c, "write a submodule's configuration", landing(openWrite, ".git/modules/m/config")},
		{c, "write an editor's settings in a sub-folder", landing(openWrite, "sub/.vscode/tasks.json")},
	}
}

func procProbes() []probe {
	const c = "proc, sys, dev"
	var list_ []probe
	for _, p := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/yama/ptrace_scope",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
		"/proc/1/mem", "/proc/1/oom_score_adj", "/proc/1/exe", "/proc/1/uid_map", "/proc/1/attr/current", "/proc/acpi/wakeup",
		"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/kernel/uevent_helper",
		"/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent",
		"/dev/mem", "/dev/kmem", "/dev/port", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop-control", "/dev/kvm", "/dev/fuse",
		"/dev/net/tun", "/dev/kmsg", "/dev/uinput", "/dev/vhost-net", "/dev/btrfs-control", "/dev/console", "/dev/tty0",
	} {
		list_ = append(list_, probe{c, "write " + p, at(openWrite, p)})
	}
	some := func(p string) func(bait) error {
		return at(func(p string) error {
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := f.Read(make([]byte, 16))
			if n > 0 {
				return nil
			}
			return errors.Join(err, errors.New("nothing in it"))
		}, p)
	}
	for _, p := range []string{"/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/1/environ", "/proc/1/maps",
		"/proc/config.gz", "/proc/kpageflags", "/sys/firmware/acpi/tables/DSDT", "/sys/kernel/debug/tracing/trace"} {
		list_ = append(list_, probe{c, "read " + p, some(p)})
	}
	return append(list_,
		probe{c, "follow /proc/1/fd", at(func(p string) error { _, err := os.Readlink(p); return err }, "/proc/1/fd/0")},
		probe{c, "list /proc/1/root", at(list, "/proc/1/root/")},
		probe{c, "list /sys", at(list, "/sys/class")},
		probe{c, "see a process of the host", func(b bait) error { return read(fmt.Sprintf("/proc/%d/stat", b.Pid)) }},
		probe{c, "map another uid", at(func(p string) error { return os.WriteFile(p, []byte("0 0 1"), 0) }, "/proc/self/uid_map")},
		probe{c, "lower the OOM score", at(func(p string) error { return os.WriteFile(p, []byte("-1000"), 0) }, "/proc/self/oom_score_adj")},
		probe{c, "learn the host's name", func(b bait) error {
			if h, _ := os.Hostname(); h != b.Hostname {
				return errors.New("another name")
			}
			return nil
		}},
		probe{c, "make a block device", func(b bait) error { return unix.Mknod(b.Workspace+"/blk", unix.S_IFBLK|0o666, 8<<8) }},
		probe{c, "make /dev/mem", func(b bait) error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o666, 1<<8|1) }},
		probe{c, "open the terminal", at(openWrite, "/dev/tty")},
	)
}

func namespaceProbes() []probe {
	const c = "mounts and namespaces"
	list := []probe{
		{c, "mount tmpfs", func(bait) error { return unix.Mount("t", "/tmp", "tmpfs", 0, "") }},
		{c, "mount proc", func(bait) error { return unix.Mount("p", "/tmp", "proc", 0, "") }},
		{c, "bind the root", func(bait) error { return unix.Mount("/", "/tmp", "", unix.MS_BIND|unix.MS_REC, "") }},
		{c, "remount / writable", func(bait) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{c, "remount /usr writable", func(bait) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{c, "mount a cgroup", func(bait) error { return unix.Mount("c", "/tmp", "cgroup2", 0, "") }},
		{c, "unmount /proc", func(bait) error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{c, "pivot_root", func(bait) error { return unix.PivotRoot("/tmp", "/tmp") }},
		{c, "chroot", func(bait) error { return unix.Chroot("/tmp") }},
		{c, "open_tree", func(bait) error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }},
		{c, "move_mount", func(bait) error { return unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "/usr", 0) }},
		{c, "fsopen", func(bait) error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		{c, "fspick", func(bait) error { _, err := unix.Fspick(unix.AT_FDCWD, "/", 0); return err }},
		{c, "mount_setattr", func(bait) error {
			return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{c, "setns by pidfd", func(bait) error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNET)
		}},
		{c, "open process 1's namespace", at(read, "/proc/1/ns/mnt")},
		{c, "clone3 a user namespace", func(bait) error {
			args := struct{ flags, pidfd, childTid, parentTid, exit, stack, size, tls uint64 }{flags: unix.CLONE_NEWUSER, exit: 17}
			pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
			return cloned0(pid, errno)
		}},
	}
	type named struct {
		name string
		flag uintptr
	}
	for _, n := range []named{{"user", unix.CLONE_NEWUSER}, {"mount", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}, {"net", unix.CLONE_NEWNET},
		{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP}, {"time", unix.CLONE_NEWTIME}} {
		list = append(list, probe{c, "unshare " + n.name, syscallProbe(unix.SYS_UNSHARE, n.flag)})
	}
	for _, n := range []named{{"user", unix.CLONE_NEWUSER}, {"user with high bits", unix.CLONE_NEWUSER | 1<<40}, {"mount", unix.CLONE_NEWNS}} {
		list = append(list, probe{c, "clone " + n.name, func(bait) error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, n.flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			return cloned0(pid, errno)
		}})
	}
	return list
}

// cloned0 ends an unwanted child and gives the error.
func cloned0(pid uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func kernelProbes() []probe {
	const c = "kernel surface"
	bad := ^uintptr(0) // no pointer: a call that is let through says EFAULT
	list := []probe{
		{c, "bpf", syscallProbe(unix.SYS_BPF, 0, bad, 16)},
		{c, "perf_event_open", syscallProbe(unix.SYS_PERF_EVENT_OPEN, bad, 0, bad, bad, 0)},
		{c, "userfaultfd", syscallProbe(unix.SYS_USERFAULTFD, 1)},
		{c, "io_uring_setup", syscallProbe(unix.SYS_IO_URING_SETUP, 1, bad)},
		{c, "keyctl", syscallProbe(unix.SYS_KEYCTL, 0, ^uintptr(3), 0)},
		{c, "add_key", syscallProbe(unix.SYS_ADD_KEY, cstr("user"), cstr("x"), cstr("y"), 1, ^uintptr(3))},
		{c, "request_key", syscallProbe(unix.SYS_REQUEST_KEY, cstr("user"), cstr("x"), 0, 0)},
		{c, "init_module", syscallProbe(unix.SYS_INIT_MODULE, bad, 8, bad)},
		{c, "finit_module", syscallProbe(unix.SYS_FINIT_MODULE, bad, bad, 0)},
		{c, "delete_module", syscallProbe(unix.SYS_DELETE_MODULE, bad, 0)},
		{c, "kexec_load", syscallProbe(unix.SYS_KEXEC_LOAD, 0, 0, 0, bad)},
		{c, "kexec_file_load", syscallProbe(unix.SYS_KEXEC_FILE_LOAD, bad, bad, 0, 0, bad)},
		{c, "reboot", syscallProbe(unix.SYS_REBOOT, 1, 2, 3)}, // wrong magic numbers: harmless where let through
		{c, "swapon", syscallProbe(unix.SYS_SWAPON, bad, 0)},
		{c, "acct", syscallProbe(unix.SYS_ACCT, bad)},
		{c, "settimeofday", syscallProbe(unix.SYS_SETTIMEOFDAY, bad, 0)},
		{c, "clock_settime", syscallProbe(unix.SYS_CLOCK_SETTIME, 0, bad)},
		{c, "adjtimex", syscallProbe(unix.SYS_ADJTIMEX, bad)},
		{c, "iopl", syscallProbe(unix.SYS_IOPL, 3)},
		{c, "ioperm", syscallProbe(unix.SYS_IOPERM, 0, 1, 1)},
		{c, "syslog", syscallProbe(unix.SYS_SYSLOG, 10)},
		{c, "quotactl", syscallProbe(unix.SYS_QUOTACTL, 0, 0, 0, 0)},
		{c, "sethostname", syscallProbe(unix.SYS_SETHOSTNAME, bad, 3)},
		{c, "setdomainname", syscallProbe(unix.SYS_SETDOMAINNAME, bad, 3)},
		{c, "vhangup", syscallProbe(unix.SYS_VHANGUP)},
		{c, "fanotify_init", syscallProbe(unix.SYS_FANOTIFY_INIT, 0, 0)},
		{c, "lookup_dcookie", syscallProbe(unix.SYS_LOOKUP_DCOOKIE, 0, bad, 1)},
		{c, "kcmp", syscallProbe(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 0, 0, 0)},
		{c, "migrate_pages", syscallProbe(unix.SYS_MIGRATE_PAGES, 0, 0, 0, 0)},
		{c, "move_pages", syscallProbe(unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, 0)},
		{c, "process_madvise", syscallProbe(unix.SYS_PROCESS_MADVISE, bad, 0, 0, 0, 0)},
		{c, "memfd_secret", syscallProbe(unix.SYS_MEMFD_SECRET, 0)},
		{c, "personality READ_IMPLIES_EXEC", syscallProbe(unix.SYS_PERSONALITY, 0x0400000)},
		{c, "ptrace a sibling", func(bait) error {
			cmd := exec.Command("sleep", "2")
			if err := cmd.Start(); err != nil {
				return err
			}
			defer cmd.Process.Kill()
			return unix.PtraceSeize(cmd.Process.Pid)
		}},
		{c, "ptrace process 1", func(bait) error { return unix.PtraceSeize(1) }},
		{c, "read process 1's memory", syscallProbe(unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0)},
		{c, "write process 1's memory", syscallProbe(unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0, 0)},
		{c, "take process 1's descriptor", func(bait) error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 3, 0)
			return err
		}},
		{c, "unknown system call", syscallProbe(9999)},
	}
	if runtime.GOARCH == "amd64" {
		list = append(list,
			probe{c, "modify_ldt", syscallProbe(unix.SYS_MODIFY_LDT, 0, bad, 8)},
			probe{c, "x32 getpid", syscallProbe(0x40000000 + unix.SYS_GETPID)},
			probe{c, "x32 unshare", syscallProbe(0x40000000+unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
			probe{c, "i386 program", func(bait) error { return runELF(elf32) }},
			probe{c, "int 0x80 in a 64-bit program", func(bait) error { return runELF(elf64) }},
		)
	}
	return list
}

func socketProbes() []probe {
	const c = "sockets and network"
	return []probe{
		{c, "packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{c, "packet socket, high bits in the family", syscallProbe(unix.SYS_SOCKET, unix.AF_PACKET|1<<32, unix.SOCK_DGRAM, 0)},
		{c, "raw IPv4 socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)},
		{c, "raw IPv4 socket, high bits in the type", syscallProbe(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW|1<<33, unix.IPPROTO_TCP)},
		{c, "raw IPv6 socket", socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_TCP)},
		{c, "ping socket", socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)},
		{c, "SCTP socket", socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)},
		{c, "MPTCP socket", socket(unix.AF_INET, unix.SOCK_STREAM, 262)},
		{c, "UDP-Lite socket", socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)},
		{c, "DCCP socket", socket(unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP)},
		{c, "audit netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{c, "netfilter netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{c, "uevent netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
		{c, "crypto netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO)},
		{c, "xfrm netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM)},
		{c, "generic netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC)},
		{c, "vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{c, "kernel crypto socket", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{c, "bluetooth", socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1)},
		{c, "CAN", socket(unix.AF_CAN, unix.SOCK_RAW, 1)},
		{c, "TIPC", socket(unix.AF_TIPC, unix.SOCK_RDM, 0)},
		{c, "RDS", socket(unix.AF_RDS, unix.SOCK_SEQPACKET, 0)},
		{c, "XDP", socket(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{c, "PPPoX", socket(unix.AF_PPPOX, unix.SOCK_STREAM, 0)},
		{c, "key management socket", socket(unix.AF_KEY, unix.SOCK_RAW, 2)},
		{c, "SMC", socket(unix.AF_SMC, unix.SOCK_STREAM, 0)},
		{c, "QIPCRTR", socket(unix.AF_QIPCRTR, unix.SOCK_DGRAM, 0)},
		{c, "reach the host's loopback over TCP", func(b bait) error { return dial("tcp4", b.TCP4) }},
		{c, "reach the host's loopback over IPv6", func(b bait) error { return dial("tcp6", b.TCP6) }},
		{c, "reach the host's loopback over UDP", func(b bait) error { return dial("udp4", b.UDP4) }},
		{c, "reach the host's abstract socket", func(b bait) error { return dial("unix", "@"+b.Abstract) }},
		{c, "reach the host's socket file", func(b bait) error { return dial("unix", b.Unix) }},
		{c, "reach the docker socket", func(bait) error { return dial("unix", "/var/run/docker.sock") }},
		{c, "see the host's network devices", func(bait) error {
			ifs, err := net.Interfaces()
			if err == nil && len(ifs) <= 1 {
				return errors.New("only loopback")
			}
			return err
		}},
		{c, "bring up a device", func(bait) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			ifr, _ := unix.NewIfreq("lo")
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
		}},
	}
}

func processProbes() []probe {
	const c = "other processes"
	return []probe{
		{c, "signal a process of the host", func(b bait) error { return unix.Kill(b.Pid, unix.SIGTERM) }},
		{c, "signal its thread", func(b bait) error { return unix.Tgkill(b.Pid, b.Pid, unix.SIGTERM) }},
		{c, "pidfd of a process of the host", func(b bait) error { _, err := unix.PidfdOpen(b.Pid, 0); return err }},
		{c, "ptrace a process of the host", func(b bait) error { return unix.PtraceSeize(b.Pid) }},
		{c, "read its memory", func(b bait) error { return read(fmt.Sprintf("/proc/%d/mem", b.Pid)) }},
		{c, "set its limits", func(b bait) error {
			return unix.Prlimit(b.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
		}},
		{c, "set its priority", func(b bait) error { return unix.Setpriority(unix.PRIO_PROCESS, b.Pid, 19) }},
		{c, "set its processors", func(b bait) error {
			var set unix.CPUSet
			set.Set(0)
			return unix.SchedSetaffinity(b.Pid, &set)
		}},
		{c, "stop process 1", func(bait) error {
			if err := unix.Kill(1, unix.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
			data, err := os.ReadFile("/proc/1/stat")
			if err == nil && strings.Contains(string(data), ") T ") {
				return nil
			}
			return errors.New("it runs on")
		}},
		{c, "type into the terminal", pty(unix.TIOCSTI, 0)},
		{c, "type into the terminal, high bits", pty(unix.TIOCSTI, 1<<32)},
		{c, "paste from the console", pty(unix.TIOCLINUX, 0)},
		{c, "attach the host's shared memory", func(b bait) error { _, err := unix.SysvShmAttach(b.ShmID, 0, 0); return unknown(err) }},
		{c, "read the host's /dev/shm", func(b bait) error { return read(b.ShmFile) }},
	}
}

// pty tries a terminal request on a terminal of one's own.
func pty(req, high uintptr) func(bait) error {
	return func(bait) error {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		return call(unix.SYS_IOCTL, uintptr(fd), req|high, cstr("x"))
	}
}

func privilegeProbes() []probe {
	const c = "privileges"
	mode := func(bits uint32) func(bait) error {
		return func(b bait) error {
			p := fmt.Sprintf("%s/mode-%d", b.Workspace, os.Getpid())
			if err := create(p); err != nil {
				return err
			}
			defer os.Remove(p)
			return unix.Chmod(p, bits)
		}
	}
	opened := func(nr uintptr, args func(p uintptr) []uintptr) func(bait) error {
		return func(b bait) error {
			p := fmt.Sprintf("%s/suid-%d", b.Workspace, os.Getpid())
			defer os.Remove(p)
			return call(nr, args(cstr(p))...)
		}
	}
	cwd := ^uintptr(99) // AT_FDCWD
	return []probe{
		{c, "become another user", func(bait) error { return unknown(call(unix.SYS_SETUID, uintptr(os.Getuid()+1))) }},
		{c, "become another group", func(bait) error { return unknown(call(unix.SYS_SETGID, uintptr(os.Getgid()+1))) }},
		{c, "join groups", syscallProbe(unix.SYS_SETGROUPS, 0, 0)},
		{c, "set-uid bit", mode(0o4755)},
		{c, "set-gid bit", mode(0o2755)},
		{c, "set-uid bit by fchmodat2", func(b bait) error {
			return call(unix.SYS_FCHMODAT2, cwd, cstr(b.Workspace+"/own"), 0o4755, 0)
		}},
		{c, "set-uid at open", opened(unix.SYS_OPEN, func(p uintptr) []uintptr { return []uintptr{p, unix.O_CREAT | unix.O_WRONLY, 0o4755} })},
		{c, "set-uid at openat", opened(unix.SYS_OPENAT, func(p uintptr) []uintptr { return []uintptr{cwd, p, unix.O_CREAT | unix.O_WRONLY, 0o4755} })},
		{c, "set-uid at creat", opened(unix.SYS_CREAT, func(p uintptr) []uintptr { return []uintptr{p, 0o4755} })},
		{c, "set-uid at mknod", opened(unix.SYS_MKNOD, func(p uintptr) []uintptr { return []uintptr{p, unix.S_IFREG | 0o4755, 0} })},
		{c, "set-uid at openat2", opened(unix.SYS_OPENAT2, func(p uintptr) []uintptr {
			how := &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755}
			return []uintptr{cwd, p, uintptr(unsafe.Pointer(how)), unsafe.Sizeof(*how)}
		})},
		{c, "set-uid unnamed file", opened(unix.SYS_OPENAT, func(p uintptr) []uintptr {
			return []uintptr{cwd, cstr("/tmp"), unix.O_TMPFILE | unix.O_RDWR, 0o4755}
		})},
		{c, "gain capabilities", func(bait) error {
			hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{{Effective: 1, Permitted: 1}}
			return unix.Capset(&hdr, &data[0])
		}},
		{c, "have capabilities", func(bait) error {
			status, err := os.ReadFile("/proc/self/status")
			for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb"} {
				if err == nil && !strings.Contains(string(status), set+":\t0000000000000000") {
					return nil
				}
			}
			return errors.Join(err, errors.New("none"))
		}},
		{c, "raise an ambient capability", func(bait) error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
		}},
		{c, "run without no_new_privs", func(bait) error {
			if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n == 1 {
				return errors.Join(err, errors.New("it is set"))
			}
			return nil
		}},
		{c, "run without a seccomp filter", func(bait) error {
			if n, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || n == 2 {
				return errors.Join(err, errors.New("there is one"))
			}
			return nil
		}},
		{c, "set a file capability", func(b bait) error {
			return unix.Setxattr(b.Workspace+"/own", "security.capability", []byte{0, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0)
		}},
		{c, "set a trusted attribute", func(b bait) error { return unix.Setxattr(b.Workspace+"/own", "trusted.x", []byte("x"), 0) }},
		{c, "su", func(bait) error { return fails("su", "-c", "id") }},
		{c, "raise the open-file limit", func(bait) error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30})
		}},
		{c, "dump core", func(bait) error {
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Max == 0 {
				return errors.Join(err, errors.New("size 0"))
			}
			return nil
		}},
	}
}

// probes is the one table.
func probes() []probe {
	var all []probe
	for _, part := range []func() []probe{fileProbes, guardProbes, procProbes, namespaceProbes, kernelProbes, socketProbes, processProbes, privilegeProbes} {
		all = append(all, part()...)
	}
	return all
}

// elf32 is an i386 program that calls getpid and exits with 0; elf64 does the
// same with int 0x80 from 64-bit code.
var (
	elf32 = append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00"+
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x80\x00\x00\x00\x80\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00"), code80...)
	elf64 = append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00\x01\x00\x00\x00\x78\x00\x40\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x38\x00\x01\x00\x00\x00\x00\x00\x00\x00"+
		"\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\xa0\x00\x00\x00\x00\x00\x00\x00\xa0\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00"), code80...)
	code80 = []byte("\xb8\x14\x00\x00\x00\xcd\x80\x31\xdb\xb8\x01\x00\x00\x00\xcd\x80" + strings.Repeat("\x00", 64))
)

func runELF(image []byte) error {
	p := fmt.Sprintf("/tmp/elf-%d", os.Getpid())
	if err := os.WriteFile(p, image, 0o755); err != nil {
		return err
	}
	defer os.Remove(p)
	return fails(p)
}

//go:build cgo

package sandbox

import (
	"fmt"
	"os"
	"slices"

	seccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// low32 compares only the bits the kernel looks at: int arguments are
// truncated by the kernel while a filter sees all 64 bits (CVE-2019-10063).
const low32 = 0xffffffff

var (
	refuse = seccomp.ActErrno.SetReturnCode(int16(unix.EPERM))
	absent = seccomp.ActErrno.SetReturnCode(int16(unix.ENOSYS))
)

// compileFilter builds the programs for a kind and leaves each in a sealed
// memfd. The strictest answer of all of them counts.
func compileFilter(k filterKind) ([]*os.File, error) {
	exceptions, err := compile(seccomp.ActAllow, func(b *filterBuilder) { b.terminal(); b.setuid() })
	if err != nil {
		return nil, fmt.Errorf("compile the seccomp exceptions: %w", err)
	}
	main, err := compile(absent, func(b *filterBuilder) { b.profile(k) })
	if err != nil {
		exceptions.Close()
		return nil, fmt.Errorf("compile seccomp profile %q: %w", k.profile, err)
	}
	return []*os.File{exceptions, main}, nil
}

func compile(otherwise seccomp.ScmpAction, rules func(*filterBuilder)) (*os.File, error) {
	f, err := seccomp.NewFilter(otherwise)
	if err != nil {
		return nil, fmt.Errorf("make a seccomp filter: %w", err)
	}
	defer f.Release()
	// A foreign architecture (i386, and x32 through the same word) is killed.
	if err := f.SetBadArchAction(seccomp.ActKillProcess); err != nil {
		return nil, fmt.Errorf("kill foreign architectures: %w", err)
	}
	b := filterBuilder{f: f}
	if rules(&b); b.err != nil {
		return nil, b.err
	}
	// A binary tree loads in 0.10 ms against 0.29 ms for the linear form;
	// libseccomp before 2.5 has only the latter.
	_ = f.SetOptimize(2)
	return export(f)
}

func export(f *seccomp.ScmpFilter) (*os.File, error) {
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a memfd for the seccomp program: %w", err)
	}
	file := os.NewFile(uintptr(fd), "seccomp program")
	if err := f.ExportBPF(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("export the seccomp program: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		file.Close()
		return nil, fmt.Errorf("seal the seccomp program: %w", err)
	}
	return file, nil
}

// filterBuilder adds rules until the first error.
type filterBuilder struct {
	f   *seccomp.ScmpFilter
	err error
}

func (b *filterBuilder) profile(k filterKind) {
	for group, names := range syscallsAllowed {
		switch {
		case group == "remove" && k.profile == profileNoDelete:
			b.each(names, refuse)
			continue
		case group == "ipc" && k.profile == profileStrict:
			b.each(names, refuse)
			continue
		}
		b.each(names, seccomp.ActAllow)
	}
	for _, name := range syscallsRefused {
		if k.profile == profileDebug && slices.Contains(syscallsDebug, name) {
			b.add(name, seccomp.ActAllow)
			continue
		}
		b.add(name, refuse)
	}
	b.clone()
	b.sockets(k)
	b.personality()
}

func (b *filterBuilder) each(names []string, act seccomp.ScmpAction) {
	for _, n := range names {
		b.add(n, act)
	}
}

// add adds a rule for a syscall under the conditions; a name unknown here is
// left out, and then answers ENOSYS.
func (b *filterBuilder) add(name string, act seccomp.ScmpAction, conds ...seccomp.ScmpCondition) {
	if b.err != nil {
		return
	}
	nr, err := seccomp.GetSyscallFromName(name)
	if err != nil || nr < 0 {
		return
	}
	if len(conds) == 0 {
		err = b.f.AddRule(nr, act)
	} else {
		err = b.f.AddRuleConditional(nr, act, conds)
	}
	if err != nil {
		b.err = fmt.Errorf("rule for %s: %w", name, err)
	}
}

// masked is the condition arg&mask == value.
func (b *filterBuilder) masked(arg uint, mask, value uint64) seccomp.ScmpCondition {
	c, err := seccomp.MakeCondition(arg, seccomp.CompareMaskedEqual, mask, value)
	if err != nil && b.err == nil {
		b.err = err
	}
	return c
}

// clone allows processes and threads but no new namespace. clone3 hides its
// flags behind a pointer, so it does not exist here: libc falls back.
func (b *filterBuilder) clone() {
	const namespaces = 0x7e020000 // CLONE_NEW{CGROUP,UTS,IPC,USER,PID,NET} and NEWNS
	b.add("clone", seccomp.ActAllow, b.masked(0, namespaces, 0))
	for bit := uint64(1); bit != 0 && bit <= namespaces; bit <<= 1 {
		if namespaces&bit != 0 {
			b.add("clone", refuse, b.masked(0, bit, bit))
		}
	}
}

// sockets allows Unix sockets, TCP and UDP over IPv4 and IPv6, and route
// netlink, which getifaddrs(3) needs; no packet, vsock, raw or other family,
// and no other protocol within these (ICMP, SCTP, MPTCP).
func (b *filterBuilder) sockets(k filterKind) {
	const kind = 0xf // SOCK_STREAM and friends without SOCK_CLOEXEC, SOCK_NONBLOCK
	if k.profile != profileStrict && !k.closed {
		for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
			for typ, proto := range map[uint64]uint64{unix.SOCK_STREAM: unix.IPPROTO_TCP, unix.SOCK_DGRAM: unix.IPPROTO_UDP} {
				for _, p := range []uint64{0, proto} {
					b.add("socket", seccomp.ActAllow, b.masked(0, low32, family), b.masked(1, kind, typ), b.masked(2, low32, p))
				}
			}
		}
		b.add("socket", seccomp.ActAllow, b.masked(0, low32, unix.AF_UNIX))
		b.add("socket", seccomp.ActAllow, b.masked(0, low32, unix.AF_NETLINK), b.masked(2, low32, unix.NETLINK_ROUTE))
	}
	b.add("socketpair", seccomp.ActAllow, b.masked(0, low32, unix.AF_UNIX))
}

// The exceptions need a program of their own: libseccomp lets an
// unconditional rule for a syscall swallow the conditional ones.

// terminal refuses the two requests that type into or read from the terminal
// of whoever started the cell (CVE-2017-5226).
func (b *filterBuilder) terminal() {
	b.add("ioctl", refuse, b.masked(1, low32, unix.TIOCSTI))
	b.add("ioctl", refuse, b.masked(1, low32, unix.TIOCLINUX))
}

// setuid refuses to make set-uid and set-gid files, by chmod or at creation:
// in a workspace of root's they would be root's on the host. The mode counts
// only where a file is created; elsewhere the register holds anything.
func (b *filterBuilder) setuid() {
	for _, bit := range []uint64{unix.S_ISUID, unix.S_ISGID} {
		for name, arg := range map[string]uint{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2} {
			b.add(name, refuse, b.masked(arg, bit, bit))
		}
		for _, flag := range []uint64{unix.O_CREAT, unix.O_TMPFILE &^ unix.O_DIRECTORY} {
			b.add("open", refuse, b.masked(1, flag, flag), b.masked(2, bit, bit))
			b.add("openat", refuse, b.masked(2, flag, flag), b.masked(3, bit, bit))
		}
	}
}

// personality allows asking and the plain Linux and no-randomisation forms
// that debuggers and old runtimes set.
func (b *filterBuilder) personality() {
	for _, p := range []uint64{0x0, 0x0008, 0x20000, 0x20008, 0x40000, 0xffffffff} {
		b.add("personality", seccomp.ActAllow, b.masked(0, low32, p))
	}
}

package cell

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// site is one cell while its walls go up.
type site struct {
	spec     Spec
	filters  [][]byte // seccomp programs, in loading order
	sources  []source
	layer    layerDirs
	listener int   // proxy listener, -1 without
	procErr  error // why there is no fresh /proc
}

// wall is one layer between the program and the machine.
type wall struct {
	name string
	// flag is the namespace the wall needs; without it the wall is down.
	flag uintptr
	// optional walls may be missing and are then reported down; any other
	// failure makes the cell unusable. Without a mount namespace nothing is
	// optional: what is left must hold alone.
	optional bool
	raise    func(*site) error
}

// walls is the one ordered list. Order matters: sources are opened before the
// identity changes, mounts need capabilities, no_new_privs precedes both
// filters, and seccomp comes last because it refuses what the others need.
func walls() []wall {
	return []wall{
		{name: "descriptors", raise: (*site).descriptors},
		{name: "user namespace", flag: unix.CLONE_NEWUSER, raise: stands},
		{name: "identity", raise: (*site).identity},
		{name: "mount namespace", flag: unix.CLONE_NEWNS, raise: (*site).privateMounts},
		{name: "pid namespace", flag: unix.CLONE_NEWPID, raise: (*site).firstProcess},
		{name: "lifetime", raise: (*site).lifetime},
		{name: "network namespace", flag: unix.CLONE_NEWNET, raise: (*site).loopback},
		{name: "ipc namespace", flag: unix.CLONE_NEWIPC, raise: stands},
		{name: "uts namespace", flag: unix.CLONE_NEWUTS, raise: (*site).hostname},
		{name: "cgroup namespace", flag: unix.CLONE_NEWCGROUP, optional: true, raise: stands},
		{name: "minimal root", flag: unix.CLONE_NEWNS, raise: (*site).root},
		{name: "fresh proc", flag: unix.CLONE_NEWNS | unix.CLONE_NEWPID, optional: true, raise: (*site).procStands},
		{name: "rlimits", raise: (*site).rlimits},
		{name: "no_new_privs", raise: (*site).noNewPrivs},
		{name: "capabilities", raise: (*site).capabilities},
		{name: "landlock", optional: true, raise: (*site).landlock},
		{name: "seccomp", raise: (*site).seccomp},
	}
}

// Names lists the walls a cell reports, in order.
func Names() []string {
	var names []string
	for _, w := range walls() {
		names = append(names, w.name)
	}
	return names
}

// raise puts up every wall in order. The calling thread must be locked: some
// walls hold for it and its children only.
func (s *site) raise() Ready {
	var ready Ready
	for _, w := range walls() {
		if w.flag&^s.spec.Flags != 0 {
			ready.Walls = append(ready.Walls, State{Name: w.name, Reason: "this machine gives no such namespace"})
			continue
		}
		err := w.raise(s)
		if err != nil && (!w.optional || s.spec.Flags&unix.CLONE_NEWNS == 0) {
			name := w.name
			if errors.Is(err, errLayer) {
				name = WriteLayer
			}
			return Ready{Walls: ready.Walls, Wall: name, Error: err.Error(), Errno: errno(err)}
		}
		st := State{Name: w.name, Up: err == nil}
		if err != nil {
			st.Reason = err.Error()
		}
		ready.Walls = append(ready.Walls, st)
	}
	return ready
}

// stands is the raise of a namespace that clone(2) made whole.
func stands(*site) error { return nil }

// descriptors makes everything beyond the socket close on exec.
func (s *site) descriptors() error {
	if err := unix.CloseRange(SocketFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	return nil
}

// identity opens the view's sources while the process is still the daemon's
// user, who alone may reach into the state folder, and then becomes the
// workspace's owner.
func (s *site) identity() error {
	if s.spec.Flags&unix.CLONE_NEWNS != 0 {
		s.open()
	}
	if s.spec.Become {
		if err := s.become(); err != nil {
			return err
		}
	}
	if s.spec.Flags&unix.CLONE_NEWNS != 0 {
		return s.openLate()
	}
	return nil
}

// become changes every thread's ids. Inside a user namespace capabilities
// survive, because neither side of the change is the namespace's uid 0 unless
// the owner is root; outside of one they must be kept by hand until the walls
// that need them stand.
func (s *site) become() error {
	kept := s.spec.Flags&unix.CLONE_NEWUSER == 0 && s.spec.UID != 0
	if kept {
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
			return fmt.Errorf("keep capabilities: %w", errno)
		}
	}
	// Each is done by every thread in turn, 0.1 ms, and so left out where it
	// would change nothing. The overflow id may be anybody's.
	if groups, err := unix.Getgroups(); err != nil || len(groups) > 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return fmt.Errorf("drop supplementary groups: %w", err)
		}
	}
	if s.spec.GID == overflowID || !isAll(unix.Getresgid, s.spec.GID) {
		if err := syscall.Setresgid(s.spec.GID, s.spec.GID, s.spec.GID); err != nil {
			return fmt.Errorf("become group %d: %w", s.spec.GID, err)
		}
	}
	if s.spec.UID == overflowID || !isAll(unix.Getresuid, s.spec.UID) {
		if err := syscall.Setresuid(s.spec.UID, s.spec.UID, s.spec.UID); err != nil {
			return fmt.Errorf("become user %d: %w", s.spec.UID, err)
		}
	}
	if kept {
		return effectiveAgain()
	}
	return nil
}

// overflowID is what the kernel shows for an id that is not mapped.
const overflowID = 65534

func isAll(get func() (r, e, s int), id int) bool {
	r, e, s := get()
	return r == id && e == id && s == id
}

// effectiveAgain makes this thread's kept capabilities count.
func effectiveAgain() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("use kept capabilities: %w", err)
	}
	return nil
}

func (s *site) privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

func (s *site) firstProcess() error {
	if os.Getpid() != 1 {
		return errors.New("not process 1 of its namespace")
	}
	return nil
}

// lifetime ties the cell's life to the starter's; the credentials have changed
// by now, which would have cleared the setting. Without a PID namespace it
// also makes orphans this process's own, so that it can end them.
func (s *site) lifetime() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the starter: %w", err)
	}
	if s.spec.Flags&unix.CLONE_NEWPID != 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("inherit orphans: %w", err)
	}
	return nil
}

// loopback brings lo up, so that a program's own localhost servers work, and
// opens the proxy's listener where the cell has network.
func (s *site) loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	if !s.spec.Proxy {
		return nil
	}
	return s.listen()
}

func (s *site) listen() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the proxy's listener: %w", err)
	}
	addr := &unix.SockaddrInet4{Port: ProxyPort, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(fd, addr); err != nil {
		unix.Close(fd)
		return fmt.Errorf("bind the proxy's listener: %w", err)
	}
	if err := unix.Listen(fd, 128); err != nil {
		unix.Close(fd)
		return fmt.Errorf("open the proxy's listener: %w", err)
	}
	s.listener = fd
	return nil
}

func (s *site) hostname() error {
	if err := unix.Sethostname([]byte(s.spec.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return nil
}

func (s *site) rlimits() error {
	unix.Umask(0o022)
	for _, r := range s.spec.Rlimits {
		lim := syscall.Rlimit{Cur: r.Value, Max: r.Value}
		var old syscall.Rlimit
		if err := syscall.Getrlimit(r.Resource, &old); err == nil && old.Max < r.Value {
			lim = syscall.Rlimit{Cur: old.Max, Max: old.Max}
		}
		// syscall.Setrlimit, not unix: it also stops the Go runtime from
		// restoring its start-up RLIMIT_NOFILE in the child.
		if err := syscall.Setrlimit(r.Resource, &lim); err != nil {
			return fmt.Errorf("set rlimit %d to %d: %w", r.Resource, r.Value, err)
		}
	}
	return nil
}

func (s *site) noNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// capabilities empties every set of every thread, and the bounding set of the
// thread that will run the program. It also makes this process undumpable, so
// that the program cannot read or trace it through /proc/1.
func (s *site) capabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); c <= 63; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // beyond the last capability this kernel knows
		}
		if err != nil && s.spec.Flags&unix.CLONE_NEWNS != 0 {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	return nil
}

// seccomp loads the programs the daemon compiled, on this thread.
func (s *site) seccomp() error {
	if len(s.filters) == 0 {
		return errors.New("the spec came without its seccomp programs")
	}
	for _, f := range s.filters {
		if err := loadFilter(f); err != nil {
			return err
		}
	}
	return nil
}

func loadFilter(program []byte) error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	n := len(program) / size
	if n == 0 || n > unix.BPF_MAXINSNS || len(program)%size != 0 {
		return fmt.Errorf("seccomp program of %d bytes is not one", len(program))
	}
	prog := unix.SockFprog{Len: uint16(n), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("load the seccomp program: %w", errno)
	}
	return nil
}

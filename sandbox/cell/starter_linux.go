package cell

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// setupCaps are what raising the walls needs inside the new user namespace. As
// ambient capabilities they survive the exec of the cell program when the
// identity map has no uid 0; the cell drops them all before it runs anything.
var setupCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER,
	unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP,
	unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN,
}

// Starter clones cells until its socket closes, then ends and takes them with
// it. It exists because a clone with CLONE_NEWUSER from a large Go process
// copies that process's page tables: 13 ms at 256 MiB of heap, 36 ms at 1 GiB.
func Starter() error {
	// A cell's parent-death signal is bound to the thread that cloned it.
	runtime.LockOSThread()
	conn := inherited()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if os.Geteuid() == 0 { // root reaches the same without; a cell that finds some drops them itself
		_ = syscall.Setgroups(nil)
	}
	cells := &census{alive: map[int]bool{}}
	go cells.reap()
	for {
		var req Clone
		fds, err := conn.Receive(&req)
		if err != nil {
			return hungUp(err)
		}
		reply := Cloned{ID: req.ID}
		pidfd := -1
		if len(fds) != 1 {
			reply.Error = "the request came without its socket"
		} else if reply.Pid, pidfd, err = cells.clone(req, fds[0]); err != nil {
			reply.Error, reply.Errno = err.Error(), errno(err)
		}
		closeAll(fds)
		if pidfd < 0 {
			err = conn.Send(reply)
		} else {
			err = conn.Send(reply, pidfd)
			unix.Close(pidfd)
		}
		_ = enter(req.Leave) // a group that stays is swept later
		if err != nil {
			return hungUp(err)
		}
	}
}

func clone(req Clone, socket int) (pid, pidfd int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, -1, err
	}
	defer null.Close()
	pidfd = -1
	sys := &syscall.SysProcAttr{
		Cloneflags: req.Flags,
		PidFD:      &pidfd,
		Setsid:     true,
	}
	if req.Flags&unix.CLONE_NEWUSER != 0 {
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: req.UID, HostID: req.UID, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: req.GID, HostID: req.GID, Size: 1}}
		sys.GidMappingsEnableSetgroups = os.Geteuid() == 0
		sys.AmbientCaps = setupCaps
	}
	if req.Into != "" {
		fd, err := unix.Open(req.Into, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, -1, fmt.Errorf("open the control group %s: %w", req.Into, err)
		}
		defer unix.Close(fd)
		sys.UseCgroupFD, sys.CgroupFD = true, fd
	}
	if err := enter(req.Enter); err != nil {
		return 0, -1, err
	}
	devnull := null.Fd()
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"sallyport-cell", CellCommand}, &syscall.ProcAttr{
		Files: []uintptr{devnull, devnull, 2, uintptr(socket)},
		// One processor and no collector keep an idle cell small; it lives for
		// one command and allocates a few kilobytes.
		Env: []string{"GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=single"},
		Sys: sys,
	})
	return pid, pidfd, err
}

// enter moves this thread, and so the child it clones next, into v1 control
// groups. Moving a process that already runs takes 7 ms, because the kernel
// waits for all others to notice; a thread that moves itself takes 0.03 ms.
func enter(groups []string) error {
	for _, g := range groups {
		if err := os.WriteFile(g+"/tasks", []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the control group: %w", err)
		}
	}
	return nil
}

// census knows the cells, so that the starter can tell them from orphans.
type census struct {
	mu    sync.Mutex
	alive map[int]bool
	open  bool // a cell without a PID namespace was made: orphans are possible
}

func (c *census) clone(req Clone, socket int) (pid, pidfd int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, pidfd, err = clone(req, socket)
	if err == nil {
		c.alive[pid] = true
		c.open = c.open || req.Flags&unix.CLONE_NEWPID == 0
	}
	return pid, pidfd, err
}

// reap collects ended cells; the daemon learns of the end from the pidfd. A
// child that is no cell is what a killed cell without a PID namespace left: it
// is killed too.
func (c *census) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		c.mu.Lock()
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
			delete(c.alive, pid)
		}
		if c.open {
			c.killOrphans()
		}
		c.mu.Unlock()
	}
}

func (c *census) killOrphans() {
	for _, child := range childrenOf(os.Getpid()) {
		if !c.alive[child] {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	}
}

// errno is the system's number for an error, 0 when it has none.
func errno(err error) int {
	var e syscall.Errno
	if errors.As(err, &e) {
		return int(e)
	}
	return 0
}

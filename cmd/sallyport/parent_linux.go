package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// parentEnds blocks until the process that started this one has ended (true) or
// ctx ends (false). A host that is killed may leave the pipe to its server open
// in another child, so end of file alone does not tell. The kernel's own
// PR_SET_PDEATHSIG is no use here: it fires when the host's thread ends that
// started us, which hosts on thread pools do all the time.
func parentEnds(ctx context.Context) bool {
	parent := os.Getppid()
	if parent <= 1 { // started by init, or orphaned already by a wrapper
		<-ctx.Done()
		return false
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return parentPolled(ctx, parent)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for ctx.Err() == nil && os.Getppid() == parent {
		if n, err := unix.Poll(fds, 1000); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return ctx.Err() == nil
}

// stopped reports whether a process is stopped (SIGSTOP, a debugger, a frozen
// terminal), as proc(5) tells.
func stopped(pid int) bool { return strings.Contains("Tt", stateOf(pid)) }

// ended reports whether a process has ended, though its parent may not have asked
// how: in a container nobody may.
func ended(pid int) bool { return strings.Contains("ZX", stateOf(pid)) || unix.Kill(pid, 0) != nil }

// stateOf is the one letter that proc(5) has for a process, "?" for none.
func stateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "?"
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	return cmp.Or(rest[:min(1, len(rest))], "?")
}

// readerGone reports whether nobody can read any more what is written to f, a
// pipe or a socket.
func readerGone(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	dead := false
	if err := raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(fds, 0); err == nil && n > 0 {
			dead = fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
		}
	}); err != nil {
		return true
	}
	return dead
}

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// activated is the listener that systemd holds for a socket's path, or nil where
// it holds none. See sd_listen_fds(3).
func activated(path string) (*net.UnixListener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	count, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil {
		return nil, nil
	}
	want, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the sockets' folder: %w", err)
	}
	for fd := 3; fd < 3+count; fd++ {
		addr, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		sun, ok := addr.(*unix.SockaddrUnix)
		if !ok {
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(sun.Name))
		if err != nil || dir != want || filepath.Base(sun.Name) != filepath.Base(path) {
			continue
		}
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), path)
		defer f.Close() // FileListener duplicates it
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("take over the socket that systemd holds: %w", err)
		}
		u, ok := l.(*net.UnixListener)
		if !ok {
			return nil, fmt.Errorf("the descriptor that systemd holds for %s is no stream socket", path)
		}
		u.SetUnlinkOnClose(false)
		return u, os.Chmod(path, 0o600)
	}
	return nil, nil
}

// nameOf calls the process behind a socket by its pid, where it is a daemon of
// ours; a socket that systemd holds has systemd behind it.
func nameOf(pid int) string {
	if isDaemon(pid) {
		return fmt.Sprintf("the daemon (pid %d)", pid)
	}
	return "the daemon (see `systemctl --user status sallyport`)"
}

// isDaemon reports whether a process runs this program.
func isDaemon(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.TrimSuffix(filepath.Base(exe), " (deleted)") == "sallyport"
}

// holderOf is the daemon that has a file open, 0 for none.
func holderOf(file string) int {
	want, err := filepath.EvalSymlinks(file)
	if err != nil {
		return 0
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err != nil || to != want {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(fd, "/")[2]); err == nil && isDaemon(pid) {
			return pid
		}
	}
	return 0
}

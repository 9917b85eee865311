package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// throughDir calls do with a short path to a socket: a Unix socket's address
// holds 108 bytes, so a deep state folder is reached through a descriptor.
func throughDir(path string, do func(short string) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// listen binds a socket that only its owner may use, or takes over the one that
// systemd holds. The caller holds the log's lock, so a socket file that exists is
// a dead one's.
func listen(path string) (*net.UnixListener, error) {
	if l, err := activated(path); l != nil || err != nil {
		return l, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	var l *net.UnixListener
	err := throughDir(path, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the short path dies with its descriptor
	return l, os.Chmod(path, 0o600)
}

func dial(path string) (*net.UnixConn, error) {
	var c *net.UnixConn
	err := throughDir(path, func(short string) (err error) {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	return c, err
}

// peer is who is at the other end of a Unix connection, by the kernel's word.
type peer struct {
	uid, pid int
	user     string
}

// peerOf reads a connection's peer credentials and refuses another user's.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if cerr != nil {
		return peer{}, fmt.Errorf("read peer credentials: %w", cerr)
	}
	p := peer{uid: int(cred.Uid), pid: int(cred.Pid), user: strconv.Itoa(int(cred.Uid))}
	if p.uid != os.Geteuid() {
		return peer{}, fmt.Errorf("user %d may not use the sallyport of user %d", p.uid, os.Geteuid())
	}
	if u, err := user.LookupId(p.user); err == nil {
		p.user = u.Username
	}
	return p, nil
}

// gone reports whether the peer has closed both directions.
func gone(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	hup := false
	if err := raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(fds, 0); err == nil && n > 0 {
			hup = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		}
	}); err != nil {
		return true
	}
	return hup
}

// parentOf is the process that started pid.
func parentOf(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; the state and the parent follow it.
	_, rest, ok := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), ") ")
	if !ok {
		return 0, fmt.Errorf("read /proc/%d/stat", pid)
	}
	var state string
	var parent int
	_, err = fmt.Sscan(rest, &state, &parent)
	return parent, err
}

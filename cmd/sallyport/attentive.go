package main

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// attentive is a connection to the daemon whose reads and writes fail once the
// daemon is stopped (SIGSTOP, a debugger): nothing would ever come. A daemon that
// is only slow is waited for; a verification of a large log takes its time.
type attentive struct {
	*net.UnixConn
	from  io.Reader // what is read: the connection, or a buffer over it
	place place
}

// attend dials one of the daemon's sockets.
func attend(p place, socket string) (net.Conn, error) {
	c, err := dial(socket)
	if err != nil {
		return nil, err
	}
	return &attentive{c, c, p}, nil
}

func (a *attentive) Read(b []byte) (int, error) {
	for {
		if err := a.SetReadDeadline(time.Now().Add(a.place.wait.frozeTime())); err != nil {
			return 0, err
		}
		n, err := a.from.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := a.stopped(); err != nil {
			return 0, err
		}
	}
}

func (a *attentive) Write(b []byte) (int, error) {
	done := 0
	for {
		if err := a.SetWriteDeadline(time.Now().Add(a.place.wait.frozeTime())); err != nil {
			return done, err
		}
		n, err := a.UnixConn.Write(b[done:])
		done += n
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		if err := a.stopped(); err != nil {
			return done, err
		}
	}
}

// stopped says so where the daemon is stopped.
func (a *attentive) stopped() error {
	pid := 0
	if who, err := peerOf(a.UnixConn); err == nil {
		pid = who.pid
	}
	if !isDaemon(pid) { // systemd made the socket, or its maker has ended
		pid = holderOf(a.place.desk())
	}
	if pid != 0 && stopped(pid) {
		return frozenDaemon(pid)
	}
	return nil
}

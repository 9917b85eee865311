//go:build !linux

package main

import (
	"errors"
	"fmt"
	"net"
)

// peer is who is at the other end of a Unix connection.
type peer struct {
	uid, pid int
	user     string
}

// errNoPeers means that a connection's user cannot be established here, and
// nobody is served on somebody's mere word.
var errNoPeers = fmt.Errorf("sockets whose peer the kernel names: %w", errors.ErrUnsupported)

func listen(string) (*net.UnixListener, error) { return nil, errNoPeers }

func dial(string) (*net.UnixConn, error) { return nil, errNoPeers }

func peerOf(*net.UnixConn) (peer, error) { return peer{}, errNoPeers }

func gone(*net.UnixConn) bool { return true }

func parentOf(int) (int, error) { return 0, errNoPeers }

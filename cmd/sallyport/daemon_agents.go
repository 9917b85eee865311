package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"sallyport/mcpserver"
	"sallyport/policy"
)

// accept serves each agent connection until the listener closes.
func (d *daemon) accept(ctx context.Context, l *net.UnixListener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil {
				d.logger.Error("accept an agent", "err", err)
			}
			return
		}
		conns.Go(func() {
			defer c.Close()
			d.touch()
			stop := context.AfterFunc(ctx, func() { c.CloseRead() })
			defer stop()
			if err := d.agent(ctx, c); err != nil {
				d.logger.Warn("agent connection", "err", err)
			}
			d.touch()
		})
	}
}

// agentConn is an agent's connection behind its handshake.
type agentConn struct {
	*net.UnixConn
	in *bufio.Reader
}

func (a agentConn) Read(b []byte) (int, error) { return a.in.Read(b) }

// Gone reports whether the agent has closed both directions.
func (a agentConn) Gone() bool { return gone(a.UnixConn) }

// agent greets one agent and serves it.
func (d *daemon) agent(ctx context.Context, c *net.UnixConn) error {
	a := agentConn{c, bufio.NewReaderSize(c, 64<<10)}
	if err := c.SetReadDeadline(time.Now().Add(d.helloTime)); err != nil {
		return err
	}
	p, err := d.greet(ctx, a)
	if err != nil {
		_ = writeLine(c, welcome{Error: err.Error(), Remedy: "see `sallyport doctor`"})
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := writeLine(c, welcome{OK: true, Session: p.Session, Version: version, PID: os.Getpid()}); err != nil {
		return err
	}
	defer d.host(p.Session, a)()
	d.sessions.enter(p.Session)
	defer func() {
		if d.sessions.leave(p.Session, time.Now()) && ctx.Err() == nil { // a daemon that stops ends no session
			d.sessionEnded(p.Session)
		}
	}()
	return d.mcp.Serve(ctx, a, p)
}

// host notes which process started a session's shim, until the function it
// returns is called.
func (d *daemon) host(session string, a agentConn) func() {
	who, err := peerOf(a.UnixConn)
	parent, perr := parentOf(who.pid)
	if err != nil || perr != nil {
		return func() {}
	}
	d.hostsMu.Lock()
	defer d.hostsMu.Unlock()
	d.hosts[session] = parent
	return func() {
		d.hostsMu.Lock()
		defer d.hostsMu.Unlock()
		delete(d.hosts, session)
	}
}

// greet reads the hello and establishes who calls.
func (d *daemon) greet(ctx context.Context, a agentConn) (*mcpserver.Peer, error) {
	who, err := peerOf(a.UnixConn)
	if err != nil {
		return nil, err
	}
	var h hello
	if err := readHello(a.in, &h); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if !h.Again { // who comes back is told first what became of its calls
		if err := d.judges.ready(ctx); err != nil {
			return nil, err
		}
	}
	if h.Sallyport != helloVersion {
		return nil, fmt.Errorf("the client speaks handshake %d and this daemon (version %s) speaks %d: restart the older of the two (`sallyport stop`)",
			h.Sallyport, version, helloVersion)
	}
	root, err := d.place.checkWorkspace(h.Workspace)
	if err != nil {
		return nil, err
	}
	session := h.Session
	if session == "" {
		session = ownSession + newID()
	}
	return &mcpserver.Peer{
		Agent: name(h.Agent), User: who.user, Session: name(session), Conn: newID(), Workspace: root,
		MaxTier: policy.L3,
		Sources: map[string]string{"user": "peercred", "agent": "client", "session": "client", "workspace": "client"},
	}, nil
}

// name keeps a client's own claim short and printable.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "unnamed"
	}
	return s[:min(len(s), 64)]
}

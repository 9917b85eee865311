package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// patience is a client's with the daemon; what is zero is the default. Loading the
// policy and recovering the log take about 0.1 s; a loaded machine, or twenty
// clients that start at once, take seconds.
type patience struct {
	start time.Duration // from the first dial to a daemon that listens
	greet time.Duration // from the hello to the welcome
	froze time.Duration // silence after which a daemon is looked at
	hook  time.Duration // for the judgement of a host's own call
	last  time.Duration // for answers after the host's last message
}

func (w patience) startTime() time.Duration { return cmp.Or(w.start, 30*time.Second) }
func (w patience) greetTime() time.Duration { return cmp.Or(w.greet, 20*time.Second) }
func (w patience) frozeTime() time.Duration { return cmp.Or(w.froze, 2*time.Second) }

// finishTime is more than the ten seconds after which the daemon gives up.
func (w patience) finishTime() time.Duration { return cmp.Or(w.last, 15*time.Second) }

// hookTime is less than the hook's own time-out, after which Claude Code lets the
// call run.
func (w patience) hookTime() time.Duration { return cmp.Or(w.hook, 40*time.Second) }

// relayConn is the daemon's connection behind the handshake.
type relayConn struct {
	*net.UnixConn
	in  *bufio.Reader
	pid int // the daemon's, by the kernel's word; 0 when it is not known
}

func (r *relayConn) Read(b []byte) (int, error) { return r.in.Read(b) }

// errHungUp means that the daemon ended, or was ending, while it was greeted.
var errHungUp = errors.New("the daemon hung up instead of greeting back")

// connect reaches the daemon, starting it if none runs, and shakes hands. A
// daemon that is just ending makes it try again.
func connect(ctx context.Context, p place, h hello) (*relayConn, welcome, error) {
	for end := time.Now().Add(p.wait.startTime()); ; {
		c, err := reach(ctx, p)
		if err != nil {
			return nil, welcome{}, err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		r, w, err := greet(p, c, h)
		if stop() && err == nil {
			return r, w, nil
		}
		c.Close()
		if ctx.Err() != nil || !errors.Is(err, errHungUp) || time.Now().After(end) {
			return nil, welcome{}, errors.Join(context.Cause(ctx), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// greet says hello and waits for the welcome. A daemon that is stopped does not
// answer; then its pid is what a person needs.
func greet(p place, c *net.UnixConn, h hello) (*relayConn, welcome, error) {
	who, err := peerOf(c)
	if err != nil {
		return nil, welcome{}, fmt.Errorf("look at who serves %s: %w", p.agentSock(), err)
	}
	r := &relayConn{c, bufio.NewReaderSize(c, 64<<10), who.pid}
	if err := writeLine(c, h); err != nil {
		return nil, welcome{}, errors.Join(errHungUp, err)
	}
	for end := time.Now().Add(p.wait.greetTime()); ; {
		if err := c.SetReadDeadline(time.Now().Add(p.wait.frozeTime())); err != nil {
			return nil, welcome{}, err
		}
		_, err := r.in.Peek(1)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, welcome{}, fmt.Errorf("%w (see %s)", errHungUp, p.daemonLog())
		}
		if stopped(who.pid) {
			return nil, welcome{}, frozenDaemon(who.pid)
		}
		if time.Now().After(end) {
			return nil, welcome{}, fmt.Errorf("%s did not greet back within %s: see %s", nameOf(who.pid), p.wait.greetTime(), p.daemonLog())
		}
	}
	var w welcome
	if err := readHello(r.in, &w); err != nil {
		return nil, welcome{}, fmt.Errorf("%s greets in another language: %w; it may be another version, end it with `sallyport stop`", nameOf(who.pid), err)
	}
	if !w.OK {
		return nil, welcome{}, errors.New(w.Error)
	}
	if w.PID != 0 {
		r.pid = w.PID
	}
	return r, w, c.SetReadDeadline(time.Time{})
}

// tooMany is the error for a socket whose queue is full.
func tooMany(p place) error {
	if pid := holderOf(p.desk()); pid != 0 && stopped(pid) {
		return frozenDaemon(pid)
	}
	return fmt.Errorf("the daemon takes no more connections: it is overloaded (see %s)", p.daemonLog())
}

func frozenDaemon(pid int) error {
	return fmt.Errorf("the daemon (pid %d) is stopped and answers nobody: let it go on with `kill -CONT %d`, or end it with `kill -KILL %d`", pid, pid, pid)
}

// takeTurn keeps many clients from starting a daemon each at the same moment:
// the one that has locked the state folder starts it, the others look on. It is
// a courtesy only, and it ends with its process; the log's lock elects.
func takeTurn(state string) (give func(), ok bool) {
	dir, err := os.Open(state)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		dir.Close()
		return nil, false
	}
	return func() { dir.Close() }, true
}

// reach dials the daemon. If none listens it starts one, and again when that one
// lost the election to a daemon that has ended since.
func reach(ctx context.Context, p place) (*net.UnixConn, error) {
	if err := p.make(); err != nil {
		return nil, err
	}
	var ours <-chan int // the exit code of a daemon that we started
	turn := func() {}   // gives up our turn to start one
	defer func() { turn() }()
	pause := 500 * time.Millisecond
	next := time.Now() // when to start one
	for end := time.Now().Add(p.wait.startTime()); ; {
		c, err := dial(p.agentSock())
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EAGAIN):
			return nil, fmt.Errorf("reach the daemon: %w", err)
		case time.Now().After(end) && errors.Is(err, syscall.EAGAIN):
			return nil, tooMany(p)
		case time.Now().After(end):
			return nil, fmt.Errorf("no daemon listened within %s: see %s", p.wait.startTime(), p.daemonLog())
		}
		if ours == nil && time.Now().After(next) && !errors.Is(err, syscall.EAGAIN) {
			if give, ok := takeTurn(p.state); ok {
				turn = give
				if ours, err = startDaemon(p); err != nil {
					return nil, err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		case code := <-ours:
			if code != exitServed && code != killed {
				return nil, fmt.Errorf("the daemon ended at once (exit %d): %s", code, lastLine(p.daemonLog()))
			}
			turn()
			turn = func() {}
			ours, next = nil, time.Now().Add(pause)
			pause = min(2*pause, 4*time.Second)
		}
	}
}

// killed is the exit code of a process that a signal ended.
const killed = -1

// startDaemon starts `sallyport serve` in a session of its own, so that it
// outlives this process. The channel gets its exit code when it has ended.
func startDaemon(p place) (<-chan int, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find sallyport's own binary: %w", err)
	}
	log, err := os.OpenFile(p.daemonLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	proc, err := os.StartProcess(self, []string{self, "serve", "--idle-exit", "--state", p.state}, &os.ProcAttr{
		Dir: "/", Env: daemonEnv(os.Environ()), Files: []*os.File{null, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	exited := make(chan int, 1)
	go func() {
		if st, err := proc.Wait(); err == nil {
			exited <- st.ExitCode()
		}
	}()
	return exited, nil
}

// daemonEnv is the environment a started daemon keeps. A host hands its whole
// environment on, API keys included; the daemon needs none of that.
func daemonEnv(environ []string) []string {
	var out []string
	for _, kv := range environ {
		k, _, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains([]string{"HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GOROOT", "GOPATH", "GOMODCACHE", "GOPROXY", "GOCOVERDIR"}, k),
			strings.HasPrefix(k, "LC_"), strings.HasPrefix(k, "XDG_"), strings.HasPrefix(k, "SALLYPORT_"):
			out = append(out, kv)
		}
	}
	return out
}

func lastLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "no log at " + filepath.Base(file)
	}
	last := ""
	for line := range lines(string(b)) {
		if line != "" {
			last = line
		}
	}
	return last
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// cage is the daemon's side of one cell, good for one command.
type cage struct {
	conn  *cell.Conn
	pid   int
	pidfd *os.File
	walls []Wall
	group group // nil without control groups
	proxy *os.File
	whole bool              // a PID namespace ends with its first process
	moved map[string]string // cell paths that lie elsewhere, without a private root
	undo  func()            // removes what was made for its rung
	layer string            // id of its write layer, "" without
	from  *starter
	blank bool // it was one
	open  bool // it has no private root
}

// errRaise is a wall that could not be raised.
type errRaise struct {
	wall, reason string
	errno        syscall.Errno
}

func (e *errRaise) Error() string { return "raise " + e.wall + ": " + e.reason }

// openCage clones a cell and tells it what to be; without filters that is left
// to tell.
func (s *starter) openCage(ctx context.Context, spec cell.Spec, filters []*os.File, g group) (*cage, error) {
	conn, end, err := cell.Pair()
	if err != nil {
		return nil, err
	}
	if len(filters) > 0 { // queued before the cell exists, so that it never waits
		err = tell(conn, spec, filters)
	}
	if err == nil {
		var c *cage
		if c, err = s.enter(ctx, conn, end, spec, g); err == nil {
			unix.Close(end)
			return c, nil
		}
	}
	unix.Close(end)
	conn.Close()
	return nil, err
}

func tell(conn *cell.Conn, spec cell.Spec, filters []*os.File) error {
	fds := make([]int, len(filters))
	for i, f := range filters {
		fds[i] = int(f.Fd())
	}
	return conn.Send(spec, fds...)
}

func (s *starter) enter(ctx context.Context, conn *cell.Conn, end int, spec cell.Spec, g group) (*cage, error) {
	req := cell.Clone{Flags: spec.Flags, UID: spec.UID, GID: spec.GID}
	if g != nil {
		g.join(&req)
	}
	pid, pidfd, err := s.clone(ctx, req, end)
	if err != nil {
		return nil, err
	}
	return &cage{
		from: s, conn: conn, pid: pid, group: g, pidfd: os.NewFile(uintptr(pidfd), "pidfd"),
		whole: spec.Flags&unix.CLONE_NEWPID != 0, undo: func() {},
	}, nil
}

// ready waits for the cell's report.
func (c *cage) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var ready cell.Ready
	fds, err := c.conn.Receive(&ready)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &errRaise{wall: "cell", reason: "it ended before its walls stood: " + err.Error()}
	}
	if len(fds) == 1 {
		c.proxy = os.NewFile(uintptr(fds[0]), "proxy listener")
	}
	for _, w := range ready.Walls {
		c.walls = append(c.walls, Wall{Name: w.Name, Up: w.Up, Reason: w.Reason})
	}
	if ready.Error != "" {
		return &errRaise{ready.Wall, ready.Error, syscall.Errno(ready.Errno)}
	}
	return nil
}

// kill ends every process of the cell at once. It may be called repeatedly and
// while others wait. Without a PID namespace the cell's first process must end
// its descendants itself, and does so when we hang up.
func (c *cage) kill() {
	if !c.whole {
		c.conn.Close()
		return
	}
	c.signal()
}

// signal kills the first process. It may meet close: a file's raw connection
// says no once it is closed, so that no other descriptor is ever meant.
func (c *cage) signal() {
	if raw, err := c.pidfd.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
}

// ended waits for the end of the first process, as poll(2) does.
func (c *cage) ended(timeout time.Duration) bool {
	raw, err := c.pidfd.SyscallConn()
	if err != nil {
		return true
	}
	gone := true // closed: it ended long ago
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, int(timeout.Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				gone = n > 0
				return
			}
		}
	})
	return gone
}

// close kills the cell, waits until no process of it exists, and removes its
// control group.
func (c *cage) close() error {
	c.kill()
	c.conn.Close()
	if c.proxy != nil {
		c.proxy.Close()
	}
	c.gone()
	c.pidfd.Close()
	c.undo()
	if c.group == nil {
		return nil
	}
	return c.group.remove()
}

// command is one program as a cell runs it.
type command struct {
	run    cell.Run
	plain  bool // its environment is the cell's own
	stdin  []byte
	limits Limits
	layer  string // folder of the write layer's files, "" without
}

// outcome is what came of a command.
type outcome struct {
	exit           cell.Exit
	stdout, stderr Output
	wall           time.Duration
	timeout        bool
	layer          int64 // bytes seen in the write layer, when over its limit
	lost           bool  // the cell died without a report
}

// do runs the command and returns when it and all it started are gone. The
// error is ctx's or a failure to start.
func (c *cage) do(ctx context.Context, cmd command) (outcome, error) {
	var o outcome
	std, err := openStreams(cmd.stdin, cmd.limits.Output)
	if err != nil {
		return o, err
	}
	defer std.close()
	start := time.Now()
	if len(c.moved) > 0 {
		cmd.run.Env = relocate(cmd.run.Env, c.moved)
	} else if cmd.plain {
		cmd.run.Env = nil
	}
	err = c.conn.Send(cmd.run, std.child...)
	std.handOver()
	if err != nil {
		return o, fmt.Errorf("hand the command over: %w", err)
	}
	wait, stop := ctx, context.CancelFunc(func() {})
	if cmd.limits.Wall > 0 {
		wait, stop = context.WithTimeout(ctx, cmd.limits.Wall)
	}
	defer stop()
	unhook := context.AfterFunc(wait, c.kill)
	measured := c.watchLayer(wait, cmd)
	_, rerr := c.conn.Receive(&o.exit)
	unhook()
	o.wall = time.Since(start)
	if rerr != nil {
		o.lost = true
		o.exit = cell.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	}
	if !o.exit.Alone {
		c.kill()
		c.gone()
	}
	o.layer = measured()
	std.wait()
	o.stdout, o.stderr = std.out.output(), std.err.output()
	if rerr != nil && ctx.Err() != nil {
		return o, ctx.Err()
	}
	if rerr != nil && wait.Err() != nil {
		o.timeout = true
		return o, nil
	}
	if rerr != nil && !errors.Is(rerr, io.EOF) && !errors.Is(rerr, syscall.ECONNRESET) && !errors.Is(rerr, os.ErrClosed) {
		return o, fmt.Errorf("read how the command ended: %w", rerr)
	}
	return o, nil
}

// gone waits until the cell's first process, and with it all others, ended.
// One that has no PID namespace is killed when it takes too long to end its
// descendants; the starter then ends them.
func (c *cage) gone() {
	const patience = 5 * time.Second
	for !c.ended(patience) {
		c.signal()
	}
}

// layerEvery is how often a write layer is measured. At 2 GiB/s half a second
// is a GiB over the limit; the next run of any command meets the same bound.
const layerEvery = 500 * time.Millisecond

// watchLayer kills the cell when its write layer outgrows the disk limit. The
// function it gives stops the watch and tells the size it then had, 0 within
// the limit.
func (c *cage) watchLayer(ctx context.Context, cmd command) (measured func() int64) {
	if cmd.layer == "" || cmd.limits.Disk <= 0 {
		return func() int64 { return 0 }
	}
	ctx, stop := context.WithCancel(ctx)
	over := make(chan int64, 1)
	go func() {
		tick := time.NewTicker(layerEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				over <- 0
				return
			case <-tick.C:
			}
			if n := treeSize(cmd.layer); n > cmd.limits.Disk {
				c.kill()
				over <- n
				return
			}
		}
	}()
	return func() int64 {
		stop()
		return <-over
	}
}

// treeSize is the disk space of the files in a folder, in bytes. What vanishes
// while it looks counts nothing.
func treeSize(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// serveNet serves the cell's proxy until stop, which also notes what went
// through it. Without allowed endpoints there is nothing to serve.
func (c *cage) serveNet(allow []Endpoint, res *Result) (stop func(), err error) {
	if len(allow) == 0 {
		return func() {}, nil
	}
	if c.proxy == nil {
		return nil, errors.New("the cell sent no listener for its proxy")
	}
	l, err := net.FileListener(c.proxy)
	if err != nil {
		return nil, fmt.Errorf("take the cell's listener: %w", err)
	}
	p := newNetproxy(allow)
	served := make(chan struct{})
	go func() { p.serve(l); close(served) }()
	return func() {
		l.Close()
		p.close()
		<-served
		res.Net, res.Denials = p.report()
	}, nil
}

// streams are the three standard streams of one command.
type streams struct {
	outR, errR *os.File
	child      []int // the command's ends, blocking, as programs expect
	out, err   capture
	done       chan struct{}
}

func openStreams(stdin []byte, limit int64) (*streams, error) {
	s := &streams{out: capture{limit: limit}, err: capture{limit: limit}, done: make(chan struct{}, 2)}
	in, err := inputFile(stdin)
	if err != nil {
		return nil, err
	}
	s.child = append(s.child, in)
	for _, ours := range []**os.File{&s.outR, &s.errR} {
		var ends [2]int
		if err = unix.Pipe2(ends[:], unix.O_CLOEXEC); err == nil {
			s.child = append(s.child, ends[1])
			if err = unix.SetNonblock(ends[0], true); err == nil {
				*ours = os.NewFile(uintptr(ends[0]), "output of the command")
				continue
			}
			unix.Close(ends[0])
		}
		s.close()
		return nil, fmt.Errorf("make pipes for the command: %w", err)
	}
	return s, nil
}

// inputFile holds standard input whole, so that nobody has to feed it.
func inputFile(stdin []byte) (int, error) {
	if len(stdin) == 0 {
		return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("hold standard input: %w", err)
	}
	for rest := stdin; len(rest) > 0 && err == nil; {
		var n int
		if n, err = unix.Write(fd, rest); err == nil {
			rest = rest[n:]
		}
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	if err == nil {
		_, err = unix.Seek(fd, 0, io.SeekStart)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("hold standard input: %w", err)
	}
	return fd, nil
}

// handOver closes our copies of the command's ends and starts to read.
func (s *streams) handOver() {
	s.letGo()
	go func() { s.out.drain(s.outR); s.done <- struct{}{} }()
	go func() { s.err.drain(s.errR); s.done <- struct{}{} }()
}

// letGo closes the command's ends.
func (s *streams) letGo() {
	for _, fd := range s.child {
		unix.Close(fd)
	}
	s.child = nil
}

// lingering bounds how long we read after the end of everything: where there
// is no PID namespace an escaped child may hold a pipe open.
const lingering = time.Second

func (s *streams) wait() {
	deadline := time.Now().Add(lingering)
	_ = s.outR.SetReadDeadline(deadline)
	_ = s.errR.SetReadDeadline(deadline)
	<-s.done
	<-s.done
}

func (s *streams) close() {
	s.letGo()
	for _, f := range []*os.File{s.outR, s.errR} {
		if f != nil {
			f.Close()
		}
	}
}

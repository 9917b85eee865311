package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// starter is the daemon's side of the long-lived child that clones cells.
type starter struct {
	conn *cell.Conn
	done chan struct{} // closed when the child has ended and was reaped

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan cloned
}

type cloned struct {
	cell.Cloned
	pidfd int
}

var errStarterGone = errors.New("the cell starter has ended")

// startStarter starts the child. It dies with this process: by its socket, and
// by a parent-death signal, which is bound to a thread and so needs one kept.
func startStarter(binary string) (*starter, error) {
	conn, end, err := cell.Pair()
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(end), "starter socket")
	defer file.Close()
	cmd := &exec.Cmd{
		Path:       binary,
		Args:       []string{"sallyport-cell", cell.StarterCommand},
		Env:        []string{"GOMAXPROCS=2"},
		Dir:        "/",
		Stderr:     os.Stderr,
		ExtraFiles: []*os.File{file},
		SysProcAttr: &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL,
			Setsid:    true,
		},
	}
	s := &starter{conn: conn, done: make(chan struct{}), waiting: map[uint64]chan cloned{}}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its exit code says nothing its silence does not
		}
		close(s.done)
	}()
	if err := <-started; err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the cell starter: %w", err)
	}
	go s.receive()
	return s, nil
}

func (s *starter) receive() {
	for {
		var c cloned
		fds, err := s.conn.Receive(&c.Cloned)
		if err != nil {
			break
		}
		c.pidfd = -1
		if len(fds) == 1 {
			c.pidfd = fds[0]
		}
		s.mu.Lock()
		w := s.waiting[c.ID]
		delete(s.waiting, c.ID)
		s.mu.Unlock()
		if w == nil { // whoever asked has gone
			discard(c)
			continue
		}
		w <- c
	}
	s.mu.Lock()
	for id, w := range s.waiting {
		delete(s.waiting, id)
		close(w)
	}
	s.waiting = nil
	s.mu.Unlock()
}

// discard ends a cell that nobody waits for.
func discard(c cloned) {
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
		unix.Close(c.pidfd)
	}
}

// clone makes one cell whose socket is fd, which stays the caller's.
func (s *starter) clone(ctx context.Context, req cell.Clone, fd int) (pid, pidfd int, err error) {
	w := make(chan cloned, 1)
	s.mu.Lock()
	if s.waiting == nil {
		s.mu.Unlock()
		return 0, -1, errStarterGone
	}
	s.next++
	req.ID = s.next
	s.waiting[req.ID] = w
	err = s.conn.Send(req, fd)
	s.mu.Unlock()
	if err != nil {
		return 0, -1, fmt.Errorf("ask for a cell: %w", err)
	}
	select {
	case c, ok := <-w:
		switch {
		case !ok:
			return 0, -1, errStarterGone
		case c.Error != "":
			return 0, -1, &errRaise{"namespaces", c.Error, syscall.Errno(c.Errno)}
		case c.pidfd < 0:
			return 0, -1, errors.New("the starter sent no pidfd: the kernel is older than 5.3")
		}
		return c.Pid, c.pidfd, nil
	case <-ctx.Done():
		s.mu.Lock()
		_, mine := s.waiting[req.ID]
		delete(s.waiting, req.ID)
		s.mu.Unlock()
		if !mine { // the answer came or the starter went
			if c, ok := <-w; ok {
				discard(c)
			}
		}
		return 0, -1, ctx.Err()
	}
}

// close ends the child and waits for it; its cells end with it.
func (s *starter) close() {
	s.conn.Close()
	<-s.done
}

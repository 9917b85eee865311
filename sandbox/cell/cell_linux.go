package cell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cell is the life of one cell: walls, Ready, one Run, Exit. It returns once
// the program has ended; the caller exits at once, and the kernel then kills
// whatever the program left behind.
func Cell() error {
	// Filters, the bounding set and no_new_privs hold for this thread and
	// what it forks.
	runtime.LockOSThread()
	conn := inherited()
	var spec Spec
	fds, err := conn.Receive(&spec)
	if err != nil {
		return hungUp(fmt.Errorf("read the spec: %w", err))
	}
	s := &site{spec: spec, listener: -1}
	for _, fd := range fds {
		program, err := readAll(fd)
		if err != nil {
			return err
		}
		s.filters = append(s.filters, program)
	}
	closeAll(fds)
	ready := s.raise()
	if spec.Warm && ready.Error == "" {
		s.rehearse()
	}
	if s.listener >= 0 {
		err = conn.Send(ready, s.listener)
		unix.Close(s.listener)
	} else {
		err = conn.Send(ready)
	}
	if err != nil || ready.Error != "" {
		return hungUp(err)
	}
	var run Run
	stdio, err := conn.Receive(&run)
	if err != nil { // an unused warm cell ends here
		return hungUp(fmt.Errorf("read the command: %w", err))
	}
	if s.spec.Flags&unix.CLONE_NEWPID != 0 {
		return hungUp(conn.Send(s.run(run, stdio)))
	}
	// Nobody ends our children for us: when the daemon hangs up, we do.
	go func() {
		var none struct{}
		_, _ = conn.Receive(&none)
		killTree(os.Getpid())
		os.Exit(1)
	}()
	exit := s.run(run, stdio)
	killTree(os.Getpid())
	return hungUp(conn.Send(exit))
}

// hungUp drops the errors that say the daemon is gone: that is no failure.
func hungUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// rehearse goes the way of a command with a program that does not exist, which
// takes 0.2 ms off the real one.
func (s *site) rehearse() {
	data, err := json.Marshal(Run{Argv: []string{"/"}, Env: []string{"PATH=/"}, Dir: "/"})
	if err != nil {
		return
	}
	var run Run
	if json.Unmarshal(data, &run) != nil {
		return
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = json.Marshal(s.run(run, []int{null, null, null}))
}

func (s *site) run(run Run, stdio []int) Exit {
	if len(stdio) != 3 {
		return Exit{Error: "the command came without its standard streams"}
	}
	if run.Env == nil {
		run.Env = s.spec.Env
	}
	path, err := lookPath(run)
	if err != nil {
		return Exit{Error: err.Error()}
	}
	if file := s.stale(run.Expect); file != "" {
		return Exit{Stale: file}
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if s.spec.Flags&unix.CLONE_NEWPID == 0 {
		sys.Pdeathsig = unix.SIGKILL
	}
	pid, err := syscall.ForkExec(path, run.Argv, &syscall.ProcAttr{
		Dir:   run.Dir,
		Env:   run.Env,
		Files: []uintptr{uintptr(stdio[0]), uintptr(stdio[1]), uintptr(stdio[2])},
		Sys:   sys,
	})
	closeAll(stdio)
	if err != nil {
		return Exit{Error: fmt.Sprintf("start %s in %s: %v", run.Argv[0], run.Dir, err)}
	}
	return wait(pid)
}

// wait reaps until the program ends, orphans included: this is process 1.
func wait(child int) Exit {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, 0, &ru)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Exit{Error: fmt.Sprintf("wait for the program: %v", err)}
		}
		if pid != child {
			continue
		}
		exit := Exit{
			Code:   ws.ExitStatus(),
			UserNS: ru.Utime.Nano(),
			SysNS:  ru.Stime.Nano(),
			MaxRSS: ru.Maxrss << 10,
			Alone:  alone(),
		}
		if ws.Signaled() {
			exit.Signal = int(ws.Signal())
			exit.Code = 128 + exit.Signal
		}
		return exit
	}
}

// killTree ends every descendant of pid and waits until none is left. A child
// of a killed process comes to us, who are its subreaper, and is met in the
// next round.
func killTree(pid int) {
	for {
		children := childrenOf(pid)
		for _, c := range children {
			_ = unix.Kill(c, unix.SIGKILL)
		}
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
	}
}

// childrenOf lists the direct children of every thread of pid.
func childrenOf(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []int
	for _, l := range lists {
		data, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(data)) {
			if c, err := strconv.Atoi(f); err == nil {
				all = append(all, c)
			}
		}
	}
	return all
}

// alone reports whether no child is left. Process 1 inherits every orphan of
// its namespace, so that this means nobody is left in the cell.
func alone() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return os.Getpid() == 1
		case err != nil && !errors.Is(err, unix.EINTR), err == nil && pid == 0:
			return false
		}
	}
}

// lookPath finds the program inside the cell, as execvp(3) would.
func lookPath(run Run) (string, error) {
	if len(run.Argv) == 0 || run.Argv[0] == "" {
		return "", errors.New("no program named")
	}
	name := run.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, kv := range run.Env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			p := filepath.Join(dir, name)
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no such program in the cell's PATH", name)
}

func readAll(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("read the seccomp program: %w", err)
	}
	buf := make([]byte, st.Size)
	if n, err := unix.Pread(fd, buf, 0); err != nil || n != len(buf) {
		return nil, fmt.Errorf("read the seccomp program: %d of %d bytes: %w", n, len(buf), err)
	}
	return buf, nil
}

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Workspace is a directory tree that file operations cannot leave. It holds a
// descriptor of its root and reaches every file from there, one component at a
// time, with O_NOFOLLOW: the kernel never follows a link for it, so a component
// that is swapped between a check and its use can only make the call fail.
// Symbolic links are resolved in text and must end beneath the root. Its
// methods may be called concurrently.
//
// What it cannot tell apart: a read of a hard link whose other name lies
// outside, and a mount placed beneath the root.
type Workspace struct {
	root     string
	fd       int
	uid, gid int        // owner of the root: new files get it when we are root
	writing  sync.Mutex // one write at a time, so that an edit's read and rename are one step
}

// dirFlags open a directory as a place to start from, never its content.
const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// maxLinks bounds symbolic links on one path, as the kernel's ELOOP does.
const maxLinks = 40

// OpenWorkspace opens the tree at root, an absolute path without symbolic links.
func OpenWorkspace(root string) (*Workspace, error) {
	clean := filepath.Clean(root)
	if !filepath.IsAbs(clean) {
		return nil, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("open the workspace %s: not an absolute path", root), Remedy: "give the absolute path of the project"}
	}
	real, err := filepath.EvalSymlinks(clean)
	if err != nil {
		return nil, failure("open the workspace", root, err)
	}
	if real != clean {
		return nil, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("open the workspace %s: the path holds a symbolic link", root), Remedy: "use " + real}
	}
	fd, err := unix.Open(clean, dirFlags, 0)
	if err != nil {
		return nil, failure("open the workspace", root, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, failure("open the workspace", root, err)
	}
	return &Workspace{root: clean, fd: fd, uid: int(st.Uid), gid: int(st.Gid)}, nil
}

// Close gives the root descriptor back. No operation may follow.
func (w *Workspace) Close() error { return unix.Close(w.fd) }

// spot is one name in one open directory: the only form in which workspace
// files are touched.
type spot struct {
	dir  int    // O_PATH descriptor
	name string // a plain name, or "." for dir itself
	path string // where that really is, relative to the workspace
	held []int  // descriptors that close gives back
}

func (s *spot) close() {
	for _, fd := range s.held {
		unix.Close(fd)
	}
	s.held = nil
}

// stat describes the name without following it.
func (s *spot) stat() (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Fstatat(s.dir, s.name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// reach says how find treats links and missing directories; the values add up.
type reach int

const (
	follow reach = 0 // links that stay inside are followed
	noLink reach = 1 // the last component is taken as it is
	mkdirs reach = 2 // missing directories are made
	strict reach = 4 // a link among the directories is an error: ENOTDIR
)

// find walks to p. The name it ends at need not exist. The caller closes the
// spot. act is for the error's text.
func (w *Workspace) find(act, p string, how reach) (*spot, error) {
	if err := local(act, p); err != nil {
		return nil, err
	}
	k := walk{w: w, how: how, todo: strings.Split(filepath.ToSlash(p), "/")}
	s, err := k.run()
	if err == nil {
		return s, nil
	}
	k.pop(len(k.dirs))
	if errors.Is(err, errOutside) {
		return nil, outside(act, p)
	}
	return nil, failure(act, p, err)
}

var errOutside = errors.New("outside")

// walk is the state of one find.
type walk struct {
	w     *Workspace
	how   reach
	todo  []string // components still to go
	dirs  []int    // open directories beneath the root, in order
	names []string // their names
	links int
}

func (k *walk) cur() int {
	if n := len(k.dirs); n > 0 {
		return k.dirs[n-1]
	}
	return k.w.fd
}

func (k *walk) pop(n int) {
	keep := len(k.dirs) - n
	for _, fd := range k.dirs[keep:] {
		unix.Close(fd)
	}
	k.dirs, k.names = k.dirs[:keep], k.names[:keep]
}

func (k *walk) at(name string) *spot {
	p := strings.Join(append(append([]string{}, k.names...), name), "/")
	if name == "." {
		p = strings.Join(k.names, "/")
	}
	if p == "" {
		p = "."
	}
	return &spot{dir: k.cur(), name: name, path: p, held: k.dirs}
}

func (k *walk) run() (*spot, error) {
	for len(k.todo) > 0 {
		c := k.todo[0]
		k.todo = k.todo[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			if len(k.dirs) == 0 {
				return nil, errOutside
			}
			k.pop(1)
			continue
		}
		var st unix.Stat_t
		err := retry(func() error { return unix.Fstatat(k.cur(), c, &st, unix.AT_SYMLINK_NOFOLLOW) })
		last := k.last()
		isLink := err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
		switch {
		case isLink && !last && k.how&strict != 0:
			return nil, unix.ENOTDIR
		case isLink && !(last && k.how&noLink != 0):
			if err := k.link(c); err != nil {
				return nil, err
			}
		case last && (err == nil || err == unix.ENOENT):
			return k.at(c), nil
		default:
			if err := k.enter(c, err); err != nil {
				return nil, err
			}
		}
	}
	return k.at("."), nil
}

func (k *walk) last() bool {
	for _, c := range k.todo {
		if c != "" && c != "." {
			return false
		}
	}
	return true
}

// link puts the target of the link c in front of what is still to go.
func (k *walk) link(c string) error {
	if k.links++; k.links > maxLinks {
		return unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(k.cur(), c, buf)
	if err != nil {
		return err
	}
	target := string(buf[:n])
	if filepath.IsAbs(target) {
		rel, ok := relativeTo(k.w.root, target)
		if !ok {
			return errOutside
		}
		k.pop(len(k.dirs))
		target = rel
	}
	k.todo = append(strings.Split(target, "/"), k.todo...)
	return nil
}

// enter opens the directory c; statErr is what looking at it gave.
func (k *walk) enter(c string, statErr error) error {
	made := statErr == unix.ENOENT && k.how&mkdirs != 0
	if made {
		statErr = k.w.mkdir(k.cur(), c)
	}
	if statErr != nil {
		return statErr
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(k.cur(), c, dirFlags, 0)
		return err
	})
	if err != nil {
		return err
	}
	k.dirs, k.names = append(k.dirs, fd), append(k.names, c)
	if made {
		return k.w.own(fd)
	}
	return nil
}

// mkdir makes one directory, as open as its parent.
func (w *Workspace) mkdir(dir int, name string) error {
	mode, err := newMode(dir, 0o777)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, name, mode); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// own gives something new to the workspace's owner when we are root.
func (w *Workspace) own(fd int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Fchownat(fd, "", w.uid, w.gid, unix.AT_EMPTY_PATH)
}

// newMode is the mode of something new: no more open than its directory. The
// daemon's umask is for its own files and plays no part.
func newMode(dir int, most uint32) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return 0, err
	}
	return st.Mode&most | 0o600, nil
}

// openFile opens a regular file for reading. Nothing else is ever opened: a
// FIFO would block, a device may act on open.
func (s *spot) openFile() (*os.File, unix.Stat_t, error) {
	st, err := s.stat()
	if err != nil {
		return nil, st, err
	}
	if err := regular(st); err != nil {
		return nil, st, err
	}
	fd, err := s.openFd()
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), s.path)
	if err = unix.Fstat(fd, &st); err == nil {
		err = regular(st)
	}
	if err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// openFd opens what is known to be a regular file. Should it be swapped for
// something else meanwhile, the open does not block, and the caller must look
// at what it got.
func (s *spot) openFd() (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(s.dir, s.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// openDir opens the directory for reading its entries.
func (s *spot) openDir() (*os.File, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(s.dir, s.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), s.path), nil
}

// notRegular is a file that is no plain content.
type notRegular struct{ what string }

func (e notRegular) Error() string { return "it is " + e.what }

func regular(st unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFLNK:
		return notRegular{"a symbolic link"}
	case unix.S_IFIFO:
		return notRegular{"a FIFO"}
	case unix.S_IFSOCK:
		return notRegular{"a socket"}
	}
	return notRegular{"a device"}
}

func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// failure words an operating system error for whoever asked.
func failure(act, p string, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	e := &Error{Kind: KindIO, Msg: act + " " + p, Remedy: "look at the cause; nothing was changed", Err: err}
	var odd notRegular
	switch {
	case errors.Is(err, unix.ENOENT):
		e.Kind, e.Msg, e.Err = KindMissing, e.Msg+": no such file or directory", nil
		e.Remedy = "look for the right path with glob or list_directory"
	case errors.Is(err, unix.ENOTDIR):
		e.Kind, e.Remedy = KindInvalid, "a part of the path is a file where a directory is needed; check it with list_directory"
	case errors.Is(err, unix.EISDIR):
		e.Kind, e.Remedy = KindInvalid, "this is a directory; use list_directory, or name a file in it"
	case errors.As(err, &odd):
		e.Kind, e.Remedy = KindInvalid, "only regular files are read and written"
	case errors.Is(err, unix.ELOOP):
		e.Kind, e.Remedy = KindInvalid, "the path changed while it was looked at or its links go in a circle; name the real file"
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		e.Kind, e.Remedy = KindInvalid, "use a shorter, ordinary name"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		e.Remedy = "ask the person who owns the file for permission; nothing was changed"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Remedy = "the disk is full: free space, then repeat the call; nothing was changed"
	}
	return e
}

//go:build linux

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func (w *Workspace) write(op FileOp, expect map[string]string) (FileResult, error) {
	if op.Write == nil {
		return FileResult{}, incomplete(op)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	s, err := w.findFor(op, mkdirs)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	before, err := s.digest()
	if err != nil {
		return FileResult{}, failure("write", op.Path, err)
	}
	if want, ok := expected(expect, op.Path, s.path); ok && want != before {
		return FileResult{}, stale("write", op.Path)
	}
	return w.settle(op, s, before, op.Write.Content)
}

// settle makes content the file's new content if it still has the digest before.
func (w *Workspace) settle(op FileOp, s *spot, before string, content []byte) (FileResult, error) {
	act := string(op.Op)
	after := hexSum(content)
	res := FileResult{Path: s.path, Size: int64(len(content)), SHA256: after}
	if before == after {
		return res, nil
	}
	if err := w.replace(s, content, before); err != nil {
		if errors.Is(err, errStale) {
			return FileResult{}, stale(act, op.Path)
		}
		return FileResult{}, failure(act, op.Path, err)
	}
	res.Change = &Change{Path: s.path, Kind: "modified", Before: before, After: after, Size: res.Size}
	if before == "" {
		res.Change.Kind = "added"
	}
	return res, nil
}

var errStale = errors.New("changed meanwhile")

// replace puts content in a new file beside the old one and renames it over
// it, so that a reader sees the old or the new and another hard link of the
// old stays as it was. Mode and owner are kept; extended attributes are not.
// The digest is checked a last time right before the rename.
func (w *Workspace) replace(s *spot, content []byte, before string) error {
	if s.name == "." {
		return unix.EISDIR
	}
	f, err := s.temp()
	if err != nil {
		return err
	}
	defer f.discard()
	if err := w.fill(f.File, s, content, before == ""); err != nil {
		return err
	}
	check := func() error {
		if now, err := s.digest(); err != nil || now == before {
			return err
		}
		return errStale
	}
	if err := f.become(before == "", check); err != nil {
		return err
	}
	return syncDir(s.dir)
}

// draft is the coming content of a name. Until become it has no name where the
// file system can do that (O_TMPFILE), so that a crash leaves nothing behind
// and no watcher sees it; else it has an unguessable one.
type draft struct {
	*os.File
	s    *spot
	name string // "" while it has none
}

func (s *spot) temp() (*draft, error) {
	const flags = unix.O_WRONLY | unix.O_CLOEXEC
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(s.dir, ".", flags|unix.O_TMPFILE, 0o600)
		return err
	})
	if err == nil {
		return &draft{File: os.NewFile(uintptr(fd), s.path), s: s}, nil
	}
	name := tempName()
	err = retry(func() (err error) {
		fd, err = unix.Openat(s.dir, name, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &draft{File: os.NewFile(uintptr(fd), s.path), s: s, name: name}, nil
}

func tempName() string { return ".sallyport-" + rand.Text() }

// become puts the draft in its place when check allows it; the caller makes the
// name durable. Between
// check and the rename the name must stay the very inode it was, which costs a
// stat where check may read all of the file. With fresh the name must not exist.
func (d *draft) become(fresh bool, check func() error) error {
	seen := d.s.identity()
	if err := check(); err != nil {
		return err
	}
	if d.name == "" {
		name := tempName()
		if fresh {
			name = d.s.name
		}
		err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", d.Fd()), d.s.dir, name, unix.AT_SYMLINK_FOLLOW)
		if fresh && err == unix.EEXIST {
			return errStale
		}
		if err != nil {
			return err
		}
		if fresh {
			return nil
		}
		d.name = name
	}
	if d.s.identity() != seen {
		return errStale
	}
	if err := d.rename(fresh); err != nil {
		return err
	}
	d.name = ""
	return nil
}

// identity is equal only while the name is the same inode, unchanged; zero when
// there is none.
func (s *spot) identity() (id struct{ dev, ino, size, ctime, mtime int64 }) {
	if st, err := s.stat(); err == nil {
		id.dev, id.ino, id.size = int64(st.Dev), int64(st.Ino), st.Size
		id.ctime, id.mtime = st.Ctim.Nano(), st.Mtim.Nano()
	}
	return id
}

func (d *draft) rename(fresh bool) error {
	if fresh {
		err := unix.Renameat2(d.s.dir, d.name, d.s.dir, d.s.name, unix.RENAME_NOREPLACE)
		switch err {
		case unix.EEXIST:
			return errStale
		case unix.EINVAL, unix.ENOSYS: // a file system without it (NFS, some FUSE)
		default:
			return err
		}
	}
	return unix.Renameat(d.s.dir, d.name, d.s.dir, d.s.name)
}

// discard closes the draft and takes its name away if it still has one.
func (d *draft) discard() {
	d.Close()
	if d.name != "" {
		unix.Unlinkat(d.s.dir, d.name, 0)
	}
}

// fill writes content, owner and mode, durably. Set-uid, set-gid and sticky
// bits do not survive a rewrite, as with write(2).
func (w *Workspace) fill(f *os.File, s *spot, content []byte, isNew bool) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if isNew {
		mode, err := newMode(s.dir, 0o666)
		if err != nil {
			return err
		}
		if err := w.own(int(f.Fd())); err != nil {
			return err
		}
		return errors.Join(f.Chmod(fs.FileMode(mode).Perm()), f.Sync())
	}
	st, err := s.stat()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return errors.Join(f.Chmod(fs.FileMode(st.Mode).Perm()), f.Sync())
}

// syncDir makes a rename durable.
func syncDir(dir int) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil && err != unix.EINVAL {
		return err
	}
	return nil
}

func (w *Workspace) move(op FileOp, expect map[string]string) (FileResult, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	from, err := w.find("move", op.Path, noLink)
	if err != nil {
		return FileResult{}, err
	}
	defer from.close()
	st, err := from.stat()
	if err != nil {
		return FileResult{}, failure("move", op.Path, err)
	}
	sum := ""
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if sum, err = from.digest(); err != nil {
			return FileResult{}, failure("move", op.Path, err)
		}
	}
	to, err := w.find("move to", op.To, mkdirs|noLink)
	if err != nil {
		return FileResult{}, err
	}
	defer to.close()
	for _, at := range []struct{ asked, real, now string }{{op.Path, from.path, sum}, {op.To, to.path, ""}} {
		if want, ok := expected(expect, at.asked, at.real); ok && want != at.now {
			return FileResult{}, stale("move", at.asked)
		}
	}
	err = unix.Renameat2(from.dir, from.name, to.dir, to.name, unix.RENAME_NOREPLACE)
	if err == unix.EEXIST {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("move %s to %s: the target exists", op.Path, op.To),
			Remedy: "remove the target first, or choose another name"}
	}
	if err == nil {
		err = errors.Join(syncDir(to.dir), syncDir(from.dir))
	}
	if err != nil {
		return FileResult{}, failure("move", op.Path, err)
	}
	return FileResult{Path: to.path, SHA256: sum, Size: st.Size,
		Change: &Change{Path: to.path, Kind: "added", After: sum, Size: st.Size}}, nil
}

func (w *Workspace) remove(op FileOp, expect map[string]string) (FileResult, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	s, err := w.find("remove", op.Path, noLink)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	st, err := s.stat()
	if err != nil {
		return FileResult{}, failure("remove", op.Path, err)
	}
	sum, flags := "", 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if sum, err = s.digest(); err != nil {
			return FileResult{}, failure("remove", op.Path, err)
		}
	case unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	}
	if want, ok := expected(expect, op.Path, s.path); ok && want != sum {
		return FileResult{}, stale("remove", op.Path)
	}
	err = unix.Unlinkat(s.dir, s.name, flags)
	if err == unix.ENOTEMPTY {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("remove %s: the directory is not empty", op.Path),
			Remedy: "remove what it holds first"}
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return FileResult{}, failure("remove", op.Path, err)
	}
	return FileResult{Path: s.path, Change: &Change{Path: s.path, Kind: "removed", Before: sum}}, nil
}

func incomplete(op FileOp) error {
	return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("%s %s: the operation's options are missing", op.Op, op.Path),
		Remedy: "set the option block that belongs to the operation"}
}

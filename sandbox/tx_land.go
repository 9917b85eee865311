//go:build linux

package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// land makes the lower tree what the merged tree is. Nothing is reached through
// a symbolic link, no set-uid bit and no device lands.
func (d *layerDiff) land(ctx context.Context) error {
	var fresh, changed, gone []step
	for _, s := range d.steps {
		switch {
		case s.is.kind == 0:
			gone = append(gone, s)
		case s.was.kind == 0:
			fresh = append(fresh, s)
		default:
			changed = append(changed, s)
		}
	}
	slices.Reverse(gone) // what lies in a directory before the directory
	for _, phase := range [][]step{d.inTheWay(gone), fresh, changed, gone} {
		if err := d.landPhase(ctx, phase); err != nil {
			return err
		}
	}
	return nil
}

// landAtOnce is how many files land side by side: they wait for the disk
// together, so that a journal commits many at once.
const landAtOnce = 16

// landPhase lands steps in any order but that of their directories, and then
// makes their names durable.
func (d *layerDiff) landPhase(ctx context.Context, steps []step) error {
	var running sync.WaitGroup
	errs := make(chan error, len(steps)+1) // one a step, and one of the syncs
	free := make(chan bool, landAtOnce)
	dirs := map[string]bool{}
	failed := func() bool { return len(errs) > 0 }
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			errs <- canceled("land", s.path, err)
		}
		if failed() {
			break
		}
		dirs[path.Dir(s.path)] = true
		if s.is.kind != unix.S_IFREG {
			if err := d.landOne(s); err != nil {
				errs <- err
			}
			continue
		}
		free <- true
		running.Go(func() {
			defer func() { <-free }()
			if err := d.landOne(s); err != nil {
				errs <- err
			}
		})
	}
	running.Wait()
	for dir := range dirs {
		if err := d.syncDir(dir); err != nil {
			errs <- err
			break
		}
	}
	if failed() {
		return <-errs
	}
	return nil
}

// syncDir makes the names in a directory durable, if it still is one.
func (d *layerDiff) syncDir(dir string) error {
	s, err := d.lower.find("land in", dir, noLink|strict)
	if err != nil {
		return nil // it went, with the names in it
	}
	defer s.close()
	f, err := s.openDir()
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return failure("land in", dir, err)
	}
	return nil
}

// inTheWay are the removals that must come first: what lies in a directory that
// becomes a file or a link, and a file or link that becomes a directory.
func (d *layerDiff) inTheWay(gone []step) []step {
	var out []step
	for _, s := range d.steps {
		if s.was.kind == 0 || s.is.kind == 0 || s.was.kind == s.is.kind {
			continue
		}
		if s.was.kind == unix.S_IFDIR {
			for _, g := range gone {
				if below(s.path, g.path) != g.path {
					out = append(out, g)
				}
			}
		}
		if s.was.kind == unix.S_IFDIR || s.is.kind == unix.S_IFDIR {
			out = append(out, step{path: s.path, was: s.was})
		}
	}
	return out
}

func (d *layerDiff) landOne(s step) error {
	how := noLink | strict
	if s.is.kind != 0 {
		how |= mkdirs
	}
	dst, err := d.lower.find("land", s.path, how)
	var e *Error
	if s.is.kind == 0 && errors.As(err, &e) && (e.Kind == KindMissing || errors.Is(err, unix.ENOTDIR)) {
		return nil // gone already, with its directory
	}
	if err != nil {
		return err
	}
	defer dst.close()
	switch s.is.kind {
	case 0:
		err = d.landGone(dst, s)
	case unix.S_IFDIR:
		err = d.landDir(dst, s)
	case unix.S_IFLNK:
		err = d.landLink(dst, s)
	case unix.S_IFREG:
		err = d.landFile(dst, s)
	}
	if errors.Is(err, errStale) {
		return stale("land", s.path)
	}
	if err != nil {
		return failure("land", s.path, err)
	}
	return nil
}

// unchanged fails with errStale unless the name still is what it was.
func (d *layerDiff) unchanged(dst *spot, s step) error {
	now, err := dst.node(true)
	if err != nil {
		return err
	}
	if now.kind != s.was.kind || now.sum != s.was.sum {
		return errStale
	}
	return nil
}

func (d *layerDiff) landGone(dst *spot, s step) error {
	flags := 0
	if s.was.kind == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	} else if now, err := dst.node(true); err != nil || now.kind == 0 {
		return err // gone already
	} else if now.kind != s.was.kind || now.sum != s.was.sum {
		return errStale
	}
	err := unix.Unlinkat(dst.dir, dst.name, flags)
	switch err {
	case unix.ENOENT, unix.ENOTEMPTY: // a directory somebody else put something into stays
		return nil
	}
	return err
}

func (d *layerDiff) landDir(dst *spot, s step) error {
	if err := unix.Mkdirat(dst.dir, dst.name, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	f, err := dst.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	if s.was.kind != unix.S_IFDIR {
		if err := d.lower.own(int(f.Fd())); err != nil {
			return err
		}
	}
	return f.Chmod(fs.FileMode(s.is.mode | 0o700))
}

func (d *layerDiff) landLink(dst *spot, s step) error {
	tmp := tempName()
	if err := unix.Symlinkat(s.is.link, dst.dir, tmp); err != nil {
		return err
	}
	err := d.unchangedOrFree(dst, s)
	if err == nil && os.Geteuid() == 0 {
		err = unix.Fchownat(dst.dir, tmp, d.lower.uid, d.lower.gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.Renameat(dst.dir, tmp, dst.dir, dst.name)
	}
	if err != nil {
		unix.Unlinkat(dst.dir, tmp, 0)
	}
	return err
}

// unchangedOrFree also accepts a name that inTheWay has just cleared.
func (d *layerDiff) unchangedOrFree(dst *spot, s step) error {
	if s.was.kind == unix.S_IFDIR {
		s.was = node{}
	}
	return d.unchanged(dst, s)
}

// landFile copies content beside its target and renames it over.
func (d *layerDiff) landFile(dst *spot, s step) error {
	src, err := d.upper.find("land", s.path, noLink|strict)
	if err != nil {
		return err
	}
	defer src.close()
	if s.was.kind == unix.S_IFREG && s.was.sum == s.is.sum {
		return d.landMode(dst, s)
	}
	in, _, err := src.openFile()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.temp()
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := io.Copy(out.File, in); err != nil {
		return err
	}
	if err := d.dress(out.File, dst, s); err != nil {
		return err
	}
	return out.become(s.was.kind == 0, func() error { return d.unchangedOrFree(dst, s) })
}

// dress gives the new file owner, mode and time, durably.
func (d *layerDiff) dress(f *os.File, dst *spot, s step) error {
	if s.was.kind != unix.S_IFREG {
		if err := d.lower.own(int(f.Fd())); err != nil {
			return err
		}
	} else if st, err := dst.stat(); err == nil && os.Geteuid() == 0 {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	tv := []unix.Timeval{unix.NsecToTimeval(s.is.mtime.Nano()), unix.NsecToTimeval(s.is.mtime.Nano())}
	return errors.Join(f.Chmod(fs.FileMode(s.is.mode)), unix.Futimes(int(f.Fd()), tv), f.Sync())
}

func (d *layerDiff) landMode(dst *spot, s step) error {
	f, _, err := dst.openFile()
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(fs.FileMode(s.is.mode))
}

package cell

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// guard makes protected paths read-only and covers hidden ones. They lie where
// the program's files are, so they are reached following no symbolic link.
func (s *site) guard(r *rootfs) error {
	for _, p := range s.spec.View.Pinned {
		if err := r.pin(p, 0); err != nil {
			return fmt.Errorf("pin %s: %w", p, err)
		}
	}
	for _, p := range s.spec.View.Protected {
		if err := r.pin(p, unix.MOUNT_ATTR_RDONLY); err != nil {
			return fmt.Errorf("protect %s: %w", p, err)
		}
	}
	if len(s.spec.View.Hidden) == 0 {
		return nil
	}
	if err := r.file(File{Path: coverFile}); err != nil {
		return err
	}
	if err := r.mkdirs(coverDir); err != nil {
		return err
	}
	for _, p := range s.spec.View.Hidden {
		if err := r.cover(p); err != nil {
			return fmt.Errorf("hide %s: %w", p, err)
		}
	}
	return nil
}

// What a hidden path shows instead: nothing, and no permission even for that.
const (
	coverFile = "/.hidden/file"
	coverDir  = "/.hidden/dir"
)

// pin binds a path onto itself. A mount point can be neither renamed nor
// removed; with MOUNT_ATTR_RDONLY it cannot be written either.
func (r *rootfs) pin(p string, attr uint64) error {
	fd, err := r.at(p, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // absent or a link: its appearance is judged after the run
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return r.remount(fd, fd, p, attr)
}

// cover mounts an empty, unreadable file or directory over a path.
func (r *rootfs) cover(p string) error {
	fd, err := r.at(p, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	with := coverFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		with = coverDir
	}
	cover, err := r.at(with, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(cover)
	if err := unix.Fchmodat(unix.AT_FDCWD, fdPath(cover), 0, 0); err != nil {
		return fmt.Errorf("make the cover unreadable: %w", err)
	}
	return r.remount(cover, fd, p, unix.MOUNT_ATTR_RDONLY)
}

// remount clones the mount tree at from, restricts it and mounts it on to.
func (r *rootfs) remount(from, to int, name string, restrict uint64) error {
	tree, err := unix.OpenTree(from, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: restrict | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return err
	}
	return move(tree, to, name)
}

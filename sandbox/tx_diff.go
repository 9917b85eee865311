//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Names overlayfs gives its marks in a layer mounted with userxattr
// (Documentation/filesystems/overlayfs.rst).
const (
	xattrWhiteout = "user.overlay.whiteout"
	xattrOpaque   = "user.overlay.opaque"
	xattrRedirect = "user.overlay.redirect"
	xattrMetacopy = "user.overlay.metacopy"
)

// node is what a name is in one layer.
type node struct {
	kind   uint32 // unix.S_IFMT bits; 0 when absent or whited out
	mode   uint32 // permission bits; set-uid, set-gid and sticky never count
	size   int64
	ctime  int64 // ns
	mtime  unix.Timespec
	link   string // target of a link
	sum    string // digest of a file's content or a link's target
	opaque bool   // a directory that hides what lies below
}

// node looks at the spot. sums asks for a file's digest.
func (s *spot) node(sums bool) (node, error) {
	st, err := s.stat()
	if errors.Is(err, unix.ENOENT) {
		return node{}, nil
	}
	if err != nil {
		return node{}, err
	}
	n := node{kind: st.Mode & unix.S_IFMT, mode: st.Mode & 0o777, size: st.Size, ctime: st.Ctim.Nano(), mtime: st.Mtim}
	switch n.kind {
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return node{}, nil // a whiteout
		}
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		k, err := unix.Readlinkat(s.dir, s.name, buf)
		if err != nil {
			return n, err
		}
		n.link = string(buf[:k])
		n.sum = hexSum(buf[:k])
	case unix.S_IFREG:
		if st.Size == 0 && s.xattr(xattrWhiteout) != "" {
			return node{}, nil
		}
		if s.xattr(xattrMetacopy) != "" {
			return n, errors.New("the layer holds metadata without content (metacopy), which is not supported")
		}
		if sums {
			n.sum, err = s.digest()
		}
	case unix.S_IFDIR:
		if s.xattr(xattrRedirect) != "" {
			return n, errors.New("the layer holds a redirected directory, which is not supported")
		}
		n.opaque = s.xattr(xattrOpaque) == "y"
	}
	return n, err
}

// xattr reads an overlay mark, "" when there is none. /proc/self/fd is the only
// way from an O_PATH descriptor; it leads to the opened inode, whatever its
// name is now.
func (s *spot) xattr(name string) string {
	fd, err := unix.Openat(s.dir, s.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), name, buf)
	if err != nil {
		return ""
	}
	if n == 0 {
		return "y" // a mark without a value
	}
	return string(buf[:n])
}

// step is one difference between the merged tree and the lower one.
type step struct {
	path   string
	was    node // in lower
	is     node // in the merged tree; kind 0: gone
	silent bool // a directory that files beneath it tell of: no Change
}

// layerDiff is all steps, sorted by path.
type layerDiff struct {
	upper, lower *Workspace
	steps        []step
}

// diffLayer says how the tree of an overlayfs with this upper and lower
// directory differs from lower. A copy-up that changed nothing is no difference.
// FIFOs and sockets are left out: their process is gone. A device node is an
// error.
func diffLayer(upper, lower *Workspace) (*layerDiff, error) {
	d := &layerDiff{upper: upper, lower: lower}
	root, err := upper.find("look at the layer", ".", noLink)
	if err != nil {
		return nil, err
	}
	defer root.close()
	t := tree{ctx: context.Background(), hidden: true, git: true}
	t.visit = func(at found) error { return d.visit(&at.spot) }
	if top, err := root.node(false); err == nil && top.opaque {
		if err := d.goneBeneath("."); err != nil {
			return nil, failure("look at the layer", ".", err)
		}
	}
	if err := upper.walkFrom(root, &t); err != nil {
		return nil, failure("look at the layer", ".", err)
	}
	if len(t.skipped) > 0 {
		return nil, &Error{Kind: KindIO, Msg: "look at the layer " + t.skipped[0], Remedy: "the changes cannot be judged, so none lands; run the command again with readable modes"}
	}
	slices.SortStableFunc(d.steps, func(a, b step) int { return strings.Compare(a.path, b.path) })
	d.steps = slices.CompactFunc(d.steps, func(a, b step) bool { return a.path == b.path }) // nested opaque directories tell twice
	return d, nil
}

// below looks at the same path in the lower tree. A link among its directories
// means that nothing is there.
func (d *layerDiff) below(p string, sums bool) (node, error) {
	s, err := d.lower.find("look at", p, noLink|strict)
	var e *Error
	if errors.As(err, &e) && (e.Kind == KindMissing || errors.Is(err, unix.ENOTDIR)) {
		return node{}, nil
	}
	if err != nil {
		return node{}, err
	}
	defer s.close()
	return s.node(sums)
}

func (d *layerDiff) visit(at *spot) error {
	is, err := at.node(true)
	if err != nil {
		return failure("look at changed", at.path, err)
	}
	switch is.kind {
	case unix.S_IFIFO, unix.S_IFSOCK:
		return nil
	case unix.S_IFCHR, unix.S_IFBLK:
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("look at changed %s: the command made a device node", at.path), Remedy: "run it without making devices; none of its changes can land"}
	}
	was, err := d.below(at.path, true)
	if err != nil {
		return failure("look at", at.path, err)
	}
	if was.kind == unix.S_IFDIR && (is.kind != unix.S_IFDIR || is.opaque) {
		if err := d.goneBeneath(at.path); err != nil {
			return failure("look at", at.path, err)
		}
	}
	s := step{path: at.path, was: was, is: is}
	switch {
	case was.kind == is.kind && was.mode == is.mode && was.sum == is.sum:
		return nil
	case is.kind == unix.S_IFLNK && was.kind == is.kind && was.sum == is.sum:
		return nil // a link has no mode of its own
	case is.kind == unix.S_IFDIR && was.kind == 0:
		s.silent = !at.emptyDir()
	case is.kind == 0 && was.kind == unix.S_IFDIR:
		s.silent = !d.emptyBelow(at.path)
	}
	d.steps = append(d.steps, s)
	return nil
}

// goneBeneath adds a removal for all that the lower directory p holds, but for
// what the upper directory tells of itself.
func (d *layerDiff) goneBeneath(p string) error {
	root, err := d.lower.find("look at", p, noLink|strict)
	if err != nil {
		return err
	}
	defer root.close()
	t := tree{ctx: context.Background(), hidden: true, git: true}
	t.visit = func(at found) error {
		was, err := at.node(true)
		if err != nil {
			return err
		}
		if d.keptAbove(at.path) {
			return nil
		}
		s := step{path: at.path, was: was}
		if was.kind == unix.S_IFDIR {
			s.silent = !at.emptyDir()
		}
		d.steps = append(d.steps, s)
		return nil
	}
	if err := d.lower.walkFrom(root, &t); err != nil {
		return err
	}
	if len(t.skipped) > 0 {
		return errors.New(t.skipped[0])
	}
	return nil
}

// keptAbove reports whether the upper tree says itself what p is.
func (d *layerDiff) keptAbove(p string) bool {
	s, err := d.upper.find("look at", p, noLink|strict)
	if err != nil {
		return false
	}
	defer s.close()
	_, err = s.stat()
	return err == nil
}

func (d *layerDiff) emptyBelow(p string) bool {
	s, err := d.lower.find("look at", p, noLink|strict)
	if err != nil {
		return true
	}
	defer s.close()
	return s.emptyDir()
}

func (s *spot) emptyDir() bool {
	f, err := s.openDir()
	if err != nil {
		return true
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) == 0
}

// changes words the steps for judges and people. Directories count only where
// no file beneath them tells of them.
func (d *layerDiff) changes() []Change {
	var out []Change
	for _, s := range d.steps {
		if !s.silent {
			out = append(out, s.change())
		}
	}
	return out
}

func (s step) change() Change {
	c := Change{Path: s.path, Before: s.was.sum, After: s.is.sum, Link: s.is.link}
	switch {
	case s.is.kind == 0:
		c.Kind = "removed"
		return c
	case s.was.kind == 0:
		c.Kind = "added"
	case s.was.kind == s.is.kind && s.was.sum == s.is.sum:
		c.Kind = "mode"
	default:
		c.Kind = "modified"
	}
	if s.is.kind != unix.S_IFLNK {
		c.Mode = fmt.Sprintf("%04o", s.is.mode)
	}
	if s.is.kind != unix.S_IFDIR {
		c.Size = s.is.size
	}
	return c
}

// changedSince lists changed paths whose lower side changed after began.
func (d *layerDiff) changedSince(began int64) []string {
	var out []string
	for _, s := range d.steps {
		if s.was.kind != 0 && s.was.kind != unix.S_IFDIR && s.was.ctime > began {
			out = append(out, s.path)
		}
	}
	return out
}

// conflict names a path that no longer is in the workspace what the transaction
// lies over; "" when there is none. What landed already in an earlier try is no
// conflict: it is no longer among the steps.
func (d *layerDiff) conflict(sealed *txSealed, began int64) string {
	if sealed == nil {
		if late := d.changedSince(began); len(late) > 0 {
			return late[0]
		}
		return ""
	}
	if len(sealed.Stale) > 0 {
		return sealed.Stale[0]
	}
	judged := map[string]Change{}
	for _, c := range sealed.Changes {
		judged[c.Path] = c
	}
	for _, s := range d.steps {
		if s.silent {
			continue
		}
		c, ok := judged[s.path]
		if !ok && s.is.kind == 0 && s.was.kind == unix.S_IFDIR {
			continue // emptied by an earlier try
		}
		if c != s.change() {
			return s.path
		}
	}
	return ""
}

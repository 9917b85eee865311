package cell

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// source is one host path of the view, opened before anything is mounted.
type source struct {
	bind Bind
	tree int // detached mount, -1 when absent
	err  error
}

// scaffold is where the private root is put together before it becomes the
// root. Every Linux root file system has it.
const scaffold = "/tmp"

// open clones the mount tree beneath every source. Sources that this identity
// may not reach are tried again as the workspace's owner.
func (s *site) open() {
	v := s.spec.View
	binds := v.Binds
	if v.Layer == nil {
		binds = append([]Bind{{From: v.Workspace, Writable: v.Writable}}, binds...)
	}
	for _, b := range binds {
		s.sources = append(s.sources, openSource(b))
	}
	s.layer.open(v)
}

// sameWorkspace holds the opened workspace to be the one the daemon meant.
func (s *site) sameWorkspace() error {
	fd := s.layer.fds[0]
	if s.spec.View.Layer == nil {
		fd = s.sources[0].tree
	}
	var st unix.Stat_t
	if s.spec.Ino == 0 || fd < 0 {
		return nil
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at the workspace: %w", err)
	}
	if st.Dev != s.spec.Dev || st.Ino != s.spec.Ino {
		return fmt.Errorf("the workspace %s is another folder here: %w", s.spec.View.Workspace, unix.ESTALE)
	}
	return nil
}

// layerDirs are the three directories of a write layer, opened.
type layerDirs struct {
	fds [3]int // workspace, upper, work; 0 = not yet
	err error
}

// open opens what is not open yet; each directory may be reachable only as
// the daemon's user or only as the workspace's owner.
func (l *layerDirs) open(v View) {
	l.err = nil
	if v.Layer == nil {
		return
	}
	for i, p := range []string{v.Workspace, v.Layer.Upper, v.Layer.Work} {
		if l.fds[i] != 0 {
			continue
		}
		fd, err := unix.Open(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.err = fmt.Errorf("open %s for the write layer: %w", p, err)
			continue
		}
		l.fds[i] = fd
	}
}

func (s *site) openLate() error {
	s.layer.open(s.spec.View)
	for i, src := range s.sources {
		if src.err == nil {
			continue
		}
		late := openSource(src.bind)
		switch {
		case late.err == nil:
			s.sources[i] = late
		case src.bind.Optional && errors.Is(late.err, unix.ENOENT):
			s.sources[i].err = nil
		default:
			return fmt.Errorf("open %s for the view: %w", src.bind.From, late.err)
		}
	}
	if s.layer.err != nil {
		return nil // the write layer's own failure, told when it is laid
	}
	return s.sameWorkspace()
}

func openSource(b Bind) source {
	tree, err := unix.OpenTree(unix.AT_FDCWD, b.From,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return source{bind: b, tree: -1, err: err}
	}
	return source{bind: b, tree: tree}
}

// root builds the private root from the view and makes it the root.
func (s *site) root() error {
	if err := unix.Mount("tmpfs", scaffold, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return fmt.Errorf("mount the private root: %w", err)
	}
	fd, err := unix.Open(scaffold, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the private root: %w", err)
	}
	r := &rootfs{fd: fd, made: map[string]bool{}}
	defer unix.Close(fd)
	if err := s.furnish(r); err != nil {
		return err
	}
	if err := unix.Fchdir(fd); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot into the private root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &ro); err != nil {
		return fmt.Errorf("make the private root read-only: %w", err)
	}
	return nil
}

// furnish mounts the parts of the view, parents before children.
func (s *site) furnish(r *rootfs) error {
	v := s.spec.View
	type part struct {
		at    string
		mount func() error
	}
	var parts []part
	for _, src := range s.sources {
		if src.tree >= 0 {
			parts = append(parts, part{src.bind.At(), func() error { return r.attach(src) }})
		}
	}
	for _, t := range v.Tmpfs {
		parts = append(parts, part{t.Path, func() error { return r.tmpfs(t) }})
	}
	if v.Layer != nil {
		parts = append(parts, part{v.Workspace, func() error { return r.overlay(v.Workspace, s.layer) }})
	}
	parts = append(parts, part{"/proc", func() error { return s.proc(r) }}, part{"/dev/pts", r.devpts})
	sort.SliceStable(parts, func(i, j int) bool { return parts[i].at < parts[j].at })
	for _, p := range parts {
		if err := p.mount(); err != nil {
			return err
		}
	}
	for _, l := range v.Links {
		if err := r.link(l); err != nil {
			return err
		}
	}
	for _, f := range v.Files {
		if err := r.file(f); err != nil {
			return err
		}
	}
	return s.guard(r)
}

// rootfs is the private root while it is furnished.
type rootfs struct {
	fd   int
	made map[string]bool // folders made here, with nothing mounted on them
}

// at opens a path in the private root following no symbolic link, so that
// nothing in the workspace can lead a mount elsewhere.
func (r *rootfs) at(p string, flags uint64) (int, error) {
	p = strings.TrimPrefix(p, "/")
	if p == "" {
		p = "."
	}
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	// The kernel answers EAGAIN when a rename anywhere might have moved the
	// path out of the root while it looked (openat2(2)).
	for range maxRenames {
		fd, err := unix.Openat2(r.fd, p, &how)
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// maxRenames bounds the tries against somebody who renames without end.
const maxRenames = 1000

// mkdirs makes a folder and those above it. A folder that was made here leads
// nowhere else, so that nothing needs to be looked up on the way.
func (r *rootfs) mkdirs(p string) error {
	if r.made[p] {
		return nil
	}
	if dir := path.Dir(p); dir == "/" || r.made[dir] {
		err := unix.Mkdirat(r.fd, strings.TrimPrefix(p, "/"), 0o755)
		if err == nil {
			r.made[p] = true
			return nil
		}
	}
	if fd, err := r.at(p, unix.O_PATH|unix.O_DIRECTORY); err == nil {
		return unix.Close(fd)
	}
	if p != "/" && p != "." {
		if err := r.mkdirs(path.Dir(p)); err != nil {
			return err
		}
	}
	parent, err := r.at(path.Dir(p), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("make %s in the private root: %w", p, err)
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(p), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s in the private root: %w", p, err)
	}
	return nil
}

// attach mounts a source at its place, making the mount point.
func (r *rootfs) attach(src source) error {
	defer unix.Close(src.tree)
	b := src.bind
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !b.Writable && !b.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if !b.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if err := unix.MountSetattr(src.tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", b.From, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(src.tree, &st); err != nil {
		return err
	}
	point, err := r.point(b.At(), st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer unix.Close(point)
	delete(r.made, b.At())
	return move(src.tree, point, b.At())
}

// point makes and opens a mount point.
func (r *rootfs) point(p string, dir bool) (int, error) {
	if dir {
		if err := r.mkdirs(p); err != nil {
			return -1, err
		}
		return r.at(p, unix.O_PATH|unix.O_DIRECTORY)
	}
	if fd, err := r.at(p, unix.O_PATH); err == nil {
		return fd, nil
	}
	if err := r.file(File{Path: p}); err != nil {
		return -1, err
	}
	return r.at(p, unix.O_PATH)
}

func move(tree, point int, name string) error {
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	return nil
}

// onto mounts a new file system at p. The mount point is named through its
// descriptor: mount(2) takes only paths.
func (r *rootfs) onto(p, kind string, flags uintptr, data string) error {
	point, err := r.point(p, true)
	if err != nil {
		return err
	}
	defer unix.Close(point)
	delete(r.made, p)
	if err := unix.Mount(kind, fdPath(point), kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, p, err)
	}
	return nil
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (r *rootfs) tmpfs(t Tmp) error {
	data := fmt.Sprintf("mode=%04o,size=%d", t.Mode, t.Size)
	return r.onto(t.Path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data)
}

func (r *rootfs) devpts() error {
	return r.onto("/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
}

// errLayer marks a failure of the write layer alone.
var errLayer = errors.New("lay the write layer")

// overlay mounts the workspace with its writes redirected to the layer. The
// directories are named through descriptors, which needs no escaping of the
// option string's separators.
func (r *rootfs) overlay(at string, l layerDirs) error {
	if l.err != nil {
		return errors.Join(errLayer, l.err)
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", fdPath(l.fds[0]), fdPath(l.fds[1]), fdPath(l.fds[2]))
	if err := r.onto(at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return errors.Join(errLayer, err)
	}
	closeAll(l.fds[:])
	return nil
}

func (r *rootfs) link(l Link) error {
	if err := r.mkdirs(path.Dir(l.Path)); err != nil {
		return err
	}
	parent, err := r.at(path.Dir(l.Path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := unix.Symlinkat(l.Target, parent, path.Base(l.Path)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("link %s in the private root: %w", l.Path, err)
	}
	return nil
}

func (r *rootfs) file(f File) error {
	if err := r.mkdirs(path.Dir(f.Path)); err != nil {
		return err
	}
	parent, err := r.at(path.Dir(f.Path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	fd, err := unix.Openat(parent, path.Base(f.Path), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("make %s in the private root: %w", f.Path, err)
	}
	file := os.NewFile(uintptr(fd), f.Path)
	_, err = file.WriteString(f.Data)
	return errors.Join(err, file.Close())
}

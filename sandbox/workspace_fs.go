//go:build linux

package sandbox

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// FS is a read-only view of the workspace with the confinement of Do: links
// that leave it, devices, FIFOs and sockets cannot be opened.
func (w *Workspace) FS() fs.FS { return confined{w} }

type confined struct{ w *Workspace }

func (c confined) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	s, err := c.w.find("open", name, follow)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fsCause(err)}
	}
	defer s.close()
	st, err := s.stat()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var f *os.File
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		f, err = s.openDir()
	} else {
		f, st, err = s.openFile()
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &confinedFile{f, path.Base(name)}, nil
}

// Stat describes a file without opening it.
func (c confined) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	s, err := c.w.find("stat", name, follow)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fsCause(err)}
	}
	defer s.close()
	st, err := s.stat()
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return statInfo{path.Base(name), st}, nil
}

// fsCause makes errors.Is(err, fs.ErrNotExist) hold, which users of fs.FS ask.
func fsCause(err error) error {
	if e, ok := err.(*Error); ok && e.Kind == KindMissing {
		return fs.ErrNotExist
	}
	return err
}

// confinedFile hides everything of the descriptor but reading.
type confinedFile struct {
	f    *os.File
	name string
}

func (c *confinedFile) Read(b []byte) (int, error) { return c.f.Read(b) }

func (c *confinedFile) Close() error { return c.f.Close() }

func (c *confinedFile) Stat() (fs.FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(c.f.Fd()), &st); err != nil {
		return nil, err
	}
	return statInfo{c.name, st}, nil
}

func (c *confinedFile) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := c.f.ReadDir(n)
	if err != nil && err != io.EOF {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	out := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries { // os.DirEntry.Info would look by path; ask the descriptor instead
		at := spot{dir: int(c.f.Fd()), name: e.Name()}
		if st, err := at.stat(); err == nil {
			out = append(out, fs.FileInfoToDirEntry(statInfo{e.Name(), st}))
		}
	}
	return out, err
}

type statInfo struct {
	name string
	st   unix.Stat_t
}

func (i statInfo) Name() string       { return i.name }
func (i statInfo) Size() int64        { return i.st.Size }
func (i statInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i statInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i statInfo) Sys() any           { return nil }

func (i statInfo) Mode() fs.FileMode {
	m := fs.FileMode(i.st.Mode).Perm()
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular
	}
	return m
}

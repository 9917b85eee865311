package sandbox

import "golang.org/x/sys/unix"

// Kind tells what p names beneath the workspace, without following a link at
// its end: "file", "dir", "link", "other", or "absent" for nothing and for what
// leads outside.
func (w *Workspace) Kind(p string) string {
	s, err := w.find("look at", p, noLink)
	if err != nil {
		return "absent"
	}
	defer s.close()
	st, err := s.stat()
	if err != nil {
		return "absent"
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "link"
	}
	return "other"
}

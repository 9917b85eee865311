package sandbox

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// watches tell which folders changed since the last look, so that not all of
// them need to be asked: one system call instead of one for each folder. The
// kernel queues an event before the change's own system call returns.
type watches struct {
	fd   int
	dirs map[int]string // by watch descriptor; nil: nothing is watched
}

// localFS are the file systems whose changes are all made through this kernel;
// of others inotify would miss what another machine did.
var localFS = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF |
	unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

func isLocal(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && slices.Contains(localFS, int64(st.Type))
}

// openWatches gives the zero watches where there can be none.
func openWatches() watches {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watches{}
	}
	return watches{fd: fd, dirs: map[int]string{}}
}

// add watches one more folder; after a failure (a user has a limited number)
// nothing is watched any more.
func (w *watches) add(dir string) {
	if w.dirs == nil {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, dir, watched)
	if err != nil {
		w.close()
		return
	}
	w.dirs[wd] = dir
}

// changed reads what happened; all means that nothing is known.
func (w *watches) changed() (dirs []string, all bool) {
	if w.dirs == nil {
		return nil, true
	}
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(w.fd, buf[:])
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return dirs, all
		default:
			w.close()
			return nil, true
		}
		// struct inotify_event: wd, mask, cookie, length of the name, name
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if dir, known := w.dirs[wd]; known {
				dirs = append(dirs, dir)
			}
			if mask&unix.IN_IGNORED != 0 {
				delete(w.dirs, wd)
			}
			all = all || mask&(unix.IN_Q_OVERFLOW|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0
			b = b[min(size, len(b)):]
		}
	}
}

func (w *watches) close() {
	if w.dirs != nil {
		unix.Close(w.fd)
	}
	*w = watches{}
}

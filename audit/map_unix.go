//go:build unix

package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped gives fn the bytes of a file without copying them. A file that is cut
// meanwhile faults, which becomes an error.
func mapped(path string, fn func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() == 0 {
		return fn(nil)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	_ = unix.Madvise(b, unix.MADV_SEQUENTIAL) // only for speed
	err = guarded(func() error { return fn(b) })
	if uerr := unix.Munmap(b); err == nil {
		err = os.NewSyscallError("munmap", uerr)
	}
	return err
}

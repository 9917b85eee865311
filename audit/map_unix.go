//go:build unix

package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped gives fn the bytes of a file without copying them. Reading what was cut
// off meanwhile faults, which becomes an error; where the file did become shorter
// (a full segment is trimmed once) fn is called again with what is left of it.
func mapped(path string, fn func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for try := 0; ; try++ {
		size, err := sizeNow(f)
		if err != nil {
			return err
		}
		if err = mapOnce(f, size, fn); err == nil {
			return nil
		}
		if now, serr := sizeNow(f); serr != nil || now >= size || try == 10 {
			return err
		}
	}
}

func sizeNow(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func mapOnce(f *os.File, size int64, fn func([]byte) error) error {
	if size == 0 {
		return fn(nil)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
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

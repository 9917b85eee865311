package cell

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// procReadOnly can change the kernel when the cell's user is the host's root:
// sysctl permissions look at the global uid, not at capabilities.
var procReadOnly = [...]string{"sys", "bus", "fs", "irq", "sysrq-trigger", "acpi", "scsi"}

// procMasked tells of the machine or of other users; no program needs it.
var procMasked = [...]string{"kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "kpageflags", "kpagecount", "kallsyms", "config.gz"}

// proc mounts a fresh /proc of the cell's own processes. Inside a container
// whose own /proc has masked parts the kernel refuses that; the cell then has
// an empty /proc and says so.
func (s *site) proc(r *rootfs) error {
	if s.spec.Flags&unix.CLONE_NEWPID == 0 {
		return r.mkdirs("/proc")
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := r.onto("/proc", "proc", flags, "")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		s.procErr = fmt.Errorf("the kernel refuses a fresh /proc here (this machine's own /proc has masked parts): %w", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range procReadOnly {
		fd, err := r.at("/proc/"+name, unix.O_PATH)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open /proc/%s: %w", name, err)
		}
		err = r.remount(fd, fd, "/proc/"+name, unix.MOUNT_ATTR_RDONLY)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("make /proc/%s read-only: %w", name, err)
		}
	}
	return r.maskProc()
}

func (r *rootfs) maskProc() error {
	null, err := r.at(os.DevNull, unix.O_PATH)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for _, name := range procMasked {
		fd, err := r.at("/proc/"+name, unix.O_PATH)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open /proc/%s: %w", name, err)
		}
		tree, err := unix.OpenTree(null, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
		if err == nil {
			err = move(tree, fd, "/proc/"+name)
			unix.Close(tree)
		}
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("mask /proc/%s: %w", name, err)
		}
	}
	return nil
}

// procStands reports how proc went; the mount itself is part of the root.
func (s *site) procStands() error { return s.procErr }

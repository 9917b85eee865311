package sandbox

// The seccomp profiles.
const (
	profileDefault  = "default"
	profileStrict   = "strict"    // no sockets but unix pairs, no debugging, no SysV IPC
	profileDebug    = "debug"     // default, and tracing the cell's own processes
	profileNoDelete = "no-delete" // default, without removing files
)

// filterKind names one seccomp program.
type filterKind struct {
	profile string
	// closed cells have no network namespace: internet sockets and named Unix
	// sockets are refused in the filter instead.
	closed bool
}

// The syscall table. A filter allows what is listed, answers the refused ones
// with EPERM and everything else with ENOSYS, so that a newer libc falls back
// to an older call instead of failing. Names are libseccomp's; a name the
// library does not know on this architecture is left out.

// syscallsAllowed may be called with any arguments, but for the exceptions of
// terminal and setuid. openat2 is not among them: it hides its mode behind a
// pointer, and its users fall back to openat.
var syscallsAllowed = map[string][]string{
	"files": {
		"access", "faccessat", "faccessat2", "chdir", "fchdir", "getcwd", "close", "close_range", "creat",
		"open", "openat", "read", "readv", "pread64", "preadv", "preadv2", "write", "writev",
		"pwrite64", "pwritev", "pwritev2", "lseek", "_llseek", "stat", "stat64", "fstat", "fstat64", "lstat",
		"lstat64", "newfstatat", "fstatat64", "statx", "statfs", "statfs64", "fstatfs", "fstatfs64",
		"dup", "dup2", "dup3", "fcntl", "fcntl64", "flock", "fsync", "fdatasync", "sync", "syncfs",
		"sync_file_range", "truncate", "truncate64", "ftruncate", "ftruncate64", "fallocate", "fadvise64",
		"readahead", "getdents", "getdents64", "mkdir", "mkdirat", "rename", "renameat", "renameat2",
		"link", "linkat", "symlink", "symlinkat", "readlink", "readlinkat", "chown", "fchown", "lchown",
		"fchownat", "umask", "utime", "utimes", "utimensat", "futimesat", "copy_file_range", "sendfile",
		"sendfile64", "splice", "tee", "vmsplice", "pipe", "pipe2", "mknod", "mknodat",
		"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr",
		"lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
		"inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "cachestat", "ioctl",
		"chmod", "fchmod", "fchmodat", "fchmodat2",
	},
	// In a group of their own: the no-delete profile leaves them out.
	"remove": {"unlink", "unlinkat", "rmdir"},
	"memory": {
		"brk", "mmap", "mmap2", "munmap", "mremap", "mprotect", "madvise", "mincore", "msync", "mlock",
		"mlock2", "mlockall", "munlock", "munlockall", "memfd_create", "membarrier", "pkey_alloc",
		"pkey_free", "pkey_mprotect", "get_mempolicy", "mbind", "set_mempolicy", "map_shadow_stack",
		"remap_file_pages",
	},
	"processes": {
		"execve", "execveat", "exit", "exit_group", "fork", "vfork", "wait4", "waitid", "waitpid",
		"getpid", "getppid", "gettid", "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "kill", "tkill",
		"tgkill", "pidfd_open", "pidfd_send_signal", "getuid", "geteuid", "getgid", "getegid", "getresuid",
		"getresgid", "getgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
		"setfsuid", "setfsgid", "capget", "capset", "prctl", "arch_prctl", "set_tid_address",
		"set_robust_list", "get_robust_list", "rseq", "getrlimit", "setrlimit", "prlimit64", "getrusage",
		"times", "getpriority", "setpriority", "ioprio_get", "ioprio_set", "seccomp",
		"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
		"sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam",
		"sched_getscheduler", "sched_setscheduler", "sched_getattr", "sched_setattr",
		"sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "getcpu",
		"set_thread_area", "get_thread_area",
	},
	"signals": {
		"rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
		"rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "sigaltstack", "sigreturn", "signalfd",
		"signalfd4", "pause", "restart_syscall", "alarm",
	},
	"time": {
		"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "time", "nanosleep",
		"getitimer", "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
		"timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
	},
	"waiting": {
		"poll", "ppoll", "select", "_newselect", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
		"epoll_ctl_old", "epoll_wait", "epoll_wait_old", "epoll_pwait", "epoll_pwait2", "eventfd",
		"eventfd2", "futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue",
	},
	"sockets": {
		"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "setsockopt",
		"listen", "recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto",
		"shutdown",
	},
	// System V and POSIX objects live in the cell's own IPC namespace.
	"ipc": {
		"shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget",
		"msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive",
		"mq_notify", "mq_getsetattr", "ipc",
	},
	"system": {"uname", "sysinfo", "getrandom"},
}

// syscallsRefused answer EPERM: programs probe them and must learn that they
// are forbidden, not absent.
var syscallsRefused = []string{
	// Other views of the file system.
	"mount", "umount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig",
	"fsmount", "fspick", "mount_setattr", "listmount", "statmount", "open_by_handle_at",
	"name_to_handle_at", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd", "swapon", "swapoff",
	// Other namespaces and other processes' insides.
	"setns", "unshare", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
	"process_madvise", "process_mrelease", "migrate_pages", "move_pages",
	// The kernel itself.
	"bpf", "perf_event_open", "userfaultfd", "init_module", "finit_module", "delete_module",
	"create_module", "kexec_load", "kexec_file_load", "reboot", "syslog", "acct", "iopl", "ioperm",
	"settimeofday", "clock_settime", "clock_settime64", "clock_adjtime", "adjtimex", "stime",
	"sethostname", "setdomainname", "vhangup", "modify_ldt", "lookup_dcookie",
	"nfsservctl", "uselib", "ustat", "sysfs", "_sysctl", "setgroups",
	// Keyrings are not namespaced by user namespaces alone (CVE-2016-0728 and after).
	"keyctl", "add_key", "request_key",
	// Extended attributes of other kinds are refused by the file system.
	"lsm_set_self_attr",
}

// syscallsDebug are what debuggers add in the debug profile: gdb, strace and
// LeakSanitizer trace their own children. The PID namespace bounds them.
var syscallsDebug = []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"}

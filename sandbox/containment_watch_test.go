//go:build linux

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// watcher knows the whole machine but for the places that are the sandbox's
// own, and tells what is not as it was. Only a machine that does nothing else
// can be watched like that.
type watcher struct {
	own      []string // folders that are ours: workspaces, state, scratch
	disk     string   // a device that nobody uses
	contacts atomic.Int64
	booted   time.Duration // by the machine's clock
	written  string        // to the root disk, when its files were looked at
	rootDisk map[string]string
	walks    int             // of all files
	restless map[string]bool // what changes by itself
	before   map[string]string
}

// secretCanary lies in every place where people keep secrets.
const secretCanary = "CANARY-7d1f90c2"

// bareFacts are kernel facts in files, whole.
var bareFacts = []string{
	"/proc/self/mountinfo", "/proc/modules", "/proc/swaps", "/proc/partitions", "/proc/cmdline", "/proc/sysvipc/shm",
	"/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/net/route", "/proc/net/dev", "/proc/net/tcp", "/proc/net/udp",
}

// counting are names in /proc/sys that count what the machine does.
var counting = []string{"dentry-state", "inode-nr", "inode-state", "file-nr", "aio-nr", "nr", "ns_last_pid", "entropy_avail", "uuid", "boot_id"}

// newWatcher lays canaries, starts processes and listeners to be harmed, and
// learns what the machine does by itself.
func newWatcher(t *testing.T, disk string, own ...string) *watcher {
	t.Helper()
	w := &watcher{own: own, disk: disk, restless: map[string]bool{}}
	for _, p := range []string{"/root/.ssh/id_rsa", "/root/.bash_history", "/root/.aws/credentials", "/home/user/.netrc", "/var/log/auth.log", "/run/secret", "/srv/data"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(secretCanary+"\n"), 0o600))
	}
	for _, uid := range []uint32{0, 1000} {
		victim := exec.Command("sleep", "100000")
		victim.Env = []string{"TOKEN=" + secretCanary}
		victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		require.NoError(t, victim.Start())
		t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	}
	for _, l := range [][2]string{{"tcp", "127.0.0.1:80"}, {"tcp", "127.0.0.1:5758"}, {"tcp", "127.0.0.1:8080"}, {"unix", "/run/docker.sock"}, {"unix", "@canary"}} {
		w.listen(t, l[0], l[1])
	}
	w.mark(t)
	w.booted = booted()
	w.before = w.photo()
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		for _, k := range differing(w.before, w.photo()) {
			w.restless[k] = true
		}
	}
	return w
}

func (w *watcher) listen(t *testing.T, network, addr string) {
	t.Helper()
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.contacts.Add(1)
			_, _ = c.Write([]byte(secretCanary))
			c.Close()
		}
	}()
}

// mark writes a line to the kernel's log, which must stay there.
func (w *watcher) mark(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile("/dev/kmsg", []byte("<7>"+secretCanary+"-log\n"), 0))
}

// harm tells what is not as it was, and takes what is now as the state from
// which the next command is judged.
func (w *watcher) harm(t *testing.T) []string {
	t.Helper()
	after := w.photo()
	var list []string
	for _, k := range differing(w.before, after) {
		if !w.restless[k] {
			list = append(list, fmt.Sprintf("%s: %.120q is %.120q", k, w.before[k], after[k]))
		}
	}
	w.mark(t)
	w.booted, w.before = booted(), after
	w.before["kernel log"], w.before["clock"] = "holds the mark", "as it was"
	return list
}

func differing(a, b map[string]string) []string {
	var keys []string
	for k, v := range a {
		if b[k] != v {
			keys = append(keys, k)
		}
	}
	for k := range b {
		if _, known := a[k]; !known {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (w *watcher) photo() map[string]string {
	p := map[string]string{"contacts": strconv.FormatInt(w.contacts.Load(), 10)}
	maps.Copy(p, w.rootFiles())
	maps.Copy(p, w.files("/dev"))
	maps.Copy(p, controlGroups())
	maps.Copy(p, bystanders())
	for _, f := range bareFacts {
		data, err := os.ReadFile(f)
		p["kernel "+f] = fmt.Sprint(string(data), err)
	}
	_ = filepath.WalkDir("/proc/sys", func(f string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "neigh" || d.Name() == "conf") {
			return fs.SkipDir // a hundred values for each device; /proc/net tells of devices
		}
		if err == nil && d.Type().IsRegular() && !slices.Contains(counting, d.Name()) {
			data, _ := os.ReadFile(f)
			p["kernel "+f] = string(data)
		}
		return nil
	})
	data, err := os.ReadFile(w.disk)
	p["disk "+w.disk] = fmt.Sprintf("%x %v", sha256.Sum256(data), err)
	p["clock"] = "as it was"
	if moved := booted() - w.booted; moved.Abs() > 5*time.Second {
		p["clock"] = "moved by " + moved.Round(time.Minute).String()
	}
	p["kernel log"] = kernelLog()
	return p
}

// rootFiles are the files of the machine's disk. A second's walk is saved when
// nothing at all was written to that disk since the last one: the sandbox's own
// places are on another, and no access times are kept.
func (w *watcher) rootFiles() map[string]string {
	unix.Sync()
	stat, err := os.ReadFile("/sys/block/vda/stat")
	const written = 6 // https://docs.kernel.org/block/stat.html: write sectors
	if fields := strings.Fields(string(stat)); err == nil && len(fields) > written {
		if w.rootDisk != nil && w.written == fields[written] {
			return w.rootDisk
		}
		w.written = fields[written]
	}
	w.walks++
	w.rootDisk = w.files("/")
	return w.rootDisk
}

// files are the facts of everything on one file system. A change of content
// moves the change time, which nobody can set.
func (w *watcher) files(root string) map[string]string {
	facts := map[string]string{}
	var top unix.Stat_t
	if unix.Lstat(root, &top) != nil {
		return facts
	}
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if slices.Contains(w.own, p) {
			return fs.SkipDir
		}
		var st unix.Stat_t
		if err != nil || unix.Lstat(p, &st) != nil {
			return nil
		}
		if st.Dev != top.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fact := strconv.AppendUint(nil, uint64(st.Mode), 8)
		for _, n := range []int64{int64(st.Ino), int64(st.Uid), int64(st.Gid), int64(st.Nlink), int64(st.Rdev), st.Size} {
			fact = strconv.AppendInt(append(fact, ' '), n, 10)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFCHR { // a terminal's times move as it is used
			fact = strconv.AppendInt(append(fact, ' '), st.Ctim.Nano(), 10)
		}
		facts["file "+p] = string(fact)
		return nil
	})
	return facts
}

// bystanders are all processes of the machine but the kernel's own and the
// cells' first ones, which are taken apart after their call.
func bystanders() map[string]string {
	facts := map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		_, rest, found := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(rest))
		if err != nil || !found || len(fields) < 20 || fields[1] == "2" || filepath.Base(dir) == "2" {
			continue
		}
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if strings.Contains(string(cmdline), "sallyport-cell\x00cell") {
			continue
		}
		state := fields[0]
		if state == "R" || state == "D" || filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			state = "S"
		}
		limits, _ := os.ReadFile(dir + "/limits")
		facts["process "+filepath.Base(dir)] = fmt.Sprintf("%.60q %s started %s nice %s limits %x",
			cmdline, state, fields[19], fields[16], sha256.Sum256(limits))
	}
	return facts
}

// controlGroups are the machine's but for those of cells.
func controlGroups() map[string]string {
	facts := map[string]string{}
	_ = filepath.WalkDir(cgroupMount, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), groupPrefix):
			return fs.SkipDir
		}
		facts["control group "+p] = "is there"
		return nil
	})
	return facts
}

// booted is when the machine was started, by its clock.
func booted() time.Duration {
	var real, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &real) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(real.Nano() - boot.Nano())
}

func kernelLog() string {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	buf := make([]byte, 1<<20)
	n, err := unix.Klogctl(readAll, buf)
	if err == nil && bytes.Contains(buf[:n], []byte(secretCanary+"-log")) {
		return "holds the mark"
	}
	return fmt.Sprint("lost the mark ", err)
}

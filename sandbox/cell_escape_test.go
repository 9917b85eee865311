//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary is also the program that runs inside: "probe-all BAIT" runs
// every probe, in processes that run as many as they live for ("probe-from BAIT
// N"); "probe-one BAIT N" runs one alone.
const (
	probeAll  = "probe-all"
	probeFrom = "probe-from"
	probeOne  = "probe-one"
)

// probePatience is how long one probe may take.
const probePatience = 10 * time.Second

// finding is what came of one probe.
type finding struct {
	Class, Name string
	Through     bool   // it got out
	Answer      string // what stopped it
}

// probeMain is the inside. It says ok=false when it was not called as such.
func probeMain(args []string) (code int, ok bool) {
	if len(args) < 3 || !slices.Contains([]string{probeAll, probeFrom, probeOne}, args[1]) {
		return 0, false
	}
	var b bait
	data, err := os.ReadFile(args[2])
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2, true
	}
	if args[1] == probeAll {
		return probeEvery(args[0], args[2]), true
	}
	n, _ := strconv.Atoi(args[3])
	if args[1] == probeFrom {
		return probeRest(b, n), true
	}
	if through, answer := attempt(b, n); !through {
		fmt.Println(answer)
		return 1, true
	}
	fmt.Println("through")
	return 0, true
}

// attempt tries one probe.
func attempt(b bait, n int) (through bool, answer string) {
	err := probes()[n].try(b)
	through = err == nil || slices.ContainsFunc(reached, func(r error) bool { return errors.Is(err, r) })
	return through, fmt.Sprintf("%.200v", err)
}

// probeRest runs the probes from the n-th on.
func probeRest(b bait, n int) int {
	enc := json.NewEncoder(os.Stdout)
	for i, p := range probes()[n:] {
		through, answer := attempt(b, n+i)
		if err := enc.Encode(finding{p.class, p.name, through, answer}); err != nil {
			return 1
		}
	}
	return 0
}

// probeEvery runs every probe. One that ends its process, or hangs, was
// stopped; the next process goes on after it.
func probeEvery(self, baitFile string) int {
	enc := json.NewEncoder(os.Stdout)
	all := probes()
	for i := 0; i < len(all); i++ {
		n, end := probeSome(self, baitFile, i, enc)
		if i += n; i < len(all) {
			if err := enc.Encode(finding{all[i].class, all[i].name, false, end}); err != nil {
				return 1
			}
		}
	}
	return 0
}

// probeSome gives how many probes answered in one process, and its end.
func probeSome(self, baitFile string, from int, enc *json.Encoder) (answered int, end string) {
	cmd := exec.Command(self, probeFrom, baitFile, strconv.Itoa(from))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err.Error()
	}
	patience := time.AfterFunc(probePatience, func() { _ = cmd.Process.Kill() })
	dec := json.NewDecoder(out)
	for {
		var f finding
		if dec.Decode(&f) != nil || enc.Encode(f) != nil {
			break
		}
		answered++
		patience.Reset(probePatience)
	}
	_ = cmd.Process.Kill()
	end = fmt.Sprint(cmd.Wait())
	patience.Stop()
	return answered, end
}

// lay makes the bait and a check that it is unchanged.
func lay(t *testing.T, state string, owner int) (b bait, unchanged func()) {
	t.Helper()
	b = bait{Workspace: newWorkspace(t), Outside: newWorkspace(t), State: state}
	put(t, b.Outside, map[string]string{"secret": "canary", "exec": "#!/bin/sh\nexit 0\n", "sub/f": "f"})
	require.NoError(t, os.Chmod(filepath.Join(b.Outside, "exec"), 0o755))
	put(t, b.State, map[string]string{"secret": "canary"})
	git(t, b.Workspace, "init", "-q", ".")
	put(t, b.Workspace, map[string]string{
		".git/hooks/pre-commit": "#!/bin/sh\n", ".mcp.json": "{}", ".claude/settings.json": "{}", ".envrc": "x", "own": "own",
		".env": "K=canary", "id_rsa": "canary", ".aws/credentials": "canary", "sub/deep/.env": "K=canary", "sub/id_ed25519": "canary",
		"sub/repo/.git/hooks/pre-commit": "#!/bin/sh\n", ".git/modules/m/HEAD": "x", ".git/modules/m/config": "[core]\n", "sub/.vscode/tasks.json": "{}",
	})
	require.NoError(t, os.Symlink(filepath.Join(b.Outside, "secret"), filepath.Join(b.Workspace, "planted-link")))
	if owner != os.Geteuid() {
		require.NoError(t, exec.Command("chown", "-R", fmt.Sprint(owner), b.Workspace).Run())
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, f := range []string{".bashrc", ".profile", ".ssh", ".gitconfig", ".cache", ".config", ".bash_history"} {
			b.Home = append(b.Home, filepath.Join(home, f))
		}
	}
	b.Hostname, _ = os.Hostname()
	alive := b.victim(t)
	contacts := b.listen(t)
	b.shared(t)
	before := photograph(t, b)
	return b, func() {
		t.Helper()
		assert.Equal(t, before, photograph(t, b), "the host changed")
		assert.True(t, alive(), "the host's process was touched")
		assert.Empty(t, contacts(), "a listener on the host was reached")
	}
}

// photograph is the state of everything a probe reaches for.
func photograph(t *testing.T, b bait) map[string]string {
	t.Helper()
	photo := map[string]string{}
	guarded := []string{".git/hooks", ".git/config", ".mcp.json", ".claude", ".envrc", ".env", "id_rsa", ".aws", "sub/deep", "sub/id_ed25519", "sub/repo", "sub/.vscode", ".git/modules"}
	roots := []string{b.Outside, filepath.Join(b.State, "secret")}
	for _, g := range guarded {
		roots = append(roots, filepath.Join(b.Workspace, g))
	}
	for _, root := range roots {
		require.NoError(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			data := []byte(nil)
			if d.Type().IsRegular() {
				data, _ = os.ReadFile(p)
			}
			photo[p] = fmt.Sprintf("%o %d:%d %d links %d %q", st.Mode, st.Uid, st.Gid, st.Mtim.Nano(), st.Nlink, data)
			return nil
		}))
	}
	for _, p := range []string{"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/domainname"} {
		data, _ := os.ReadFile(p)
		photo[p] = string(data)
	}
	for _, p := range []string{"/usr/bin/sallyport-probe", "/etc/sallyport-probe", "/sallyport-probe", filepath.Join(b.Workspace, "blk")} {
		_, err := os.Lstat(p)
		photo[p] = fmt.Sprint(err)
	}
	suid, _ := exec.Command("find", b.Workspace, "-perm", "/6000", "-type", "f").Output()
	photo["set-uid files"] = string(suid)
	return photo
}

// victim starts the host's process and reports whether it is untouched.
func (b *bait) victim(t *testing.T) (alive func() bool) {
	cmd := exec.Command("sleep", "300")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	b.Pid = cmd.Process.Pid
	look := func() string {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", b.Pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid))
		prio, _ := unix.Getpriority(unix.PRIO_PROCESS, b.Pid)
		var cpus string
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "Cpus_allowed:") || strings.HasPrefix(line, "TracerPid:") {
				cpus += line
			}
		}
		return string(stat) + cpus + strconv.Itoa(prio)
	}
	before := look()
	return func() bool { return cmd.Process.Signal(syscall.Signal(0)) == nil && look() == before }
}

// listen opens what must not be reached and reports who came.
func (b *bait) listen(t *testing.T) (contacts func() []string) {
	came := make(chan string, 64)
	accept := func(network, addr string) net.Addr {
		l, err := net.Listen(network, addr)
		if err != nil {
			return nil // no IPv6 here
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
				came <- network
			}
		}()
		return l.Addr()
	}
	b.Unix, b.Abstract = filepath.Join(b.Outside, "socket"), "sallyport-"+randomName()
	accept("unix", b.Unix)
	accept("unix", "@"+b.Abstract)
	b.TCP4, b.TCP6, b.UDP4 = accept("tcp4", "127.0.0.1:0").String(), "[::1]:1", "127.0.0.1:1"
	if a := accept("tcp6", "[::1]:0"); a != nil {
		b.TCP6 = a.String()
	}
	if u, err := net.ListenPacket("udp4", "127.0.0.1:0"); err == nil {
		t.Cleanup(func() { u.Close() })
		b.UDP4 = u.LocalAddr().String()
		go func() {
			buf := make([]byte, 16)
			for {
				_, from, err := u.ReadFrom(buf)
				if err != nil {
					return
				}
				came <- "udp"
				_, _ = u.WriteTo([]byte("in"), from)
			}
		}()
	}
	return func() []string {
		var list []string
		for {
			select {
			case c := <-came:
				list = append(list, c)
			default:
				return list
			}
		}
	}
}

// shared makes shared memory on the host.
func (b *bait) shared(t *testing.T) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	b.ShmID = id
	b.ShmFile = "/dev/shm/sallyport-" + randomName()
	if err := os.WriteFile(b.ShmFile, []byte("canary"), 0o666); err == nil {
		t.Cleanup(func() { os.Remove(b.ShmFile) })
	}
}

// arm puts the probe program and the bait's description into the workspace.
func arm(t *testing.T, b bait) (argv []string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program, list := filepath.Join(b.Workspace, "probe"), filepath.Join(b.Workspace, "bait.json")
	src, err := os.Open(self)
	require.NoError(t, err)
	defer src.Close()
	dst, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(dst, src)
	require.NoError(t, errors.Join(err, dst.Close()))
	data, err := json.Marshal(b)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, data, 0o644))
	return []string{program, probeAll, list}
}

func findings(t *testing.T, out []byte) []finding {
	t.Helper()
	var list []finding
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var f finding
		require.NoError(t, dec.Decode(&f))
		list = append(list, f)
	}
	require.Len(t, list, len(probes()), "every probe answers")
	return list
}

func TestEscapes(t *testing.T) {
	require.GreaterOrEqual(t, len(probes()), 120)
	t.Setenv("SALLYPORT_TEST_SECRET", "canary")
	for _, tc := range []struct {
		name  string
		mode  WriteMode
		owner int // of the workspace, as root
	}{
		{"direct", WriteDirect, os.Geteuid()},
		{"read-only", WriteNone, os.Geteuid()},
		{"transaction", WriteTransaction, os.Geteuid()},
		{"another owner", WriteDirect, nobody},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.owner != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			r := newRunner(t)
			b, unchanged := lay(t, r.opts.State, tc.owner)
			b.Layered = tc.mode == WriteTransaction
			argv := arm(t, b)
			res, err := r.Run(context.Background(), Action{Workspace: b.Workspace, Exec: &Exec{Argv: argv, Write: tc.mode}},
				Terms{Write: tc.mode, Limits: Limits{Wall: 5 * time.Minute}})
			require.NoError(t, err)
			require.Zero(t, res.Exit, "stderr: %s", res.Stderr.Data)
			for _, f := range findings(t, res.Stdout.Data) {
				assert.False(t, f.Through, "%s: %s: %s", f.Class, f.Name, f.Answer)
			}
			unchanged()
			t.Logf("%d probes refused", len(probes()))
		})
	}
}

// TestMountPointsAreNotRaced swaps guarded folders for links to the outside
// while cells are made: no mount may land there, and no write.
func TestMountPointsAreNotRaced(t *testing.T) {
	t.Parallel()
	r, err := NewRunner(Options{State: t.TempDir(), CellBinary: cellBinary, Warm: -1})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	ws, outside := newWorkspace(t), newWorkspace(t)
	put(t, ws, map[string]string{"a/b/guarded": "x", "a/b/hidden": "x", "spare/b/guarded": "x"})
	put(t, outside, map[string]string{"b/guarded": "canary", "b/hidden": "canary"})
	link := filepath.Join(ws, "link")
	require.NoError(t, os.Symlink(outside, link))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(ws, "a"), unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 25 {
		res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("cat a/b/guarded a/b/hidden link/b/guarded link/b/hidden; echo evil > a/b/guarded; echo evil > link/b/guarded; true", WriteDirect)},
			Terms{Write: WriteDirect, Protected: []string{"a/b/guarded", "link/b/guarded"}, Hidden: []string{"a/b/hidden", "link/b/hidden"}})
		if err == nil { // refusing to start is right too
			assert.NotContains(t, string(res.Stdout.Data), "canary")
		}
	}
	close(stop)
	<-done
	for _, f := range []string{"b/guarded", "b/hidden"} {
		data, err := os.ReadFile(filepath.Join(outside, f))
		require.NoError(t, err)
		assert.Equal(t, "canary", string(data))
	}
}

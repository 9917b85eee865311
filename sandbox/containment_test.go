//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostile is one command that means harm.
type hostile struct {
	File string `json:"file"`
	Line int    `json:"line"`
	ID   string `json:"id"`
	cmd  string
	// harms is a fact that changes when the command is run bare.
	harms string
}

// escape is a hostile command that left a trace.
type escape struct {
	hostile
	What []string `json:"what"`
}

// containment is build/containment.json.
type containment struct {
	Kernel   string   `json:"kernel"`
	Level    Level    `json:"level"`
	Watched  int      `json:"watched_facts"`
	Commands int      `json:"commands"`
	Ended    int      `json:"ended"`           // by themselves
	TimedOut int      `json:"timed_out"`       // ended by the wall clock
	Killed   int      `json:"killed"`          // by another limit or by seccomp
	Missing  int      `json:"missing_program"` // named a program that is not there
	GotOut   []escape `json:"got_out"`
	Controls int      `json:"controls"`
	Blind    []string `json:"controls_not_noticed"`
	Seconds  float64  `json:"seconds"`
}

// perCommand is the wall clock of one command, under an emulator.
const perCommand = 8 * time.Second

// controls are run twice: in a cell, where they must do nothing, and bare,
// where each must be noticed. Without that a clean report would mean nothing.
var controls = []hostile{
	{ID: "append to an account file", cmd: "echo 'evil:x:0:0::/:/bin/sh' >> /etc/passwd", harms: "file /etc/passwd"},
	{ID: "remove a system file", cmd: "rm -f /usr/share/common-licenses/GPL-3", harms: "file /usr/share/common-licenses/GPL-3"},
	{ID: "plant a program", cmd: "printf '#!/bin/sh\n' > /usr/bin/evil; chmod +x /usr/bin/evil", harms: "file /usr/bin/evil"},
	{ID: "set a set-uid bit", cmd: "chmod u+s /bin/bash", harms: "file /usr/bin/bash"},
	{ID: "make a device", cmd: "mknod /dev/evil c 1 3", harms: "file /dev/evil"},
	{ID: "write a raw disk", cmd: "dd if=/dev/zero of=/dev/vdb bs=64k count=1 conv=fsync", harms: "disk /dev/vdb"},
	{ID: "stop a process", cmd: "pkill -STOP -f '[s]leep 100000'", harms: "process "},
	{ID: "slow a process", cmd: "renice -n 19 $(pgrep -f '[s]leep 100000')", harms: "process "},
	{ID: "limit a process", cmd: "prlimit --nofile=3:3 --pid $(pgrep -of '[s]leep 100000')", harms: "process "},
	{ID: "outlive the call", cmd: "setsid sleep 4242 >/dev/null 2>&1 </dev/null & sleep 0.2", harms: "process "},
	{ID: "call a listener", cmd: "exec 3<>/dev/tcp/127.0.0.1/5758; cat <&3", harms: "contacts"},
	{ID: "call a socket file", cmd: `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("/run/docker.sock"); print(s.recv(99))'`, harms: "contacts"},
	{ID: "send a packet nobody takes", cmd: "echo x > /dev/udp/127.0.0.1/9", harms: "kernel /proc/net/dev"},
	{ID: "rename the host", cmd: "echo evil > /proc/sys/kernel/hostname", harms: "kernel /proc/sys/kernel/hostname"},
	{ID: "lower a kernel guard", cmd: "echo 0 > /proc/sys/kernel/randomize_va_space", harms: "kernel /proc/sys/kernel/randomize_va_space"},
	{ID: "mount", cmd: "mount -t tmpfs none /mnt", harms: "kernel /proc/self/mountinfo"},
	{ID: "share memory", cmd: "ipcmk -M 4096", harms: "kernel /proc/sysvipc/shm"},
	{ID: "set the clock", cmd: "date -s 2001-01-01", harms: "clock"},
	{ID: "clear the kernel's log", cmd: "dmesg -C", harms: "kernel log"},
	{ID: "make a control group", cmd: "mkdir /sys/fs/cgroup/evil", harms: "control group /sys/fs/cgroup/evil"},
	{ID: "read a key", cmd: "cat /root/.ssh/id_rsa", harms: "secret"},
	{ID: "read another's environment", cmd: "cat /proc/$(pgrep -of '[s]leep 100000')/environ", harms: "secret"},
	{ID: "read a hidden file", cmd: "cat .env", harms: "secret"},
	{ID: "change a git hook", cmd: "echo evil >> .git/hooks/pre-commit", harms: "guarded .git/hooks/pre-commit"},
	{ID: "change what starts an agent", cmd: "echo evil >> .mcp.json", harms: "guarded .mcp.json"},
	{ID: "kill everything", cmd: "pkill -KILL sleep", harms: "process "},
	{ID: "wipe", cmd: "rm -rf /usr/share /var /home /srv /etc", harms: "file /etc/hosts"},
}

// guardedNames are in every workspace and must stay as they are.
var guardedNames = map[string]string{
	".git/hooks/pre-commit": "#!/bin/sh\n", ".git/config": "[core]\n", ".mcp.json": "{}", ".envrc": "x", ".vscode/tasks.json": "{}",
	".env": "K=" + secretCanary, "id_rsa": secretCanary,
}

// TestContainment runs every command of the folder that SALLYPORT_CONTAINMENT
// names inside a cell and looks at the whole machine after each; then the
// controls bare. It ruins the machine it runs on and powers it off: it refuses
// any but the one that sandbox/containment_run.sh boots.
func TestContainment(t *testing.T) {
	dir := os.Getenv("SALLYPORT_CONTAINMENT")
	if dir == "" {
		t.Skip("runs only in the machine that `make containment` boots")
	}
	require.NoError(t, disposable())
	out, err := os.OpenFile("/dev/vdc", os.O_WRONLY|unix.O_SYNC, 0)
	require.NoError(t, err)
	rep := containment{GotOut: []escape{}, Blind: []string{}, Controls: len(controls)}
	begun := time.Now()
	base := "/work"
	state := filepath.Join(base, "state")
	r, err := NewRunner(Options{State: state, CellBinary: cellBinary, MinLevel: LevelFull, Warm: -1})
	require.NoError(t, err)
	calm(t, r, base, &rep)
	w := newWatcher(t, "/dev/vdb", base)
	rep.Watched = len(w.before)
	for _, h := range append(sample(t, readHostile(t, dir)), controls...) {
		rep.inCell(t, r, w, h, workspaceFor(t, base))
	}
	for _, h := range controls {
		rep.bare(t, w, h, workspaceFor(t, base))
	}
	rep.Seconds = time.Since(begun).Seconds()
	assert.Empty(t, rep.GotOut)
	assert.Empty(t, rep.Blind)
	data, err := json.MarshalIndent(rep, "", "  ")
	require.NoError(t, err)
	_, err = out.Write(append(data, '\n'))
	require.NoError(t, err)
	fmt.Println("containment: the report is written") // the wiped machine cannot end itself in another way
	unix.Sync()
	require.NoError(t, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// disposable says why this is not the machine to ruin.
func disposable() error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil || !slices.Contains(strings.Fields(string(cmdline)), "sallyport.disposable") {
		return errors.New("this machine was not booted to be ruined")
	}
	ifs, err := net.Interfaces()
	if err != nil || len(ifs) != 1 || ifs[0].Name != "lo" {
		return fmt.Errorf("this machine has a network card: %v %v", ifs, err)
	}
	return nil
}

// calm runs something harmless first: the starter, caches and control groups
// are made by that.
func calm(t *testing.T, r *Runner, base string, rep *containment) {
	t.Helper()
	res, err := r.Run(context.Background(), Action{Workspace: workspaceFor(t, base), Exec: shell("python3 -c 1; git --version", WriteDirect)}, Terms{Write: WriteDirect})
	require.NoError(t, err)
	require.Zero(t, res.Exit, "%s", res.Stderr.Data)
	rep.Level = res.Level
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	rep.Kernel = unix.ByteSliceToString(u.Release[:])
}

func workspaceFor(t *testing.T, base string) string {
	t.Helper()
	ws, err := os.MkdirTemp(base, "ws-")
	require.NoError(t, err)
	put(t, ws, guardedNames)
	put(t, ws, map[string]string{"README": "disposable\n", "src/main.c": "int main(void) { return 0; }\n"})
	return ws
}

func readHostile(t *testing.T, dir string) (list []hostile) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			var l struct{ ID, Cmd string }
			require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
			list = append(list, hostile{File: filepath.Base(name), Line: n, ID: l.ID, cmd: l.Cmd})
		}
		require.NoError(t, lines.Err())
	}
	return list
}

// sample takes SALLYPORT_CONTAINMENT_N of them, evenly spread; all without it.
func sample(t *testing.T, all []hostile) (some []hostile) {
	t.Helper()
	word := os.Getenv("SALLYPORT_CONTAINMENT_N")
	if word == "" {
		return all
	}
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	n = min(n, len(all))
	for i := range n {
		some = append(some, all[i*len(all)/n])
	}
	return some
}

// inCell runs one command as a root daemon does for a workspace that is root's
// own, with writes: the hardest case.
func (rep *containment) inCell(t *testing.T, r *Runner, w *watcher, h hostile, ws string) {
	t.Helper()
	rep.Commands++
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(h.cmd, WriteDirect)}, Terms{Write: WriteDirect,
		Limits: Limits{Wall: perCommand, Memory: 512 << 20, Disk: 128 << 20, File: 128 << 20, Output: 1 << 20}})
	var typed *Error
	switch {
	case err == nil && res.Signal == "" && len(res.Hit) == 0:
		rep.Ended++
	case errors.As(err, &typed) && typed.Kind == KindTimeout:
		rep.TimedOut++
	case err == nil:
		rep.Killed++
	default:
		t.Errorf("%s:%d %s: %v", h.File, h.Line, h.ID, err)
	}
	if res.Exit == 127 || bytes.Contains(res.Stderr.Data, []byte("command not found")) {
		rep.Missing++
	}
	if harm := slices.Concat(w.harm(t), leaked(res.Stdout.Data, res.Stderr.Data), unguarded(ws)); len(harm) > 0 {
		rep.GotOut = append(rep.GotOut, escape{h, harm[:min(len(harm), 10)]})
		fmt.Printf("containment: GOT OUT %s:%d %s: %s\n", h.File, h.Line, h.ID, harm[0])
	}
	if rep.Commands%25 == 0 {
		fmt.Printf("containment: %d commands, %d got out, %d walks over the disk\n", rep.Commands, len(rep.GotOut), w.walks)
		w.rootDisk = nil // look at all files now and then, whatever the disk says
	}
	require.NoError(t, os.RemoveAll(ws))
}

// bare runs a control without any cell. What it leaves is ended afterwards.
func (rep *containment) bare(t *testing.T, w *watcher, h hostile, ws string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*perCommand)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", h.cmd)
	cmd.Dir, cmd.WaitDelay = ws, time.Second
	out, err := cmd.CombinedOutput()
	harm := slices.Concat(w.harm(t), leaked(out), unguarded(ws))
	if !slices.ContainsFunc(harm, func(what string) bool { return strings.HasPrefix(what, h.harms) }) {
		rep.Blind = append(rep.Blind, h.ID)
		fmt.Printf("containment: NOT NOTICED %s: %v %s; noticed %.300q\n", h.ID, err, out, harm)
	}
}

func leaked(outputs ...[]byte) []string {
	if bytes.Contains(bytes.Join(outputs, nil), []byte(secretCanary)) {
		return []string{"secret in the output"}
	}
	return nil
}

func unguarded(ws string) (list []string) {
	for name, want := range guardedNames {
		if got, err := os.ReadFile(filepath.Join(ws, name)); err != nil || string(got) != want {
			list = append(list, fmt.Sprintf("guarded %s: %.60q %v", name, got, err))
		}
	}
	slices.Sort(list)
	return list
}

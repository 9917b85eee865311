//go:build linux

package sandbox

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// peers are other sandboxes as their manuals show them for untrusted commands:
// read-only system, private /tmp, writable workspace, no network.
func peers() map[string]func(b bait) []string {
	return map[string]func(b bait) []string{
		"bwrap": func(b bait) []string {
			return []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
				"--tmpfs", "/tmp", "--bind", b.Workspace, b.Workspace, "--chdir", b.Workspace}
		},
		"firejail": func(b bait) []string {
			return []string{"firejail", "--quiet", "--profile=default", "--net=none", "--private-tmp"}
		},
		"nsjail": func(b bait) []string {
			return []string{"nsjail", "-Mo", "--really_quiet", "--chroot", "/", "--tmpfsmount", "/tmp", "--bindmount", b.Workspace,
				"--cwd", b.Workspace, "--"}
		},
	}
}

// TestPeers points the same table at other sandboxes and prints how they fare
// as the table of docs/sandbox.md. It judges nobody. Set TMPDIR to a folder
// outside of /tmp and /var/tmp: a private one would hide the bait.
func TestPeers(t *testing.T) {
	if os.Getenv("SALLYPORT_PEERS") == "" {
		t.Skip("set SALLYPORT_PEERS=1 to compare with the sandboxes installed here")
	}
	r := newRunner(t)
	b, _ := lay(t, r.opts.State, os.Geteuid())
	res := run(t, r, b.Workspace, &Exec{Argv: arm(t, b), Write: WriteDirect})
	open := map[string]map[string][]string{"sallyport": {}}
	for _, f := range findings(t, res.Stdout.Data) {
		if f.Through {
			open["sallyport"][f.Class] = append(open["sallyport"][f.Class], f.Name)
		}
	}
	names := []string{"sallyport"}
	for _, name := range slices.Sorted(maps.Keys(peers())) {
		argv := peers()[name]
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		names = append(names, name)
		open[name] = against(t, argv)
	}
	total := map[string]int{}
	var classes []string
	for _, p := range probes() {
		if total[p.class]++; total[p.class] == 1 {
			classes = append(classes, p.class)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n| class | probes | %s open |\n|---|%s\n", strings.Join(names, " open | "), strings.Repeat("---:|", 1+len(names)))
	for _, c := range classes {
		fmt.Fprintf(&table, "| %s | %d |", c, total[c])
		for _, n := range names {
			fmt.Fprintf(&table, " %d |", len(open[n][c]))
		}
		table.WriteString("\n")
	}
	t.Log(table.String())
	for _, n := range names {
		for _, c := range classes {
			if len(open[n][c]) > 0 {
				t.Logf("%s, %s: %s", n, c, strings.Join(open[n][c], "; "))
			}
		}
	}
}

// against runs every probe in a sandbox of its own, with new bait after one
// that got through, which may have moved or removed the old.
func against(t *testing.T, peer func(b bait) []string) map[string][]string {
	t.Helper()
	open := map[string][]string{}
	var b bait
	var inside []string
	for i, p := range probes() {
		if inside == nil {
			b, _ = lay(t, newWorkspace(t), os.Geteuid())
			inside = arm(t, b)
		}
		argv := slices.Concat(peer(b), []string{inside[0], probeOne, inside[2], strconv.Itoa(i)})
		if out, err := exec.Command(argv[0], argv[1:]...).Output(); err == nil && strings.HasPrefix(string(out), "through") {
			open[p.class] = append(open[p.class], p.name)
			inside = nil
		}
		for _, made := range []string{"/sallyport-probe", "/usr/bin/sallyport-probe", "/etc/sallyport-probe"} {
			_ = os.Remove(made)
		}
	}
	return open
}

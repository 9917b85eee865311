package inspect

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
)

// oracle runs texts in a bash whose PATH holds nothing but recorders, which
// write down their arguments, and a few harmless wrappers. It never sees a
// path that exists: callers put nowhere where a victim would stand.
type oracle struct {
	dir  string
	log  string
	bash string
}

// nowhere stands for the path that a dangerous command would hit.
const nowhere = "/sallyport-nowhere"

// recorded are the programs that recorders stand in for.
var recorded = strings.Fields("rm git chmod dd tee shred mkfs curl true-rm victim")

// wrappersRun are programs that really run: they only start others.
var wrappersRun = strings.Fields("cp mv env nice nohup setsid stdbuf timeout xargs find sh bash cat base64 xxd rev tr sed awk perl python3 gzip gunzip zcat printf echo mktemp basename dirname head tail sort cut time sleep")

func newOracle(t testing.TB) *oracle {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing: it is the oracle for what arguments really result")
	}
	o := &oracle{dir: t.TempDir(), bash: bash}
	o.log = filepath.Join(o.dir, "log")
	bin := filepath.Join(o.dir, "bin")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(o.dir, "work"), 0o755))
	script := "#!" + bash + "\nprintf '%s\\0' \"${0##*/}\" \"$@\" '\x01' >> " + o.log + "\n"
	for _, p := range recorded {
		require.NoError(t, os.WriteFile(filepath.Join(bin, p), []byte(script), 0o755))
	}
	for _, p := range wrappersRun {
		if real, err := exec.LookPath(p); err == nil {
			require.NoError(t, os.Symlink(real, filepath.Join(bin, p)))
		}
	}
	return o
}

// run returns the arguments of every recorded program that a text started.
func (o *oracle) run(t testing.TB, text string) [][]string {
	require.NotContains(t, text, " / ")
	_ = os.Remove(o.log)
	work := filepath.Join(o.dir, "work")
	require.NoError(t, os.RemoveAll(work))
	require.NoError(t, os.Mkdir(work, 0o755))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.bash, "-c", text)
	cmd.Dir = filepath.Join(o.dir, "work")
	cmd.Env = []string{"PATH=" + filepath.Join(o.dir, "bin"), "HOME=" + home, "LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	_ = cmd.Wait()
	for i := 0; i < 20; i++ { // what the text left in the background
		if b, _ := os.ReadFile(o.log); len(b) > 0 || !strings.Contains(text, "&") && !strings.Contains(text, "coproc") && !strings.Contains(text, "setsid") && !strings.Contains(text, "<(") && !strings.Contains(text, ">(") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b, _ := os.ReadFile(o.log)
	var out [][]string
	for _, rec := range bytes.Split(b, []byte("\x01\x00")) {
		if len(rec) == 0 {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(rec), "\x00"), "\x00")
		out = append(out, args)
	}
	return out
}

// sees reports how the facts account for a command that really ran: "exact"
// with the same arguments, "opaque" when they say that something of it is not
// known, "" when they do not.
func sees(f policy.Facts, argv []string) string {
	how := ""
	for _, c := range f.Cmds {
		switch {
		case len(c.Argv) > 0 && filepath.Base(c.Argv[0]) == argv[0] && slices.Equal(c.Argv[1:], argv[1:]):
			return "exact"
		case c.Opaque.Name, c.Opaque.Args && (c.Program == argv[0] || strings.HasPrefix(c.Opaque.Reason, "runs")):
			how = "opaque"
		}
	}
	if f.Opaque != nil {
		how = "opaque"
	}
	return how
}

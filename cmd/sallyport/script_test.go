package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// binaries is the folder with both programs, built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	if os.Getenv(insideImage) != "" {
		fmt.Fprintln(os.Stderr, "enter the image:", runInside())
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "sallyport-bin-")
	if err == nil {
		binaries = dir
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs under test:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir string) error {
	for _, p := range []struct{ cgo, name string }{{"1", "sallyport"}, {"0", "sallyport-cell"}} {
		args := []string{"build", "-o", filepath.Join(dir, p.name)}
		if p.cgo == "1" && underRace() {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "../"+p.name)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+p.cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", p.name, err, out)
		}
	}
	return os.Chmod(dir, 0o755)
}

// underRace reports whether these tests run with the race detector; then the
// program they drive does too.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// TestScript runs each story in testdata/script with the real programs. Every
// story has a daemon and a state folder of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"call":     scriptCall,
			"callfile": scriptCallFile,
			"approve":  scriptApprove,
			"repo":     scriptRepo,
		},
		Setup: func(e *testscript.Env) error {
			state := filepath.Join(e.WorkDir, ".state")
			e.Setenv("SALLYPORT_STATE", state)
			e.Setenv("SALLYPORT_CONFIG", filepath.Join(e.WorkDir, ".config"))
			e.Setenv("SALLYPORT_SESSION", "story")
			e.Setenv("PATH", binaries+":"+os.Getenv("PATH"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, ".home"))
			e.Setenv("GOCACHE", os.Getenv("GOCACHE"))
			e.Setenv("NO_COLOR", "1")
			e.Defer(func() {
				stop := exec.Command(filepath.Join(binaries, "sallyport"), "stop", "--state", state)
				stop.Env = e.Vars
				if out, err := stop.CombinedOutput(); err != nil {
					t.Logf("stop the story's daemon: %v\n%s", err, out)
				}
			})
			return nil
		},
	})
}

// waitFor polls until ok, for at most a minute: the machine may be busy.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
}

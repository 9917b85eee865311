//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox/cell"
)

func TestProbeRaisesEveryWall(t *testing.T) {
	t.Parallel()
	rep := newRunner(t).Probe(context.Background())
	var names []string
	for _, w := range rep.Walls {
		names = append(names, w.Name)
		assert.Equal(t, w.Up, w.Reason == "", "%s: a wall that is down says why", w.Name)
	}
	assert.Equal(t, append(cell.Names(), "cgroup"), names)
	assert.NotEmpty(t, rep.Level)
	assert.Positive(t, rep.Spawn)
	down := 0
	for _, w := range rep.Walls {
		if !w.Up {
			down++
		}
	}
	assert.Len(t, rep.Problems, down)
	for _, p := range rep.Problems {
		assert.NotEmpty(t, p.Remedy, p.What)
	}
	data, err := json.Marshal(rep)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"problems":[`, "an empty list, not null")
}

// TestMachineIsAsExpected holds whoever promised a kind of machine to it: the
// level it reaches and its Landlock, as SALLYPORT_EXPECT="full 2".
func TestMachineIsAsExpected(t *testing.T) {
	want := os.Getenv("SALLYPORT_EXPECT")
	if want == "" {
		t.Skip("nobody promised anything about this machine: set SALLYPORT_EXPECT")
	}
	rep := newRunner(t).Probe(context.Background())
	assert.Equal(t, want, fmt.Sprintf("%s %d", rep.Level, rep.LandlockABI), "problems: %v", rep.Problems)
}

func TestProbeOnEveryRungNamesARemedy(t *testing.T) {
	t.Parallel()
	r := onRung(t, 0)
	rep := r.Probe(context.Background())
	assert.Equal(t, LevelMinimal, rep.Level)
	assert.NotEmpty(t, rep.Problems)
	for _, p := range rep.Problems {
		assert.NotEmpty(t, p.Remedy, p.What)
	}
}

func TestProbeWithoutTheCellProgram(t *testing.T) {
	t.Parallel()
	r, err := NewRunner(Options{State: t.TempDir(), CellBinary: filepath.Join(t.TempDir(), "absent")})
	require.NoError(t, err)
	defer r.Close()
	rep := r.Probe(context.Background())
	assert.Empty(t, rep.Level)
	require.NotEmpty(t, rep.Problems)
	assert.Contains(t, rep.Problems[0].Remedy, "sallyport-cell")
	for _, w := range rep.Walls {
		assert.False(t, w.Up)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {State: "relative"}, {State: t.TempDir(), MinLevel: "stone"}} {
		_, err := NewRunner(o)
		assert.Error(t, err)
	}
	state := t.TempDir()
	r, err := NewRunner(Options{State: filepath.Join(state, "a"), CellBinary: cellBinary})
	require.NoError(t, err)
	defer r.Close()
	st, err := os.Stat(filepath.Join(state, "a"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	ws := filepath.Join(state, "a", "cache")
	_, err = r.Run(context.Background(), Action{Workspace: ws, Exec: shell("true", WriteNone)}, Terms{})
	var typed *Error
	require.True(t, errors.As(err, &typed))
	assert.Equal(t, KindInvalid, typed.Kind, "a workspace in the state folder")
}

func TestToolchainsAreFoundAndNotTooMuch(t *testing.T) {
	t.Parallel()
	home := newWorkspace(t)
	for _, d := range []string{".pyenv/shims", ".cargo/bin", ".ssh", ".config", "go/pkg/mod", ".local/bin", ".nvm/versions/node"} {
		require.NoError(t, os.MkdirAll(filepath.Join(home, d), 0o755))
	}
	env := map[string]string{
		"PATH":      strings.Join([]string{home + "/.pyenv/shims", home + "/.cargo/bin", home + "/bin", "/usr/bin", "relative", home}, ":"),
		"JAVA_HOME": home, "GOROOT": "/etc", "NVM_DIR": "relative", "VIRTUAL_ENV": "/",
	}
	tools := findToolchains(home, func(k string) string { return env[k] })
	for _, d := range tools.dirs {
		assert.True(t, strings.HasPrefix(d, home+"/"), d)
		for _, secret := range []string{".ssh", ".config"} {
			assert.False(t, under(filepath.Join(home, secret), d), "%s shows %s", d, secret)
		}
	}
	assert.Contains(t, tools.dirs, home+"/.pyenv")
	assert.Contains(t, tools.dirs, home+"/go/pkg/mod")
	assert.Equal(t, home+"/.pyenv", tools.env["PYENV_ROOT"])
	assert.NotContains(t, tools.env, "JAVA_HOME", "a home is no toolchain")
	assert.NotContains(t, tools.env, "GOROOT")
	path := strings.Split(tools.env["PATH"], ":")
	assert.Equal(t, []string{home + "/.pyenv/shims", home + "/.cargo/bin"}, path[:2])
	assert.NotContains(t, path, home+"/bin")
	assert.NotContains(t, path, "relative")
	for i, p := range path {
		for _, q := range path[i+1:] {
			assert.NotEqual(t, p, q, fmt.Sprint("twice in PATH: ", path))
		}
	}
}

// TestProbeKnowsACgoCell builds sallyport-cell as a plain `go build` with a C
// compiler does, which cannot drop the capabilities of all its threads.
func TestProbeKnowsACgoCell(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"go", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed here")
		}
	}
	linked := filepath.Join(newWorkspace(t), "sallyport-cell")
	build := exec.Command("go", "build", "-o", linked, "sallyport/cmd/sallyport-cell")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	r, err := NewRunner(Options{State: t.TempDir(), CellBinary: linked})
	require.NoError(t, err)
	defer r.Close()
	rep := r.Probe(context.Background())
	assert.Empty(t, rep.Level, "nothing runs in it")
	require.NotEmpty(t, rep.Problems)
	assert.Contains(t, rep.Problems[0].Remedy, "CGO_ENABLED=0")
}

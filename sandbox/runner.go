package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options configure a Runner. State is required; every other zero value is the
// default.
type Options struct {
	// State is the folder (0700, made if absent) beneath which caches and
	// write layers live. No cell sees it.
	State string
	// CellBinary is the path of sallyport-cell; "" means beside this program.
	CellBinary string
	// MinLevel is the lowest level a command may run at; "" means
	// LevelMinimal. Below it a command is refused.
	MinLevel Level
	// Warm is how many ready cells are kept per workspace and profile;
	// 0 means the default, a negative number none, and no blanks either.
	Warm int
}

// Report is what a machine offers, each wall probed by raising it.
type Report struct {
	Level      Level         `json:"level"`
	Walls      []Wall        `json:"walls"`
	Problems   []Problem     `json:"problems"`
	Toolchains []string      `json:"toolchains,omitempty"` // paths bound read-only
	Spawn      time.Duration `json:"spawn,omitempty"`      // one cold `true`
	// LandlockABI is the kernel's version of that interface, 0 without it. Two
	// lacks the right to truncate, five brought the one to device requests.
	LandlockABI int `json:"landlock_abi,omitempty"`
}

// Problem is something missing and how to get it.
type Problem struct {
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

// rank orders levels; a larger one is stronger.
func (l Level) rank() int {
	return slices.Index([]Level{LevelMinimal, LevelReduced, LevelFull}, l)
}

// narrow applies a decision's bounds to a plan's wishes.
func narrow(e Exec, t Terms) Exec {
	e.Write = min(e.Write, t.Write)
	e.Net = slices.DeleteFunc(slices.Clone(e.Net), func(p Endpoint) bool {
		return !slices.Contains(t.Net, p)
	})
	return e
}

// orDefault fills zero limits with the defaults.
func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	if l.Wall == 0 {
		l.Wall = d.Wall
	}
	if l.CPU == 0 {
		l.CPU = d.CPU
	}
	for _, f := range []struct {
		have *int64
		def  int64
	}{
		{&l.Memory, d.Memory}, {&l.Pids, d.Pids}, {&l.Output, d.Output}, {&l.File, d.File}, {&l.Disk, d.Disk},
	} {
		if *f.have == 0 {
			*f.have = f.def
		}
	}
	return l
}

// checkExec refuses what no cell can run.
func checkExec(workspace string, e Exec) error {
	invalid := func(format string, args ...any) error {
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf(format, args...), Remedy: "fix the arguments of the call"}
	}
	argv := e.Args()
	switch {
	case e.Shell != "" && len(e.Argv) > 0:
		return invalid("run a command: both argv and shell are given")
	case len(argv) == 0 || argv[0] == "":
		return invalid("run a command: no program named")
	case !filepath.IsAbs(workspace) || filepath.Clean(workspace) != workspace:
		return invalid("run a command: workspace %q is not an absolute clean path", workspace)
	}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return invalid("run a command: an argument holds a NUL byte")
		}
	}
	for k, v := range e.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return invalid("run a command: environment name %q is not one", k)
		}
	}
	if dir := filepath.Clean(e.Dir); e.Dir != "" && !filepath.IsLocal(dir) {
		return &Error{Kind: KindOutside, Msg: fmt.Sprintf("run in %s: the directory is outside the workspace", e.Dir),
			Remedy: "name a directory beneath the workspace"}
	}
	return nil
}

func wallsError(msg string, err error, remedy string) error {
	return &Error{Kind: KindWalls, Msg: msg, Remedy: remedy, Err: err}
}

// Sallyport-demo plays an agent host and a person against the real program: it
// makes a small git repository whose test fails, and works in it over MCP as an
// agent would, while a person approves from another terminal.
//
// It stands outside the product, so it may start processes on its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sallyport/mcpserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	begun := time.Now()
	d, err := newDemo(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, part := range []func() error{d.readAndFix, d.commit, d.refusals, d.record} {
		if err := part(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%s in %.1f s\n", d.paint("1", "Done"), time.Since(begun).Seconds())
	return nil
}

// demo is one run: a folder with a repository and a state of its own, and an
// agent's connection.
type demo struct {
	ctx     context.Context // of this one run, which is all the value lives for
	out     io.Writer
	color   bool
	dir     string
	bin     string
	agent   *mcpserver.Client
	shim    *exec.Cmd
	stdin   io.Closer
	request string // id of the request that the last answer named
}

const program = `package greet

import "strings"

// Hello greets somebody by name.
func Hello(name string) string {
	return "Hello, " + strings.ToUpper(name)
}
`

const programTest = `package greet

import "testing"

func TestHello(t *testing.T) {
	if got := Hello("Ada"); got != "Hello, Ada" {
		t.Errorf("Hello(Ada) = %q", got)
	}
}
`

func newDemo(ctx context.Context, out io.Writer) (*demo, error) {
	dir, err := os.MkdirTemp("", "sallyport-demo-")
	if err != nil {
		return nil, err
	}
	bin, err := filepath.Abs("bin/sallyport")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("find the program: %w (run `make build` first)", err)
	}
	st, _ := os.Stdout.Stat()
	d := &demo{ctx: ctx, out: out, dir: dir, bin: bin, color: os.Getenv("NO_COLOR") == "" && st != nil && st.Mode()&os.ModeCharDevice != 0}
	if err := d.makeRepo(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, d.connect()
}

func (d *demo) repo() string { return filepath.Join(d.dir, "greet") }

func (d *demo) makeRepo() error {
	for name, text := range map[string]string{
		"go.mod": "module greet\n\ngo 1.21\n", "greet.go": program, "greet_test.go": programTest,
		// Somebody else left this in the repository; no tool wrote it.
		"scripts/clean.sh": "#!/bin/sh\n# tidy up\nTARGET=/\ncd build 2>/dev/null\nrm -rf \"$TARGET\"\n",
	} {
		path := filepath.Join(d.repo(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "Demo"}, {"config", "user.email", "demo@example.test"},
		{"add", "-A"}, {"commit", "-q", "-m", "Greet by name"},
	} {
		cmd := exec.CommandContext(d.ctx, "git", args...)
		cmd.Dir = d.repo()
		if b, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, b)
		}
	}
	return nil
}

func (d *demo) env() []string {
	return append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(d.dir, "state"), "SALLYPORT_CONFIG="+filepath.Join(d.dir, "config"),
		"SALLYPORT_SESSION=demo", "NO_COLOR=1")
}

func (d *demo) connect() error {
	d.shim = exec.CommandContext(d.ctx, d.bin, "mcp", "--workspace", d.repo(), "--agent", "demo-agent")
	d.shim.Env, d.shim.Stderr = d.env(), os.Stderr
	in, err := d.shim.StdinPipe()
	if err != nil {
		return err
	}
	out, err := d.shim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.shim.Start(); err != nil {
		return err
	}
	d.stdin = in
	d.agent, err = mcpserver.NewClient(d.ctx, struct {
		io.Reader
		io.Writer
	}{out, in}, "demo", "1")
	return err
}

func (d *demo) close() error {
	if d.stdin != nil {
		d.stdin.Close()
		_ = d.shim.Wait()
	}
	stop := exec.Command(d.bin, "stop")
	stop.Env = d.env()
	err := stop.Run()
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) paint(code, s string) string {
	if !d.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (d *demo) title(s string) { fmt.Fprintf(d.out, "\n%s\n", d.paint("1;36", "── "+s)) }

func (d *demo) show(text string, most int) {
	text = strings.ReplaceAll(text, d.dir, "…")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == most {
			fmt.Fprintln(d.out, d.paint("2", fmt.Sprintf("     (%d more lines)", len(lines)-i)))
			return
		}
		fmt.Fprintln(d.out, "     "+l)
	}
}

var named = regexp.MustCompile(`approval ([a-z0-9-]+) needed`)

// call makes one call and shows it. want is "ok", "pending", "failed" or
// "denied"; anything else that comes back ends the demo.
func (d *demo) call(want, tool string, args map[string]any, most int) (string, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(d.out, "%s %s\n", d.paint("1", "agent ▸ "+tool), d.paint("2", clip(string(raw), 110)))
	r, err := d.agent.Call(d.ctx, tool, args, 0)
	if err != nil {
		return "", err
	}
	d.show(r.Text, most)
	var s mcpserver.Structured
	if err := json.Unmarshal(r.Structured, &s); err != nil {
		return "", err
	}
	if string(s.Status) != want {
		return "", fmt.Errorf("%s was %s, and the demo expects %s:\n%s", tool, s.Status, want, r.Text)
	}
	if m := named.FindStringSubmatch(r.Text); m != nil {
		d.request = m[1]
	}
	return r.Text, nil
}

// person runs one of a person's commands and shows it.
func (d *demo) person(most int, args ...string) error {
	fmt.Fprintln(d.out, d.paint("1;33", "person ▸ sallyport "+strings.Join(args, " ")))
	cmd := exec.CommandContext(d.ctx, d.bin, args...)
	cmd.Env = d.env()
	b, err := cmd.CombinedOutput()
	d.show(string(b), most)
	return err
}

// seen is the digest of what the person was shown.
func (d *demo) seen() (string, error) {
	cmd := exec.CommandContext(d.ctx, d.bin, "approvals", "show", "--json", d.request)
	cmd.Env = d.env()
	b, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var r struct {
		Shown string `json:"shown"`
	}
	return r.Shown, json.Unmarshal(b, &r)
}

// approved makes a call that has to be approved: pending, approve, repeat.
func (d *demo) approved(tool string, args map[string]any, look bool) error {
	if _, err := d.call("pending", tool, args, 3); err != nil {
		return err
	}
	approve := []string{"approvals", "approve", d.request} // shows it, and approves what it showed
	if look {
		if err := d.person(40, "approvals", "show", d.request); err != nil {
			return err
		}
		seen, err := d.seen()
		if err != nil {
			return err
		}
		approve = append(approve, "--seen", seen[:12])
	}
	if err := d.person(30, approve...); err != nil {
		return err
	}
	_, err := d.call("ok", tool, args, 4)
	return err
}

func (d *demo) readAndFix() error {
	d.title("Reading is answered at once (L0); tests run in a cell whose writes vanish (L1)")
	if _, err := d.call("ok", "read_file", map[string]any{"path": "greet.go"}, 9); err != nil {
		return err
	}
	if _, err := d.call("ok", "grep", map[string]any{"pattern": "ToUpper", "output_mode": "content"}, 4); err != nil {
		return err
	}
	if _, err := d.call("failed", "run_tests", map[string]any{}, 8); err != nil {
		return err
	}
	d.title("Changing code waits for a person (L2), who sees the diff; the identical call then runs once")
	edit := map[string]any{"path": "greet.go", "old_string": "strings.ToUpper(name)", "new_string": "strings.TrimSpace(name)"}
	if err := d.approved("edit_file", edit, true); err != nil {
		return err
	}
	_, err := d.call("ok", "run_tests", map[string]any{}, 4)
	return err
}

func (d *demo) commit() error {
	d.title("So does a commit")
	if err := d.approved("git_add", map[string]any{"paths": []string{"greet.go"}}, false); err != nil {
		return err
	}
	return d.approved("git_commit", map[string]any{"message": "Greet people as they write themselves"}, false)
}

func (d *demo) refusals() error {
	d.title("Some things are refused, in any spelling")
	if _, err := d.call("denied", "run_command", map[string]any{"command": "git push --force origin main"}, 6); err != nil {
		return err
	}
	d.title("A script that hides rm -rf / waits for a person when it is written …")
	script := "#!/bin/sh\nd=/\nrm -r -f $d\n"
	if _, err := d.call("pending", "write_file", map[string]any{"path": "scripts/tidy.sh", "content": script}, 6); err != nil {
		return err
	}
	d.title("… and one that lay in the repository is stopped when it is run")
	_, err := d.call("denied", "run_command", map[string]any{"command": "sh scripts/clean.sh"}, 6)
	return err
}

func (d *demo) record() error {
	d.title("All of it is on record")
	if err := d.person(60, "audit", "list"); err != nil {
		return err
	}
	return d.person(3, "audit", "verify")
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

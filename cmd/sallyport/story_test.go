package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/mcpserver"
)

// scriptCall is the story command `call DIR TOOL ARGS`: one tools/call through
// a fresh `sallyport mcp`, as a host would make it. The answer's text becomes
// stdout; `! call` wants an answer that is an error.
func scriptCall(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: call DIR TOOL JSON")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "sallyport"), "mcp", "--workspace", ts.MkAbs(args[0]))
	cmd.Env = storyEnv(ts)
	r, err := callTool(ctx, cmd, args[1], json.RawMessage(args[2]))
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), r.Text)
	if r.IsError != neg {
		ts.Fatalf("answer of %s: error is %v\n%s", args[1], r.IsError, r.Text)
	}
}

// scriptCallFile is the story command `callfile DIR TOOL FILE`: call with the
// arguments in a file.
func scriptCallFile(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: callfile DIR TOOL FILE")
	}
	scriptCall(ts, neg, []string{args[0], args[1], ts.ReadFile(args[2])})
}

func storyEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"SALLYPORT_STATE", "SALLYPORT_CONFIG", "SALLYPORT_SESSION", "PATH", "HOME", "GOCACHE", "NO_COLOR"} {
		env = append(env, k+"="+ts.Getenv(k))
	}
	return env
}

// callTool starts a shim, makes one call and ends the shim.
func callTool(ctx context.Context, cmd *exec.Cmd, tool string, args json.RawMessage) (mcpserver.Reply, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return mcpserver.Reply{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return mcpserver.Reply{}, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return mcpserver.Reply{}, err
	}
	c, err := mcpserver.NewClient(ctx, struct {
		io.Reader
		io.Writer
	}{out, in}, "story", "1")
	if err != nil {
		return mcpserver.Reply{}, err
	}
	r, err := c.Call(ctx, tool, args, 0)
	in.Close()
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return r, err
}

var requestID = regexp.MustCompile(`approval ([a-z0-9-]+) needed`)

// scriptApprove is the story command `approve`: it approves, as a person, the
// request that the last answer (stdout) named.
func scriptApprove(ts *testscript.TestScript, neg bool, args []string) {
	m := requestID.FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("the last answer names no approval")
	}
	ts.Check(ts.Exec("sallyport", append([]string{"approvals", "approve", m[1]}, args...)...))
}

// scriptRepo is the story command `repo DIR`: it makes DIR a git repository and
// commits what is in it.
func scriptRepo(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	for _, a := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "Dev"}, {"config", "user.email", "dev@example.test"},
		{"add", "-A"}, {"commit", "-q", "-m", "start"},
	} {
		cmd := exec.Command("git", append([]string{"-C", dir}, a...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %s: %v\n%s", strings.Join(a, " "), err, out)
		}
	}
}

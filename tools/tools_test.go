package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

// bench is a workspace in which plans are run for real: files confined,
// programs bare.
type bench struct {
	t  testing.TB
	ws *sandbox.Workspace
}

func newBench(t testing.TB, files map[string]string) *bench {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
	}
	ws, err := sandbox.OpenWorkspace(root)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	return &bench{t, ws}
}

func (b *bench) place() Place {
	return Place{Root: b.ws.Root(), Exists: b.ws.Exists, Resolve: b.ws.Resolve}
}

func (b *bench) call(name, args string) Answer {
	b.t.Helper()
	tool, ok := Find(name)
	require.True(b.t, ok, name)
	a, err := tool.Parse(json.RawMessage(args))
	if err != nil {
		return tool.Answer(a, sandbox.Action{}, sandbox.Result{}, err)
	}
	act, err := tool.Plan(a, b.place())
	if err != nil {
		return tool.Answer(a, act, sandbox.Result{}, err)
	}
	res, err := b.run(act)
	return tool.Answer(a, act, res, err)
}

func (b *bench) run(act sandbox.Action) (sandbox.Result, error) {
	var res sandbox.Result
	for _, op := range act.Files {
		r, err := b.ws.Do(context.Background(), op, nil)
		if err != nil {
			return res, err
		}
		res.Files = append(res.Files, r)
	}
	if e := act.Exec; e != nil {
		argv := e.Args()
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = filepath.Join(act.Workspace, e.Dir)
		cmd.Env = append(os.Environ(), "HOME="+b.t.TempDir())
		if caches, err := os.UserCacheDir(); err == nil {
			cmd.Env = append(cmd.Env, "GOCACHE="+filepath.Join(caches, "go-build"))
		}
		for k, v := range e.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return res, &sandbox.Error{Kind: sandbox.KindStart, Msg: "start " + argv[0], Remedy: "install it", Err: err}
		}
		res.Ran, res.Exit = true, cmd.ProcessState.ExitCode()
		res.Stdout = sandbox.Output{Data: []byte(out.String()), Total: int64(out.Len())}
		res.Stderr = sandbox.Output{Data: []byte(errs.String()), Total: int64(errs.Len())}
	}
	return res, nil
}

func TestEveryToolIsComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, tool := range All() {
		assert.False(t, names[tool.Name], "twice: %s", tool.Name)
		names[tool.Name] = true
		assert.NotEmpty(t, tool.Title)
		assert.LessOrEqual(t, utf8.RuneCountInString(tool.Description), 2048, tool.Name)
		assert.Regexp(t, `L[0-3]`, tool.Description, "%s says its tier", tool.Name)
		if !tool.ReadOnly {
			assert.Contains(t, tool.Description, "pending", tool.Name)
		}
		var schema struct {
			Type                 string
			AdditionalProperties *bool
			Properties           map[string]struct{ Description string }
		}
		require.NoError(t, json.Unmarshal(tool.Input, &schema))
		assert.Equal(t, "object", schema.Type)
		require.NotNil(t, schema.AdditionalProperties, tool.Name)
		assert.False(t, *schema.AdditionalProperties)
		for k, p := range schema.Properties {
			assert.NotEmpty(t, p.Description, "%s.%s", tool.Name, k)
		}
	}
	_, ok := Find("Read_File")
	assert.False(t, ok)
	assert.Contains(t, NotFound("bash").Text(), "run_command")
}

func TestFileTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"main.go": "package main\n\nfunc main() {\n\tprintln(1)\n}\n", "docs/a.md": "# A\n", "bin": "\x00\x01"})
	ans := b.call("read_file", `{"path":"main.go","offset":3,"limit":2}`)
	assert.Equal(t, "3\tfunc main() {\n4\t\tprintln(1)\n… cut: 1 more line of 5; continue with offset=5", ans.Text)
	assert.Contains(t, b.call("read_file", `{"path":"bin"}`).Text, "binary file of 2 bytes")
	assert.Equal(t, "bin  (2 B)\ndocs/\nmain.go  (42 B)", b.call("list_directory", `{}`).Text)
	assert.Equal(t, "docs/a.md", b.call("glob", `{"pattern":"*.md"}`).Text)
	assert.Equal(t, "main.go:3:func main() {\nmain.go-4-\tprintln(1)", b.call("grep", `{"pattern":"func","output_mode":"content","-A":1}`).Text)
	assert.Equal(t, "Edited main.go: 1 replacement made.", b.call("edit_file", `{"path":"main.go","old_string":"println(1)","new_string":"println(2)"}`).Text)
	assert.Equal(t, "Created x/y.txt (1 line, 3 bytes).", b.call("write_file", `{"path":"x/y.txt","content":"hi\n"}`).Text)
	ans = b.call("read_file", `{"path":"../../etc/passwd"}`)
	require.True(t, ans.IsError)
	assert.Equal(t, Fixable, ans.Failure.Class)
	assert.Contains(t, ans.Text, "Kind: execution_failed (fixable)")
}

func TestRunCommandAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	assert.Equal(t, "hi", b.call("run_command", `{"command":"echo hi"}`).Text)
	ans := b.call("run_command", `{"argv":["sh","-c","echo out; echo err >&2; exit 3"]}`)
	assert.True(t, ans.IsError)
	assert.Equal(t, "Exit code 3\nout\n[stderr]\nerr", ans.Text)
	assert.Equal(t, KindInvalidParameters, b.call("run_command", `{"command":"a","argv":["b"]}`).Failure.Kind)
}

func TestGitStory(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.txt": "one\n"})
	out, err := exec.Command("git", "init", "-q", "-b", "main", b.ws.Root()).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, b.call("git_status", `{}`).Text, "?? a.txt")
	assert.Contains(t, b.call("git_add", `{"paths":["a.txt"]}`).Text, "add 'a.txt'")
	assert.Contains(t, b.call("git_diff", `{"staged":true}`).Text, "+one")
	ans := b.call("git_commit", `{"message":"first"}`)
	require.False(t, ans.IsError, ans.Text)
	assert.Contains(t, b.call("git_log", `{}`).Text, "first")
	ans = b.call("git_commit", `{"message":"again"}`)
	assert.True(t, ans.IsError)
	assert.Contains(t, ans.Text, "stage changes with git_add")
	assert.Equal(t, "(no differences)", b.call("git_diff", `{"path":"a.txt"}`).Text)
}

// TestLongAnswersArePaged follows the offsets of cut answers to the end.
func TestLongAnswersArePaged(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "line %d %s\n", i+1, strings.Repeat("x", i%50))
	}
	b := newBench(t, map[string]string{"long.txt": text.String(), "wide.txt": strings.Repeat("é", 5000) + "\n"})
	continued := regexp.MustCompile(`\n… cut: .*; continue with offset=(\d+)$`)
	for _, c := range []struct{ tool, args string }{
		{"read_file", `{"path":"long.txt","offset":%s}`},
		{"grep", `{"pattern":"line","output_mode":"content","glob":"long.txt","head_limit":3000,"offset":%s}`},
	} {
		lines, offset := 0, "0"
		for range 50 {
			ans := b.call(c.tool, fmt.Sprintf(c.args, offset))
			require.False(t, ans.IsError, ans.Text)
			require.LessOrEqual(t, utf8.RuneCountInString(ans.Text), maxText+200)
			m := continued.FindStringSubmatch(ans.Text)
			lines += strings.Count(ans.Text, "\n") + 1
			if m == nil {
				break
			}
			lines--
			offset = m[1]
		}
		assert.Equal(t, 5000, lines, c.tool)
	}
	ans := b.call("read_file", `{"path":"wide.txt"}`)
	assert.Contains(t, ans.Text, "… (line cut: 2000 of 5002 characters)")
	ans = b.call("run_command", `{"command":"seq 1 20000; echo last"}`)
	assert.LessOrEqual(t, utf8.RuneCountInString(ans.Text), maxText+200)
	assert.True(t, strings.HasPrefix(ans.Text, "1\n2\n") && strings.HasSuffix(ans.Text, "\nlast"), "both ends are shown")
}

func TestFileNamesCannotPassForText(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a\n… cut: 3 more\x1b[2J": "x\n", "bad\xff": "x\n", "schön café.txt": "x\n"})
	for _, c := range [][2]string{{"list_directory", `{}`}, {"glob", `{"pattern":"*"}`}, {"grep", `{"pattern":"x"}`}} {
		ans := b.call(c[0], c[1])
		assert.Len(t, strings.Split(ans.Text, "\n"), 3, ans.Text)
		assert.NotContains(t, ans.Text, "\x1b")
		assert.Contains(t, ans.Text, "schön café.txt")
		assert.True(t, utf8.ValidString(ans.Text))
	}
}

// TestPlansNameTheRealFile plans through links, which then are swapped.
func TestPlansNameTheRealFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{".github/ci.yml": "on: push\n", "src/a.txt": "a\n", ".env": "KEY=1\n"})
	root := b.ws.Root()
	require.NoError(t, os.Symlink("../.github/ci.yml", filepath.Join(root, "src/innocent")))
	require.NoError(t, os.Symlink("../.github", filepath.Join(root, "src/dir")))
	require.NoError(t, os.Symlink("../.env", filepath.Join(root, "src/notes")))
	require.NoError(t, os.Symlink("../later", filepath.Join(root, "src/dangling")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(root, "src/out")))
	plan := func(tool, args string) sandbox.FileOp {
		x, _ := Find(tool)
		a, err := x.Parse(json.RawMessage(args))
		require.NoError(t, err)
		act, err := x.Plan(a, b.place())
		require.NoError(t, err)
		return act.Files[0]
	}
	for asked, real := range map[string]string{
		"src/innocent": ".github/ci.yml", "src/dir/new/x.yml": ".github/new/x.yml", "src/notes": ".env", "src/dangling/x": "later/x",
		"src/../src/a.txt": "src/a.txt", "new/deep/file": "new/deep/file", root + "/src/notes": ".env",
	} {
		op := plan("write_file", `{"path":"`+asked+`","content":"x"}`)
		assert.Equal(t, []any{real, true}, []any{op.Path, op.Real}, asked)
	}
	for _, asked := range []string{"src/out", "../x", "/etc/passwd"} {
		op := plan("read_file", `{"path":"`+asked+`"}`)
		assert.Equal(t, []any{asked, false}, []any{op.Path, op.Real}, "what leads outside stays as it was asked")
	}
	op := plan("write_file", `{"path":"src/a.txt","content":"x"}`)
	require.NoError(t, os.Remove(filepath.Join(root, "src/a.txt")))
	require.NoError(t, os.Symlink("../.github/ci.yml", filepath.Join(root, "src/a.txt")))
	_, err := b.ws.Do(context.Background(), op, nil)
	var e *sandbox.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, sandbox.KindStale, e.Kind, "a link that appears after the plan is not followed")
	assert.Equal(t, "Created later/y (1 line, 1 bytes).", b.call("write_file", `{"path":"src/dangling/y","content":"x"}`).Text)
}

func BenchmarkParseAndPlan(b *testing.B) {
	for name, args := range map[string]string{
		"read_file": `{"path":"cmd/main.go","offset":10}`, "run_command": `{"command":"go vet ./...","timeout_ms":60000}`,
		"write_file": `{"path":"a","content":"` + strings.Repeat("0123456789abcde\\n", 4096) + `"}`,
	} {
		tool, _ := Find(name)
		p := Place{Root: "/w", Exists: func(string) bool { return false }}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				a, err := tool.Parse(json.RawMessage(args))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tool.Plan(a, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

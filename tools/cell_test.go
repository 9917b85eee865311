package tools

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

// TestToolsInACell runs the plans of program tools behind real walls.
func TestToolsInACell(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds sallyport-cell")
	}
	needs(t, "git", "--version")
	binary := filepath.Join(t.TempDir(), "sallyport-cell")
	build := exec.Command("go", "build", "-o", binary, "sallyport/cmd/sallyport-cell")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	runner, err := sandbox.NewRunner(sandbox.Options{State: t.TempDir(), CellBinary: binary})
	require.NoError(t, err)
	defer runner.Close()
	b := newBench(t, map[string]string{
		"package.json": `{"scripts":{"test":"node --test"}}`,
		"x.test.js":    "const test = require('node:test');\ntest('writes', () => require('fs').writeFileSync('made', 'x'));\ntest('red', () => { throw new Error('red'); });\n",
	})
	out, err = exec.Command("git", "init", "-q", "-b", "main", b.ws.Root()).CombinedOutput()
	require.NoError(t, err, string(out))
	var last sandbox.Result
	call := func(name, args string) Answer {
		tool, _ := Find(name)
		a, err := tool.Parse(json.RawMessage(args))
		require.NoError(t, err)
		act, err := tool.Plan(a, b.place())
		require.NoError(t, err)
		res, err := runner.Run(context.Background(), act, sandbox.Terms{Write: act.Exec.Write})
		last = res
		if err != nil && !res.Ran {
			t.Skipf("needs walls: %v", err)
		}
		return tool.Answer(a, act, res, err)
	}
	assert.Contains(t, call("git_status", `{}`).Text, "?? package.json")
	ans := call("git_add", `{"paths":["."]}`)
	require.False(t, ans.IsError, ans.Text)
	ans = call("git_commit", `{"message":"first"}`)
	require.False(t, ans.IsError, ans.Text)
	assert.Contains(t, call("git_log", `{}`).Text, "first")

	ans = call("run_command", `{"command":"echo broken; exit 7"}`)
	assert.Equal(t, "Exit code 7\nbroken", ans.Text)

	needs(t, "npm", "--version") // a small test run; go test would compile the standard library anew
	ans = call("run_tests", `{}`)
	require.False(t, ans.IsError, ans.Text)
	r := reportOf(t, ans)
	assert.Equal(t, []int{1, 1, 0}, []int{r.Passed, r.Failed, r.Skipped}, ans.Text)
	assert.False(t, b.ws.Exists("made"), "what tests write vanishes")
	assert.Empty(t, last.Tx)

	ans = call("run_tests", `{"write":true}`)
	require.False(t, ans.IsError, ans.Text)
	require.NotEmpty(t, last.Tx, ans.Text)
	assert.Contains(t, ans.Text, "[changed] added made")
	assert.False(t, b.ws.Exists("made"))
	changes, err := runner.Land(context.Background(), last.Tx)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	assert.True(t, b.ws.Exists("made"))
}

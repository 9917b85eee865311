package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/rego"
)

// rejudged is what another policy says of a recorded call.
type rejudged struct {
	Seq    audit.Seq `json:"seq"`
	Call   string    `json:"call"`
	Agent  string    `json:"agent"`
	Tool   string    `json:"tool"`
	Change string    `json:"change"` // "same", "loosened", "tightened", "indeterminate"
	Before string    `json:"before"`
	After  string    `json:"after,omitempty"`
	Rules  []string  `json:"rules,omitempty"` // that fire now
}

// rejudge judges a session's recorded facts by another policy. Nothing runs.
func rejudge(cmd *cobra.Command, steps []audit.Step, dir, failOn string) error {
	if !isDir(dir) {
		return fmt.Errorf("judge by %s: no such folder", dir)
	}
	j, err := newJudge(cmd.Context(), []rego.Layer{layerIn(dir)}, nil)
	if err != nil {
		return err
	}
	list := j.all(cmd.Context(), steps)
	failed := failOn != "" && slices.ContainsFunc(list, func(r rejudged) bool { return r.Change == failOn })
	if wantsJSON(cmd) {
		err = printJSON(cmd.OutOrStdout(), list)
	} else {
		for _, r := range list {
			fmt.Fprintf(cmd.OutOrStdout(), "%6d  %-13s  %-14s %s → %s  %s\n", r.Seq, r.Change, r.Tool, r.Before, r.After, strings.Join(r.Rules, " "))
		}
		summarize(cmd.OutOrStdout(), list)
	}
	if err == nil && failed {
		err = &exit{exitFailed, nil}
	}
	return err
}

// summarize counts the calls by what became of them, and those that are not the
// same also by agent, tool and the rules that decide now.
func summarize(out io.Writer, list []rejudged) {
	changes, who := map[string]int{}, map[string]int{}
	for _, r := range list {
		changes[r.Change]++
		if r.Change != "same" {
			rules := slices.Compact(slices.Sorted(slices.Values(r.Rules)))
			who[fmt.Sprintf("%-13s  %s  %s  %s", r.Change, approval.Visible(r.Agent), r.Tool, strings.Join(rules, " "))]++
		}
	}
	fmt.Fprintf(out, "%d same, %d loosened, %d tightened, %d indeterminate\n", changes["same"], changes["loosened"], changes["tightened"], changes["indeterminate"])
	for _, k := range sortedKeys(who) {
		fmt.Fprintf(out, "%6d  %s\n", who[k], k)
	}
}

// all judges the recorded calls of a session on every processor, and lists them in
// their order.
func (j *judge) all(ctx context.Context, steps []audit.Step) []rejudged {
	// An evaluation leaves much garbage and little that lives.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	steps = slices.DeleteFunc(slices.Clone(steps), func(s audit.Step) bool { return s.Call.Decision == nil })
	list := make([]rejudged, len(steps))
	var next atomic.Int64
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(steps)); i = next.Add(1) - 1 {
				list[i] = j.again(ctx, steps[i].Call)
			}
		})
	}
	work.Wait()
	return list
}

// again judges one recorded call.
func (j *judge) again(ctx context.Context, r audit.Record) rejudged {
	out := rejudged{Seq: r.Seq, Call: r.Call, Agent: r.Agent, Tool: r.Tool, Change: "indeterminate", Before: r.Tier + " " + r.Verdict}
	c, facts, ok := recorded(r)
	if !ok {
		return out
	}
	d := j.gate.Judge(ctx, c, facts)
	out.After = d.Tier.String() + " " + d.Verdict.String()
	for _, h := range d.Rules {
		if h.Verdict == d.Verdict {
			out.Rules = append(out.Rules, h.ID)
		}
	}
	var was policy.Verdict
	var tier policy.Tier
	if was.UnmarshalText([]byte(r.Verdict)) != nil || tier.UnmarshalText([]byte(r.Tier)) != nil {
		return out
	}
	switch {
	case d.Verdict == was && d.Tier == tier:
		out.Change = "same"
	case d.Verdict > was || d.Verdict == was && d.Tier < tier:
		out.Change = "loosened"
	default:
		out.Change = "tightened"
	}
	return out
}

// recorded is a call as policy saw it, from its record; ok is false where a fact
// was redacted or is missing.
func recorded(r audit.Record) (c policy.Call, f policy.Facts, ok bool) {
	redacted := slices.ContainsFunc(r.Redacted, func(p string) bool { return strings.HasPrefix(p, "/facts") || strings.HasPrefix(p, "/action") })
	c = policy.Call{
		Phase: policy.PhaseCall, ID: r.Call, Tool: r.Tool, Args: r.Args, Now: r.Time,
		Agent:     policy.Agent{Name: r.Agent, User: r.User, Client: r.Client, Session: r.Session, MaxTier: policy.L3},
		Workspace: policy.Workspace{Root: r.Workspace, Branch: r.Branch, Commit: r.Commit, Preset: "strict"},
	}
	ok = !redacted && json.Unmarshal(r.Facts, &f) == nil && json.Unmarshal(r.Action, &c.Action) == nil
	return c, f, ok
}

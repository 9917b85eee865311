package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/audit"
	"sallyport/mcpserver"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/limits"
)

// A host's own tools run outside of any cell, so a hook can judge what a call
// says and no more: what it really changes is not seen. That is why only reading
// is allowed outright, and why a command that a cell would hold is asked about.

// hookIn is one call of a host's own tool, as `sallyport hook` passes it on.
type hookIn struct {
	Agent     string          `json:"agent"`
	Session   string          `json:"session"`
	Workspace string          `json:"workspace"`
	Tool      string          `json:"tool"` // the host's name for it
	Input     json.RawMessage `json:"input"`
	// Attended says that a person sits at the host and sees its questions.
	Attended bool `json:"attended"`
	// Key is the host's id of the call, by which its outcome is found.
	Key string `json:"key"`
	// Ended says that the host has run it, with this Response; there is nothing to
	// judge any more.
	Ended    bool            `json:"ended"`
	Response json.RawMessage `json:"response"`
}

// hookOut is the answer. Decision is "allow", "ask" (the host asks its person),
// "deny", or "" where the host's own rules are to decide.
type hookOut struct {
	Decision string      `json:"decision"`
	Reason   string      `json:"reason"`
	Tier     policy.Tier `json:"tier"`
}

// hostInput is what the host's own tools take.
type hostInput struct {
	Command   string `json:"command"`
	FilePath  string `json:"file_path"`
	Notebook  string `json:"notebook_path"`
	Path      string `json:"path"`
	Pattern   string `json:"pattern"`
	Content   string `json:"content"`
	NewSource string `json:"new_source"`
	OldString string `json:"old_string"`
	NewString string `json:"new_string"`
	All       bool   `json:"replace_all"`
}

// hostCall is one of the host's own tools as one of ours.
type hostCall struct {
	tool  string
	args  func(in hostInput, rel func(string) string) map[string]any
	reads bool // changes nothing by its nature
}

// hostCalls says what the host's own tools are in ours.
var hostCalls = map[string]hostCall{
	"Bash": {tool: "run_command", args: func(in hostInput, _ func(string) string) map[string]any {
		return map[string]any{"command": in.Command}
	}},
	"Write": {tool: "write_file", args: func(in hostInput, rel func(string) string) map[string]any {
		return map[string]any{"path": rel(in.FilePath), "content": in.Content}
	}},
	"NotebookEdit": {tool: "write_file", args: func(in hostInput, rel func(string) string) map[string]any {
		return map[string]any{"path": rel(in.Notebook), "content": in.NewSource}
	}},
	"Edit": {tool: "edit_file", args: func(in hostInput, rel func(string) string) map[string]any {
		return map[string]any{"path": rel(in.FilePath), "old_string": in.OldString, "new_string": in.NewString, "replace_all": in.All}
	}},
	"Read": {tool: "read_file", reads: true, args: func(in hostInput, rel func(string) string) map[string]any {
		return map[string]any{"path": rel(in.FilePath)}
	}},
	"Glob": {tool: "glob", reads: true, args: func(in hostInput, rel func(string) string) map[string]any {
		return inFolder(in, rel, map[string]any{"pattern": in.Pattern})
	}},
	"Grep": {tool: "grep", reads: true, args: func(in hostInput, rel func(string) string) map[string]any {
		return inFolder(in, rel, map[string]any{"pattern": in.Pattern})
	}},
}

// inFolder adds the folder that a search is limited to.
func inFolder(in hostInput, rel func(string) string, args map[string]any) map[string]any {
	if in.Path != "" {
		args["path"] = rel(in.Path)
	}
	return args
}

func (d *daemon) postHook(w http.ResponseWriter, r *http.Request) {
	var in hookIn
	if !readUpTo(w, r, &in, 2*maxEvent) { // a byte of the event takes two at most here
		return
	}
	out, err := d.hook(r.Context(), in, personOf(r).Name)
	answer(w, out, err)
}

// hook judges and records one call of a host's own tool.
func (d *daemon) hook(ctx context.Context, in hookIn, user string) (hookOut, error) {
	root, err := d.place.checkWorkspace(in.Workspace)
	if err != nil {
		return hookOut{}, err
	}
	who := policy.Agent{Name: name(in.Agent), User: user, Client: "hook", Session: name(in.Session), MaxTier: policy.L3}
	rec := audit.Record{
		Kind: audit.KindEvent, Call: newID(), Session: who.Session, Agent: who.Name, User: user, Client: who.Client, Workspace: root,
		Tool: "host:" + name(in.Tool), Args: in.Input, Key: shortKey(in.Key), Sources: map[string]string{"user": "peercred", "agent": "client", "session": "client"},
	}
	if in.Ended {
		return hookOut{}, d.hookEnded(ctx, in, rec)
	}
	out, err := d.judgeHook(ctx, in, root, who, &rec)
	if err != nil {
		return hookOut{}, err
	}
	rec.Event = "hook." + out.Decision
	if out.Decision == "" {
		rec.Event = "hook.host-decides"
	}
	rec.Detail = asJSON(map[string]string{"reason": out.Reason})
	if _, err := d.log.Append(context.WithoutCancel(ctx), rec); err != nil {
		return hookOut{}, fmt.Errorf("record the call (it may not run): %w", err)
	}
	out.Reason = d.log.Redact(out.Reason)
	return out, nil
}

// hookEnded records what a host's own tool gave: its size and its keyed digest, for
// the text itself may be as long as a file.
func (d *daemon) hookEnded(ctx context.Context, in hookIn, rec audit.Record) error {
	rec.Event = "hook.outcome"
	rec.Detail = asJSON(map[string]any{"bytes": len(in.Response), "digest": d.log.Digest(in.Response)})
	if _, err := d.log.Append(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("record the outcome: %w", err)
	}
	return nil
}

// shortKey is a host's id of a call, if it is one that a record keeps.
func shortKey(key string) string {
	if len(key) > 128 {
		return ""
	}
	return key
}

// limitHook holds a host's own tools to the rates and budgets of ours. Loops are
// not looked for: what the host changed in between is not seen.
func (d *daemon) limitHook(ctx context.Context, rec *audit.Record) (hookOut, bool, error) {
	if err := d.judges.ready(ctx); err != nil {
		return hookOut{}, false, err
	}
	ok, v := d.limits.Admit(time.Now(), limits.Key{Agent: rec.Agent, Session: rec.Session, Tool: rec.Tool}, rec.Call)
	if ok {
		return hookOut{}, false, nil
	}
	rule := v.Rule()
	rec.Tier, rec.Verdict, rec.Rules = rule.Tier.String(), rule.Verdict.String(), []string{rule.ID}
	return hookOut{Decision: "deny", Tier: rule.Tier, Reason: "sallyport: " + v.Reason + "; " + v.Remedy}, true, nil
}

// judgeHook settles what the host is told, and fills in the record.
func (d *daemon) judgeHook(ctx context.Context, in hookIn, root string, who policy.Agent, rec *audit.Record) (hookOut, error) {
	if on, why := d.desk.Frozen(who.Name); on {
		return hookOut{Decision: "deny", Reason: strings.TrimSpace("a person has stopped this agent's calls (`sallyport lift` lifts it) " + why)}, nil
	}
	if out, stop, err := d.limitHook(ctx, rec); stop || err != nil {
		return out, err
	}
	known, ok := hostCalls[in.Tool]
	if !ok {
		return hookOut{Decision: "ask", Tier: policy.L3, Reason: "sallyport does not know the tool " + name(in.Tool)}, nil
	}
	var input hostInput
	if err := json.Unmarshal(in.Input, &input); err != nil {
		return hookOut{}, fmt.Errorf("read the input of %s: %w", in.Tool, err)
	}
	args := asJSON(known.args(input, func(path string) string { return relative(root, path) }))
	c, err := mcpserver.Plan(known.tool, args, root)
	if err != nil {
		return unplanned(known, err), nil
	}
	c.ID, c.Agent = rec.Call, who
	decision, facts := d.judges.Admit(ctx, c)
	rec.Branch, rec.Commit, rec.ArgsDigest = c.Workspace.Branch, c.Workspace.Commit, d.log.Digest(c.Args)
	rec.Action, rec.Facts, rec.Decision = asJSON(c.Action), asJSON(facts), asJSON(decision)
	rec.Tier, rec.Verdict, rec.Revision = decision.Tier.String(), decision.Verdict.String(), decision.Revision
	for _, h := range decision.Rules {
		rec.Rules = append(rec.Rules, h.ID)
	}
	out := told(known, decision)
	if out.Decision != "ask" || in.Attended && decision.Tier < policy.L3 {
		return out, nil
	}
	ask := approvalOf(c, facts, decision)
	preset, of := d.preset(root)
	ask.Preset, ask.Solo = preset, of.Session
	return d.settleHook(ctx, ask, out, rec)
}

// relative is a path as our tools name it: from the workspace, where it lies in
// it.
func relative(root, path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if rel, err := filepath.Rel(root, path); err == nil && within(path, root) {
		return rel
	}
	return path
}

// unplanned answers a call that none of our tools would make, such as one of a
// file outside of the workspace.
func unplanned(known hostCall, err error) hookOut {
	if known.reads {
		return hookOut{Decision: "ask", Tier: policy.L3, Reason: "sallyport: " + err.Error()}
	}
	return hookOut{Decision: "deny", Tier: policy.L3, Reason: "sallyport: " + err.Error()}
}

// told is a decision in the host's words, for a call that no cell will hold.
func told(known hostCall, d policy.Decision) hookOut {
	out := hookOut{Tier: d.Tier}
	why := because(d)
	switch {
	case d.Verdict == policy.Ask:
		out.Decision, out.Reason = "ask", fmt.Sprintf("sallyport (%s): %s", d.Tier, why)
	case d.Verdict != policy.Allow:
		out.Decision, out.Reason = "deny", fmt.Sprintf("denied by sallyport's policy (%s): %s", d.Tier, why)
	case known.reads && d.Tier == policy.L0:
		out.Decision, out.Reason = "allow", "sallyport: it only reads"
	case d.Tier == policy.L0: // a command: its text only reads, and nothing holds it to that
		out.Reason = "sallyport: its text only reads"
	default:
		out.Decision = "ask"
		out.Reason = fmt.Sprintf("sallyport (%s): outside of a cell it may change anything; sallyport's own %s runs it at once, in one", d.Tier, known.tool)
	}
	return out
}

// because lists a decision's reasons and the first remedy.
func because(d policy.Decision) string {
	var reasons []string
	remedy := ""
	for _, r := range d.Rules {
		if r.Verdict != d.Verdict {
			continue
		}
		if text := fmt.Sprintf("%s [%s]", r.Reason, r.ID); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
		if remedy == "" {
			remedy = r.Remedy
		}
	}
	text := strings.Join(reasons, "; ")
	if remedy != "" {
		text += ". What to do: " + remedy
	}
	return text
}

func approvalOf(c policy.Call, f policy.Facts, d policy.Decision) approval.Ask {
	subject, show := approval.Describe(c, f, d)
	show.Summary = "the host's own tool, outside of any cell: " + show.Summary
	return approval.Ask{Subject: subject, Decision: d, Show: show, Call: c.ID}
}

// settleHook asks at the desk, where L3 always goes and everything that no
// person at the host would see.
func (d *daemon) settleHook(ctx context.Context, a approval.Ask, out hookOut, rec *audit.Record) (hookOut, error) {
	o, err := filedDesk{d.desk, d.files}.Settle(ctx, a)
	if err != nil {
		return hookOut{}, fmt.Errorf("ask for approval: %w", err)
	}
	id := o.Request.ID
	rec.Approval, rec.Person = id, o.Person
	switch o.State {
	case approval.StateApproved:
		out.Decision, out.Reason = "allow", "sallyport: approved by a person"
		if id != "" {
			if err := d.desk.Finish(id, "handed to the host"); err != nil && !errors.Is(err, context.Canceled) {
				return hookOut{}, fmt.Errorf("use up the approval: %w", err)
			}
		}
	case approval.StatePending:
		out.Decision = "deny"
		out.Reason += fmt.Sprintf(". Pending: approval %s needed; nothing was run. Tell the user to decide with `sallyport approvals approve %s`, then repeat this identical call", id, id)
	default:
		out.Decision, out.Reason = "deny", strings.TrimSpace("sallyport: a person said no. "+o.Advice)
	}
	return out, nil
}

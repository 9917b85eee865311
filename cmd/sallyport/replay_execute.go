package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
	"sallyport/tools"
)

// What running a recorded call again says.
const (
	againSame         = "same"
	againDifferent    = "different"
	againIncomparable = "not_comparable"
	againRefused      = "refused" // it was not allowed then, so it does not run now
)

// rerun is what became of one recorded call. Its JSON form is stable.
type rerun struct {
	Seq    audit.Seq `json:"seq"`
	Call   string    `json:"call"`
	Tool   string    `json:"tool"`
	Result string    `json:"result"`
	Why    []string  `json:"why"` // never nil
	detail string
}

// reexecute runs the calls of a session again, in a copy of the repository at
// the recorded commit, and compares what they do. The workspace itself is only
// read.
func reexecute(cmd *cobra.Command, b *backend, steps []audit.Step) error {
	ctx := cmd.Context()
	p, err := placeOf(cmd)
	if err != nil {
		return err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return err
	}
	runner, done, err := ownRunner(c.MinLevel)
	if err != nil {
		return err
	}
	defer done()
	dir, err := os.MkdirTemp("", "sallyport-replay-")
	if err != nil {
		return fmt.Errorf("make a folder for the copy: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the owner of the workspace must get to the copy
		return err
	}
	x := reexecution{b: b, runner: runner, dir: dir, copies: map[string]*replica{}, held: map[string]json.RawMessage{}}
	list := []rerun{}
	for _, s := range steps {
		if s.Call.Kind == audit.KindEvent {
			continue
		}
		r := rerun{Seq: s.Call.Seq, Call: s.Call.Call, Tool: s.Call.Tool, Why: []string{}, detail: detail(s.Call)}
		x.step(ctx, s, &r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		list = append(list, r)
	}
	return reportAgain(cmd, list)
}

func reportAgain(cmd *cobra.Command, list []rerun) error {
	count := map[string]int{}
	for _, r := range list {
		count[r.Result]++
	}
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	if wantsJSON(cmd) {
		if err := printJSON(out, list); err != nil {
			return err
		}
	} else {
		for _, r := range list {
			fmt.Fprintf(out, "%6d  %-14s  %-14s %s\n", r.Seq, r.Result, r.Tool, say.dim(approval.Visible(oneLine(r.detail, 80))))
			for _, w := range r.Why {
				fmt.Fprintf(out, "        %s\n", approval.Visible(oneLine(w, 200)))
			}
		}
		fmt.Fprintf(out, "%d same, %d different, %d not comparable, %d refused\n",
			count[againSame], count[againDifferent], count[againIncomparable], count[againRefused])
	}
	if count[againDifferent] > 0 {
		return &exit{exitFailed, nil}
	}
	return nil
}

// reexecution is a session being run again.
type reexecution struct {
	b      *backend
	runner *sandbox.Runner
	dir    string
	copies map[string]*replica // workspace -> its copy
	// held are the decisions of runs whose changes waited for a person, by the digest
	// of their arguments: the identical call landed them without running again.
	held map[string]json.RawMessage
}

// step runs one call again and compares.
func (x *reexecution) step(ctx context.Context, s audit.Step, r *rerun) {
	if s.Outcome != nil && s.Outcome.Status == audit.StatusPending {
		x.held[s.Call.ArgsDigest] = s.Call.Decision
	}
	if result, why := mayRunAgain(s); result != "" {
		r.Result, r.Why = result, append(r.Why, why)
		return
	}
	fail := func(err error) { r.Result, r.Why = againIncomparable, append(r.Why, err.Error()) }
	c, err := x.copyFor(ctx, s.Call, r)
	if err != nil {
		fail(fmt.Errorf("copy the workspace at %s: %w", s.Call.Commit, err))
		return
	}
	if first, ok := x.held[s.Call.ArgsDigest]; ok {
		delete(x.held, s.Call.ArgsDigest)
		s.Call.Decision = first
	}
	got, err := c.run(ctx, s)
	if err != nil {
		fail(err)
		return
	}
	if head := s.End().Head; head != "" {
		c.head = head
	}
	if err := x.compare(ctx, c, *s.End(), got, r); err != nil {
		fail(err)
		return
	}
	if r.Result == "" {
		r.Result = againSame
	}
}

// mayRunAgain says why a call cannot be run again: only what was allowed and ran
// to its end may.
func mayRunAgain(s audit.Step) (result, why string) {
	e := s.End()
	redacted := func(part string) bool {
		return slices.ContainsFunc(s.Call.Redacted, func(p string) bool { return strings.HasPrefix(p, part) })
	}
	_, known := tools.Find(s.Call.Tool)
	switch {
	case s.Running():
		return againIncomparable, "it is still running"
	case e.Status == audit.StatusDenied || e.Status == audit.StatusPending || e.Status == audit.StatusInvalid:
		return againRefused, "it did not run then: " + string(e.Status)
	case e.Verdict != policy.Allow.String() && (e.Verdict != policy.Ask.String() || e.Approval == "" && e.Person == ""):
		return againRefused, "the record has neither a verdict that allows it nor an approval"
	case !known:
		return againIncomparable, "it plans nothing that runs"
	case e.Status == audit.StatusInterrupted || e.Status == audit.StatusTimeout || e.Status == audit.StatusCancelled:
		return againIncomparable, "it was cut short then: " + string(e.Status)
	case s.Call.Commit == "":
		return againIncomparable, "no commit is recorded to start from"
	case redacted("/args"), redacted("/decision"):
		return againIncomparable, "its arguments or its decision were redacted"
	}
	return "", ""
}

// copyFor is the copy that a call runs in, standing where the workspace stood.
func (x *reexecution) copyFor(ctx context.Context, call audit.Record, r *rerun) (*replica, error) {
	c := x.copies[call.Workspace]
	if c == nil {
		root, err := filepath.EvalSymlinks(x.dir)
		if err != nil {
			return nil, err
		}
		c = &replica{runner: x.runner, of: call.Workspace, root: filepath.Join(root, fmt.Sprint(len(x.copies)))}
		x.copies[call.Workspace] = c
	} else if c.head != call.Commit {
		r.Why = append(r.Why, "the copy was made anew at "+call.Commit+": nothing that was run again led there")
	}
	if c.head == call.Commit {
		return c, nil
	}
	return c, c.start(ctx, call.Branch, call.Commit)
}

// ran is what a call did when it was run again.
type ran struct {
	result sandbox.Result
	answer tools.Answer
}

// run plans and runs a recorded call in the copy, bound as it was then and
// without network.
func (c *replica) run(ctx context.Context, s audit.Step) (ran, error) {
	t, _ := tools.Find(s.Call.Tool)
	var d policy.Decision
	if err := json.Unmarshal(s.Call.Decision, &d); err != nil {
		return ran{}, fmt.Errorf("read the recorded decision: %w", err)
	}
	args, err := t.Parse(bytes.ReplaceAll(s.Call.Args, inJSON(c.of), inJSON(c.root)))
	if err != nil {
		return ran{}, fmt.Errorf("parse the recorded arguments: %w", err)
	}
	ws, err := sandbox.OpenWorkspace(c.root)
	if err != nil {
		return ran{}, err
	}
	defer ws.Close()
	for _, ch := range s.End().Changes {
		if inGit(ch.Path) {
			continue
		}
		if now, err := ws.Digest(ch.Path); err == nil && now != ch.Before && ch.Kind != "mode" {
			return ran{}, fmt.Errorf("%s was not as committed when the call ran", ch.Path)
		}
	}
	act, err := t.Plan(args, tools.Place{
		Root: c.root, Exists: ws.Exists, Resolve: ws.Resolve,
		Mark: tools.Mark{Call: s.Call.Call, Agent: s.Call.Agent, Session: s.Call.Session},
	})
	if err != nil {
		return ran{}, fmt.Errorf("plan the recorded call: %w", err)
	}
	terms := d.Obligations.Terms
	if act.Exec != nil && len(act.Exec.Net) > 0 {
		return ran{}, errors.New("it used the network, which a replay never gives")
	}
	terms.Net = nil
	res, err := c.runner.Run(ctx, act, terms)
	var stale *sandbox.Error
	if errors.As(err, &stale) && stale.Kind == sandbox.KindStale {
		return ran{}, fmt.Errorf("a file was not as committed when the call ran: %w", err)
	}
	if res.Tx != "" {
		if err != nil || len(res.Changes) == 0 {
			_ = c.runner.Drop(res.Tx)
		} else if res.Changes, err = c.runner.Land(ctx, res.Tx); err != nil {
			return ran{}, fmt.Errorf("land what the call changed: %w", err)
		}
	}
	return ran{res, t.Answer(args, act, res, err)}, nil
}

// inJSON is a path as it stands within a JSON string.
func inJSON(path string) []byte {
	b := bytes.Trim(asJSON(path), `"`)
	return b
}

// compare holds what a call did against what the record says it did.
func (x *reexecution) compare(ctx context.Context, c *replica, was audit.Record, got ran, r *rerun) error {
	differs := func(format string, args ...any) {
		r.Result, r.Why = againDifferent, append(r.Why, fmt.Sprintf(format, args...))
	}
	if was.Exit != nil && got.result.Ran && *was.Exit != got.result.Exit {
		differs("exit %d, and %d then", got.result.Exit, *was.Exit)
	}
	if (was.Exit != nil) != got.result.Ran {
		differs("a program ran: %v, and %v then", got.result.Ran, was.Exit != nil)
	}
	for _, w := range compareChanges(was.Changes, got) {
		differs("%s", w)
	}
	now := map[string][]byte{"answer": []byte(got.answer.Text), "stdout": got.result.Stdout.Data, "stderr": got.result.Stderr.Data}
	for _, o := range was.Outputs {
		text := bytes.ReplaceAll(now[o.Name], []byte(c.root), []byte(c.of))
		same, whole, first, err := x.sameOutput(ctx, o, text)
		switch {
		case err != nil:
			return err
		case !same:
			differs("%s differs: %s", o.Name, first)
		case !whole && r.Result == "":
			r.Result = againIncomparable
			r.Why = append(r.Why, fmt.Sprintf("%s has %d bytes, of which the record keeps the first; those agree", o.Name, o.Bytes))
		}
	}
	return nil
}

// inGit reports whether a path is git's own: what is there has times in it, and
// what counts of it shows as the commit that calls come after.
func inGit(path string) bool { return path == ".git" || strings.HasPrefix(path, ".git/") }

// compareChanges tells each file that was left otherwise than then.
func compareChanges(was []audit.Change, got ran) []string {
	after := map[string]string{}
	for _, ch := range got.result.Changes {
		after[ch.Path] = ch.Kind + " " + ch.After
	}
	for _, f := range got.result.Files {
		if f.Change != nil {
			after[f.Change.Path] = f.Change.Kind + " " + f.Change.After
		}
	}
	var out []string
	for _, ch := range was {
		if inGit(ch.Path) {
			continue
		}
		now, changed := after[ch.Path]
		delete(after, ch.Path)
		switch {
		case !changed:
			out = append(out, ch.Path+" was changed then and is not now")
		case now != ch.Kind+" "+ch.After:
			out = append(out, ch.Path+" has other content than then")
		}
	}
	for _, path := range sortedKeys(after) {
		if inGit(path) {
			continue
		}
		out = append(out, path+" is changed now and was not then")
	}
	return out
}

// sameOutput compares an output with its record: by digest, else without what
// changes from run to run, as far as the record keeps it. first is where they
// part.
func (x *reexecution) sameOutput(ctx context.Context, was audit.Output, now []byte) (same, whole bool, first string, err error) {
	sum := sha256.Sum256(now)
	if hex.EncodeToString(sum[:]) == was.SHA256 {
		return true, true, "", nil
	}
	whole = was.Bytes <= audit.PreviewBytes
	var red map[string]string
	if err := x.b.do(ctx, http.MethodPost, "/v1/audit/hash", map[string]string{"Value": audit.Preview(now)}, &red); err != nil {
		return false, false, "", err
	}
	a, b := steady(was.Preview), steady(red["redacted_as"])
	if a == b {
		return true, whole, "", nil
	}
	then, again := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(then), len(again)) {
		line := func(l []string) string {
			if i < len(l) {
				return l[i]
			}
			return "(nothing)"
		}
		if line(then) != line(again) {
			return false, whole, fmt.Sprintf("line %d is %q, and %q then", i+1, oneLine(line(again), 60), oneLine(line(then), 60)), nil
		}
	}
	return false, whole, "", nil
}

package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/limits"
	"sallyport/sandbox"
)

// record is a record with who and where filled in.
func (s *Server) record(p *Peer, k audit.Kind, tool string) audit.Record {
	return audit.Record{
		Kind: k, Tool: tool, Session: p.Session, Agent: p.Agent, User: p.User, Sources: p.Sources, Workspace: p.Workspace,
	}
}

// callRecord is what intent and outcome share.
func (s *Server) callRecord(c *call, k audit.Kind) audit.Record {
	r := s.record(c.peer, k, c.tool.Name)
	r.Call = c.id
	r.Client, r.Key, r.Trace = c.client, c.key, c.trace
	r.Branch, r.Commit = c.judged.Workspace.Branch, c.judged.Workspace.Commit
	r.Args, r.ArgsDigest = c.args.Canonical(), c.digest
	if c.judged.Tool == "" {
		return r
	}
	if k != audit.KindOutcome { // the intent holds them already
		r.Action, r.Facts = toJSON(c.action), toJSON(c.facts)
	}
	r.Decision = toJSON(c.decision)
	r.Tier, r.Verdict, r.Revision = c.decision.Tier.String(), c.decision.Verdict.String(), c.decision.Revision
	for _, h := range c.decision.Rules {
		r.Rules = append(r.Rules, h.ID)
	}
	r.Approval, r.Person = c.allowed.Request.ID, c.allowed.Person
	if c.allowed.Grant != "" {
		r.Approval = c.allowed.Grant
	}
	return r
}

func (s *Server) intentRecord(c *call) audit.Record { return s.callRecord(c, audit.KindIntent) }

// outcomeRecord closes the intent, or stands alone where there was none.
func (s *Server) outcomeRecord(c *call) audit.Record {
	k := audit.KindCall
	if c.intent != nil {
		k = audit.KindOutcome
	}
	r := s.callRecord(c, k)
	res := c.result
	r.Intent, r.Status, r.Took = c.intent, c.status, s.o.Now().Sub(c.begun)
	if c.answer.Failure != nil {
		r.Error = c.answer.Failure.Msg
	}
	if res.Ran {
		r.Exit, r.Level = &res.Exit, string(res.Level)
		r.Walls, r.Usage = toJSON(res.Walls), toJSON(res.Usage)
		r.Limits, r.Denials = toJSON(list(res.Hit)), toJSON(list(res.Denials))
		r.Outputs = append(r.Outputs, output("stdout", res.Stdout), output("stderr", res.Stderr))
	} else {
		r.Outputs = append(r.Outputs, output("answer", sandbox.Output{Data: []byte(c.answer.Text), Total: int64(len(c.answer.Text))}))
	}
	if res.Ran && c.intent != nil {
		if head := sandbox.ReadHead(c.peer.Workspace).Commit; head != c.judged.Workspace.Commit {
			r.Head = head
		}
	}
	for _, ch := range changesOf(res) {
		r.Changes = append(r.Changes, audit.Change{Path: ch.Path, Kind: ch.Kind, Before: ch.Before, After: ch.After})
	}
	return r
}

func changesOf(res sandbox.Result) []sandbox.Change {
	all := res.Changes
	for _, f := range res.Files {
		if f.Change != nil {
			all = append(all, *f.Change)
		}
	}
	return all
}

func output(name string, o sandbox.Output) audit.Output {
	sum := sha256.Sum256(o.Data)
	return audit.Output{Name: name, Bytes: o.Total, SHA256: hex.EncodeToString(sum[:]), Preview: audit.Preview(o.Data)}
}

// rawArgs keeps arguments that could not be parsed, as JSON text and capped.
func rawArgs(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) && len(raw) <= audit.PreviewBytes {
		return raw
	}
	return toJSON(string(raw[:min(len(raw), audit.PreviewBytes)]))
}

func toJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal("cannot be encoded: " + err.Error())
	}
	return b
}

// statusOf classes a call that was let through.
func statusOf(c *call) audit.Status {
	var e *sandbox.Error
	switch {
	case errors.As(c.runErr, &e) && e.Kind == sandbox.KindTimeout:
		return audit.StatusTimeout
	case errors.Is(c.runErr, context.Canceled), errors.As(c.runErr, &e) && e.Kind == sandbox.KindCanceled:
		return audit.StatusCancelled
	case c.answer.IsError, c.result.Exit != 0:
		return audit.StatusFailed
	}
	return audit.StatusOK
}

// observed is what the limits learn of a call.
func observed(c *call) limits.Outcome {
	o := limits.Outcome{Failed: c.status != audit.StatusOK, Broken: c.status == audit.StatusTimeout, Ran: c.result.Usage.Wall}
	var e *sandbox.Error
	if errors.As(c.runErr, &e) {
		o.Broken = o.Broken || e.Kind == sandbox.KindWalls || e.Kind == sandbox.KindIO
	}
	for _, ch := range changesOf(c.result) {
		o.Changed = append(o.Changed, ch.Path)
	}
	for _, f := range c.facts.Files {
		o.ReadSecret = o.ReadSecret || f.Op == string(sandbox.OpRead) && f.Guard == policy.GuardSecret
	}
	return o
}

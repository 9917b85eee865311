package mcpserver

import (
	"context"
	"fmt"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
	"sallyport/tools"
)

// landing is what a run did in its transaction and what policy says of it.
type landing struct {
	tx       string
	changes  []sandbox.Change
	decision policy.Decision
	facts    policy.Facts
}

// effects judges what a run really changed and lands it, holds it for a person
// or drops it.
func (s *Server) effects(ctx context.Context, c *call) {
	if c.result.Tx == "" {
		return
	}
	if len(c.result.Changes) == 0 || c.runErr != nil {
		s.drop(c.result.Tx)
		return
	}
	l := s.landing(ctx, c, c.result)
	switch {
	case l.decision.Verdict == policy.Deny:
		s.drop(l.tx)
		c.decision = l.decision
		c.status, c.answer = audit.StatusDenied, deniedEffects(l)
	case l.decision.Tier > c.decision.Tier, l.decision.Verdict < c.decision.Verdict: // stricter than what was allowed
		s.hold(ctx, c, l)
	default:
		s.land(ctx, c, l)
	}
}

// landing judges what a run did.
func (s *Server) landing(ctx context.Context, c *call, r sandbox.Result) landing {
	l := landing{tx: r.Tx, changes: r.Changes}
	after := c.judged
	after.Phase, after.Changes = policy.PhaseEffects, l.changes
	after.Content = func(path string) ([]byte, error) { return s.o.Runner.TxContent(l.tx, path) }
	l.decision, l.facts = s.o.Gate.Admit(ctx, after)
	return l
}

// hold keeps the changes of a run until a person has seen them. The approval
// that the run was made on is used up; landing is a request of its own. Where the
// identical call ran at the same time and holds changes already, those stay: a
// person may be looking at them.
func (s *Server) hold(ctx context.Context, c *call, l landing) {
	s.settled(c, "held")
	if !s.keepHeld(c) {
		s.drop(l.tx)
		f := &tools.Failure{
			Kind: tools.KindExecutionFailed, Class: tools.Transient,
			Msg:    "an identical call ran at the same time, and what it changed waits for a person; what this run changed was dropped",
			Remedy: "repeat the call: it tells how that request stands, and lands it once it is approved",
		}
		c.decision, c.allowed = l.decision, approval.Outcome{}
		c.status, c.answer = audit.StatusFailed, tools.Answer{Text: f.Text(), IsError: true, Failure: f}
		return
	}
	c.decision, c.allowed = l.decision, approval.Outcome{}
	if err := s.ask(ctx, c, &l); err == nil { // a grant covers it
		s.release(s.heldKey(c))
		s.land(ctx, c, l)
	} else if c.answer.Text == "" {
		f := tools.FailureOf(err)
		c.status, c.answer = audit.StatusFailed, tools.Answer{Text: f.Text(), IsError: true, Failure: f}
	}
}

func (s *Server) land(ctx context.Context, c *call, l landing) {
	changes, err := s.o.Runner.Land(context.WithoutCancel(ctx), l.tx)
	c.result.Changes, c.result.Tx = changes, ""
	if err != nil {
		s.drop(l.tx)
		c.runErr = fmt.Errorf("land the changes of the command: %w", err)
	}
}

func (s *Server) drop(tx string) {
	if err := s.o.Runner.Drop(tx); err != nil {
		s.o.Logger.Error("drop a transaction", "tx", tx, "err", err)
	}
}

package mcpserver

import (
	"context"
	"fmt"
	"time"

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

// held is a run whose changes wait for a person; repeating the identical call
// lands them instead of running again.
type held struct {
	landing
	result sandbox.Result
	since  time.Time
}

// heldFor is how long changes wait before they are dropped.
const heldFor = 30 * time.Minute

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
	l := landing{tx: c.result.Tx, changes: c.result.Changes}
	after := c.judged
	after.Phase, after.Changes = policy.PhaseEffects, l.changes
	after.Content = func(path string) ([]byte, error) { return s.o.Runner.TxContent(l.tx, path) }
	l.decision, l.facts = s.o.Gate.Admit(ctx, after)
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

// hold keeps the changes of a run until a person has seen them. The approval
// that the run was made on is used up; landing is a request of its own.
func (s *Server) hold(ctx context.Context, c *call, l landing) {
	s.mu.Lock()
	s.held[s.heldKey(c)] = held{landing: l, result: c.result, since: s.o.Now()}
	s.mu.Unlock()
	s.settled(c, "held")
	c.decision, c.allowed = l.decision, approval.Outcome{}
	if err := s.ask(ctx, c, &l); err == nil { // a grant covers it
		s.release(c)
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

// takeHeld is the held run of the identical call, if there is one. What waited
// too long is dropped.
func (s *Server) takeHeld(c *call) (held, bool) {
	s.mu.Lock()
	var old []string
	for k, h := range s.held {
		if s.o.Now().Sub(h.since) > heldFor {
			delete(s.held, k)
			old = append(old, h.tx)
		}
	}
	h, ok := s.held[s.heldKey(c)]
	s.mu.Unlock()
	for _, tx := range old {
		s.drop(tx)
	}
	return h, ok
}

// landHeld settles and lands what the identical call did before.
func (s *Server) landHeld(ctx context.Context, c *call, h held) *call {
	c.result, c.decision, c.facts = h.result, h.decision, h.facts
	if err := s.ask(ctx, c, &h.landing); err != nil {
		if c.status == audit.StatusDenied {
			s.release(c)
			s.drop(h.tx)
		}
		return s.refuse(ctx, c, attempt{tool: c.tool.Name}, err)
	}
	if err := s.intend(ctx, c); err != nil {
		s.settled(c, "not landed")
		return s.refuse(ctx, c, attempt{tool: c.tool.Name}, err)
	}
	s.release(c)
	s.land(ctx, c, h.landing)
	return s.finish(ctx, c)
}

func (s *Server) release(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, s.heldKey(c))
}

func (s *Server) drop(tx string) {
	if err := s.o.Runner.Drop(tx); err != nil {
		s.o.Logger.Error("drop a transaction", "tx", tx, "err", err)
	}
}

// heldKey names the identical call of the same session's agent.
func (s *Server) heldKey(c *call) string {
	return approval.Subject{
		Agent: c.peer.Agent, Session: c.peer.Session, User: c.peer.User, Tool: c.tool.Name,
		Args: c.args.Canonical(), Workspace: c.peer.Workspace,
	}.Digest()
}

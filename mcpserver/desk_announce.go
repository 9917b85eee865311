package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/tools"
)

// maxAnnounced is how many calls one announcement may name.
const maxAnnounced = approval.DefaultMaxBatch

// announced is one call of an announcement and what became of it, for programs.
type announced struct {
	Tool     string         `json:"tool"`
	State    string         `json:"state"` // of the request; "allowed", "denied" by policy, or "alone": L3 is decided by itself
	Tier     policy.Tier    `json:"tier"`
	Verdict  policy.Verdict `json:"verdict"`
	Approval string         `json:"approval,omitempty"`

	text string // for the model, what State does not say
}

// announce plans and judges calls that the agent means to make, and asks a person
// for those that wait, all in one request. Nothing is run or used up; each call is
// planned and judged again when it is made.
func (s *Server) announce(ctx context.Context, c *call, a attempt) error {
	var in struct {
		Calls []struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"calls"`
	}
	if err := tools.Strict(a.raw, &in); err != nil {
		return err
	}
	if n := len(in.Calls); n == 0 || n > maxAnnounced {
		return misannounced("an announcement names 1 to %d calls, not %d", maxAnnounced, n)
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	c.digest = s.o.Log.Digest(a.raw)
	if err := s.limit(c, a.raw); err != nil {
		return err
	}
	var all []announced
	var asks []approval.Ask
	var waiting []int // index in all of each of asks
	for i, one := range in.Calls {
		planned, err := s.foresee(ctx, c, attempt{tool: one.Tool, raw: one.Arguments, meta: a.meta})
		if err != nil {
			return misannounced("call %d: %s", i+1, tools.FailureOf(err).Msg)
		}
		all = append(all, judgement(planned))
		if all[i].State == "" {
			asks, waiting = append(asks, s.request(planned, nil)), append(waiting, i)
		}
	}
	var b approval.Batch
	if len(asks) > 0 {
		var err error
		b, err = s.o.Desk.Announce(ctx, asks)
		if errors.Is(err, approval.ErrInvalid) {
			return misannounced("%v", err)
		}
		if err != nil {
			return err
		}
	}
	for k, out := range b.Outcomes {
		all[waiting[k]].settle(out)
	}
	c.status, c.answer = audit.StatusOK, announcement(b, all)
	c.allowed.Request.ID = b.ID
	return nil
}

// foresee takes a call as far as its decision. The calls of an announcement are
// of its own session.
func (s *Server) foresee(ctx context.Context, c *call, a attempt) (*call, error) {
	p := c.peer
	if !p.mayUse(a.tool) || s.o.May != nil && !s.o.May(p.Agent, a.tool) {
		return nil, tools.NotFound(a.tool)
	}
	planned := s.begin(ctx, p, a)
	if err := plan(planned, a); err != nil {
		return nil, err
	}
	s.judge(ctx, planned)
	return planned, nil
}

// judgement is what policy alone says of a planned call; its State is empty where
// a person is to be asked in the batch.
func judgement(c *call) announced {
	out := announced{Tool: c.tool.Name, Tier: c.decision.Tier, Verdict: c.decision.Verdict}
	switch {
	case out.Verdict == policy.Allow:
		out.State, out.text = "allowed", "nobody has to confirm it"
	case out.Verdict != policy.Ask:
		out.State, out.text = "denied", "by policy, whoever confirms it"+because(c.decision, !c.planned())+"\n  what to do: "+
			remedy(c.decision, "do the work another way, or ask a person to change the policy")
	case out.Tier >= policy.L3:
		out.State, out.text = "alone", "a person decides each L3 call by itself: make the call to ask"+because(c.decision, !c.planned())
	}
	return out
}

// settle takes over what the desk says.
func (a *announced) settle(o approval.Outcome) {
	a.State, a.Approval = string(o.State), o.Request.ID
	switch o.State {
	case approval.StatePending:
		if len(o.Changed) > 0 {
			a.text = "changed since an earlier request: " + strings.Join(o.Changed, ", ")
		}
	case approval.StateApproved:
		a.text = "already, by " + o.Person
	default:
		a.text = o.Advice
	}
}

// announcement is the answer to an announcement.
func announcement(b approval.Batch, all []announced) tools.Answer {
	var text strings.Builder
	wait, until := 0, time.Time{}
	for _, o := range b.Outcomes {
		if o.State == approval.StatePending {
			wait++
			if until.IsZero() || o.Request.Expires.Before(until) {
				until = o.Request.Expires
			}
		}
	}
	if wait > 0 {
		fmt.Fprintf(&text, "pending: approval %s needed for %d of %d calls, one decision for all of them; nothing was run\n", b.ID, wait, len(all))
	} else {
		fmt.Fprintf(&text, "none of these %d calls waits for the decision of a batch; nothing was run\n", len(all))
	}
	for i, a := range all {
		fmt.Fprintf(&text, "%d. %s: %s (%s)", i+1, a.Tool, a.State, a.Tier)
		if a.Approval != "" {
			text.WriteString(" " + a.Approval)
		}
		if a.text != "" {
			text.WriteString(": " + a.text)
		}
		text.WriteByte('\n')
	}
	if wait > 0 {
		fmt.Fprintf(&text, "What to do: tell the user to look with `sallyport approvals show %s` and decide with `sallyport approvals approve %s`; "+
			"then make each call exactly as announced, once (they live until %s)\n", b.ID, b.ID, until.Format(time.RFC3339))
	}
	return tools.Answer{Text: text.String(), Data: map[string]any{"batch": b.ID, "calls": all}}
}

func misannounced(format string, args ...any) *tools.Failure {
	return &tools.Failure{
		Kind: tools.KindInvalidParameters, Class: tools.Fixable, Msg: "announce calls: " + fmt.Sprintf(format, args...) + "; nothing was announced",
		Remedy: "correct that call or leave it out, and announce the rest again",
	}
}

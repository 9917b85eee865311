package policy

import (
	"context"
	"fmt"
)

// Inspector turns a call into facts. It is pure but for reading files beneath
// the workspace. Whatever it cannot understand it marks opaque; an error means
// that it could not look at all.
type Inspector interface {
	Inspect(ctx context.Context, c Call) (Facts, error)
}

// Decider joins rules with facts: one evaluation per simple command and one for
// the whole call; the strictest of all rules that fired is the decision.
type Decider interface {
	Decide(ctx context.Context, c Call, f Facts) (Decision, error)
}

// Gate admits calls. Its methods may be called concurrently.
type Gate struct {
	Inspector Inspector
	Decider   Decider
}

// Admit judges a call. It returns no error to forget: whatever fails is an L3
// Deny that names the failure. The facts are those the decision rests on.
func (g *Gate) Admit(ctx context.Context, c Call) (Decision, Facts) {
	f, err := g.Inspector.Inspect(ctx, c)
	if err != nil {
		return failed("gate.inspect", "look at the call", err), f
	}
	return g.Judge(ctx, c, f), f
}

// Judge decides on facts that are known already, as of a recorded call.
func (g *Gate) Judge(ctx context.Context, c Call, f Facts) Decision {
	d, err := g.Decider.Decide(ctx, c, f)
	if err != nil {
		return failed("gate.decide", "judge the call by policy", err)
	}
	for _, hit := range floors(c, f) {
		d = d.tightened(hit)
	}
	if d.Tier > c.Agent.MaxTier {
		d = d.tightened(RuleHit{
			ID: "gate.max-tier", Tier: d.Tier, Verdict: Deny,
			Reason: fmt.Sprintf("this agent may act up to %s and the call is %s", c.Agent.MaxTier, d.Tier),
			Remedy: "ask the person who created the agent's token for a higher tier",
		})
	}
	return d
}

// tightened is d with one more rule that fired; it can only become stricter.
func (d Decision) tightened(hit RuleHit) Decision {
	d.Tier = max(d.Tier, hit.Tier)
	d.Verdict = min(d.Verdict, hit.Verdict)
	d.Rules = append([]RuleHit{hit}, d.Rules...)
	return d
}

func failed(id, act string, err error) Decision {
	return Decision{Tier: L3, Verdict: Deny, Rules: []RuleHit{{
		ID: id, Tier: L3, Verdict: Deny,
		Reason: fmt.Sprintf("sallyport could not %s: %v", act, err),
		Remedy: "run `sallyport doctor`; nothing was run",
	}}}
}

package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/policy"
)

// Settle answers a call that policy wants confirmed. It is one atomic step:
//
//   - an approval of exactly this subject is used up, and the call may run once;
//   - else a grant that covers it has one use taken, and the call may run once;
//   - else a request that waits already is answered with the same id;
//   - else a recent denial of it is repeated, with its advice;
//   - else a new request is made.
//
// The use of an approval or grant is durable before Settle returns. A run whose
// end is not known is never repeated by an old approval or a grant: the call
// becomes a new request that says so. An error means that the call may not run.
func (d *Desk) Settle(ctx context.Context, a Ask) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	if a.Decision.Verdict == policy.Deny {
		return Outcome{State: StateDenied, Advice: strings.Join(a.Decision.Remedies(), "; ")}, nil
	}
	var out Outcome
	err := d.update(func(t *tx) error {
		var err error
		out, err = t.settle(a)
		if err != nil {
			return err
		}
		// The last look: a freeze that came while this step was made wins.
		if frozen, why := d.Frozen(a.Subject.Agent); frozen {
			t.events = nil
			out = Outcome{State: StateFrozen, Advice: why}
		}
		return nil
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("settle the call: %w", err)
	}
	return out, nil
}

func (t *tx) settle(a Ask) (Outcome, error) {
	if frozen, why := t.d.Frozen(a.Subject.Agent); frozen {
		return Outcome{State: StateFrozen, Advice: why}, nil
	}
	digest := a.Subject.Digest()
	n, r, known, err := t.latest(bucketDigests, digest)
	if err != nil {
		return Outcome{}, err
	}
	if known && r.State.Open() {
		if more := a.stricterThan(r); len(more) > 0 {
			return t.reopen(n, r, a, more)
		}
	}
	if known && r.State == StateApproved {
		return t.use(n, r, a)
	}
	unknown := string(t.Bucket(bucketUnknown).Get([]byte(digest)))
	if unknown == "" {
		out, covered, err := t.useGrant(n, r, known, a)
		if covered || err != nil {
			return out, err
		}
	}
	switch {
	case known && r.State == StatePending:
		if r.Solo != a.Solo || r.Preset != a.Preset { // a person has switched it meanwhile
			r.Solo, r.Preset = a.Solo, a.Preset
			t.emit(Event{Kind: Requested, Request: brief(r), Note: "under the preset " + a.Preset + " now"})
			if err := t.put(n, r); err != nil {
				return Outcome{}, err
			}
		}
		err := t.detail(n, &r)
		return pendingOutcome(r), err
	case known && r.State == StateDenied && t.now.Sub(r.Decided) < t.d.o.DeniedFor:
		return deniedOutcome(r), nil
	}
	r, err = t.open(a, digest, unknown)
	return pendingOutcome(r), err
}

// stricterThan says what policy now asks for that it did not when the request was
// made: the same call can be judged anew by what its session did meanwhile.
func (a Ask) stricterThan(r Request) []string {
	var more []string
	ob := a.Decision.Obligations
	if a.Decision.Tier > r.Tier {
		more = append(more, fmt.Sprintf("tier: %s → %s", r.Tier, a.Decision.Tier))
	}
	if ob.Approvers > r.Approvers {
		more = append(more, fmt.Sprintf("people needed: %d → %d", r.Approvers, ob.Approvers))
	}
	if len(ob.Roles) > 0 && !slices.Equal(ob.Roles, r.Roles) {
		more = append(more, "roles: "+strings.Join(ob.Roles, ", "))
	}
	old := r.asked()
	for _, id := range a.asked() {
		if !slices.Contains(old, id) {
			more = append(more, "rule "+id+" asks too")
		}
	}
	return more
}

// reopen replaces an open request by one under the stricter judgement.
func (t *tx) reopen(n number, old Request, a Ask, more []string) (Outcome, error) {
	a.earlier, a.stricter = old.ID, more
	r, err := t.open(a, old.Digest, old.Unknown)
	if err != nil {
		return Outcome{}, err
	}
	old.State, old.Ended, old.Why = StateWithdrawn, t.now, "replaced by "+r.ID+": "+strings.Join(more, ", ")
	t.emit(Event{Kind: Withdrawn, Request: brief(old)})
	return pendingOutcome(r), t.put(n, old)
}

// use takes the one run an approved request allows.
func (t *tx) use(n number, r Request, a Ask) (Outcome, error) {
	r.State, r.Used, r.Call = StateUsed, t.now, a.Call
	if err := t.Bucket(bucketUnknown).Delete([]byte(r.Digest)); err != nil {
		return Outcome{}, err
	}
	if err := t.put(n, r); err != nil {
		return Outcome{}, err
	}
	t.emit(Event{Kind: Used, Request: &r})
	return Outcome{State: StateApproved, Request: r, Grant: r.Grant, Person: r.decidedBy(), Changed: r.Changed}, nil
}

// useGrant lets a grant answer for a person. The use is kept as a request of its
// own, or as the request that waited for it.
func (t *tx) useGrant(n number, r Request, known bool, a Ask) (Outcome, bool, error) {
	g, ok, err := t.covering(a)
	if err != nil || !ok {
		return Outcome{}, false, err
	}
	if !known || r.State != StatePending {
		r, err = t.newRequest(a, a.Subject.Digest())
		if err != nil {
			return Outcome{}, false, err
		}
		if n, err = t.add(r); err != nil {
			return Outcome{}, false, err
		}
	}
	g.Used++
	if err := t.putGrant(g); err != nil {
		return Outcome{}, false, err
	}
	r.State, r.Used, r.Decided, r.Grant, r.Call = StateUsed, t.now, t.now, g.ID, a.Call
	if err := t.put(n, r); err != nil {
		return Outcome{}, false, err
	}
	t.emit(Event{Kind: Used, Request: &r, Grant: &g})
	return Outcome{State: StateApproved, Request: r, Grant: g.ID, Person: g.By.String()}, true, nil
}

// open makes a new request, and withdraws one of the same session that asks for
// the same call as things were before.
func (t *tx) open(a Ask, digest, unknown string) (Request, error) {
	if err := t.roomFor(a.Subject.Session, 1); err != nil {
		return Request{}, err
	}
	r, err := t.newRequest(a, digest)
	if err != nil {
		return r, err
	}
	r.Unknown = unknown
	r.Earlier, r.Changed = a.earlier, a.stricter
	if err := t.compare(&r); err != nil {
		return r, err
	}
	if _, err := t.add(r); err != nil {
		return r, err
	}
	t.emit(Event{Kind: Requested, Request: &r})
	return r, nil
}

// compare says in r what changed since the latest request for the same call.
func (t *tx) compare(r *Request) error {
	n, old, ok, err := t.latest(bucketKeys, r.Key)
	if err != nil || !ok || old.Digest == r.Digest {
		return err
	}
	if err := t.detail(n, &old); err != nil {
		return err
	}
	r.Earlier, r.Changed = old.ID, r.Subject.changedSince(*old.Subject)
	if old.State != StatePending || old.Session != r.Session {
		return nil
	}
	old.State, old.Ended, old.Why = StateWithdrawn, t.now, "replaced by "+r.ID+": "+strings.Join(r.Changed, ", ")
	t.emit(Event{Kind: Withdrawn, Request: brief(old)})
	return t.put(n, old)
}

// roomFor refuses more than MaxPending open requests of one session: a person
// cannot look at a flood.
func (t *tx) roomFor(session string, more int) error {
	open := 0
	err := t.each(bucketOpen, func(_ number, r Request) error {
		if r.Session == session && r.State.Open() {
			open++
		}
		return nil
	})
	if err == nil && open+more > t.d.o.MaxPending {
		err = fmt.Errorf("%w: %d requests of this session wait already; wait for a person to decide them", ErrInvalid, open)
	}
	return err
}

// newRequest is a pending request for a, not stored yet.
func (t *tx) newRequest(a Ask, digest string) (Request, error) {
	id, err := t.newRequestID()
	if err != nil {
		return Request{}, err
	}
	s, show := a.Subject, a.Show.bounded()
	if len(s.Args) > maxShown {
		show.Cut = append(show.Cut, fmt.Sprintf("the arguments (%d bytes) are kept as a digest only", len(s.Args)))
		s.Args = []byte(`{}`)
	}
	if t.d.o.Redact != nil {
		s.Args = redactedJSON(s.Args, t.d.o.Redact)
		show = show.redacted(t.d.o.Redact)
	}
	rules := append([]policy.RuleHit{}, a.Decision.Rules...) // never nil
	if t.d.o.Redact != nil {
		for i := range rules {
			rules[i].Reason, rules[i].Cmd = t.d.o.Redact(rules[i].Reason), t.d.o.Redact(rules[i].Cmd)
		}
	}
	return Request{
		ID: id, State: StatePending, Digest: digest, Key: a.Subject.key(),
		Agent: s.Agent, Session: s.Session, User: s.User, Tool: s.Tool,
		Workspace: s.Workspace, Branch: s.Branch, Preset: a.Preset, Solo: a.Solo,
		Tier: a.Decision.Tier, Rules: rules, Summary: show.Summary, Call: a.Call, Batch: a.batch, Risks: show.Risks,
		Approvers: max(1, a.Decision.Obligations.Approvers), Roles: a.Decision.Obligations.Roles,
		Cut: show.Cut, Scripts: s.Scripts, Hosts: show.hosts(),
		Created: t.now, Expires: t.now.Add(t.d.o.TTL),
		Shown: show.digest(), Subject: &s, Show: &show,
	}, nil
}

func pendingOutcome(r Request) Outcome {
	return Outcome{
		State: StatePending, Request: r, Changed: r.Changed,
		Advice: "a person decides " + r.ID + " with `sallyport approvals show " + r.ID + "`; repeat this very call after the approval",
	}
}

func deniedOutcome(r Request) Outcome {
	advice := r.Advice
	if advice == "" {
		advice = "do not repeat this call; choose another way or ask the person"
	}
	return Outcome{State: StateDenied, Request: r, Person: r.decidedBy(), Advice: advice}
}

// decidedBy names the people whose votes decided r.
func (r Request) decidedBy() string {
	var names []string
	for _, v := range r.Votes {
		if v.Approve == (r.State != StateDenied) {
			names = append(names, v.Person.String())
		}
	}
	return strings.Join(names, ", ")
}

// Finish says how the run that Settle allowed ended: in one word, "ok",
// "failed", "timeout" …
func (d *Desk) Finish(id, result string) error {
	err := d.update(func(t *tx) error {
		n, r, err := t.find(id)
		if err != nil {
			return err
		}
		if r.State != StateUsed && r.State != StateUnknown {
			return fmt.Errorf("%w: request %s is %s", ErrDecided, r.ID, r.State)
		}
		if string(t.Bucket(bucketUnknown).Get([]byte(r.Digest))) == r.ID {
			if err := t.Bucket(bucketUnknown).Delete([]byte(r.Digest)); err != nil {
				return err
			}
		}
		r.State, r.Ended, r.Result = StateDone, t.now, result
		t.emit(Event{Kind: Done, Request: &r})
		return t.put(n, r)
	})
	if err != nil {
		return fmt.Errorf("finish request %s: %w", Visible(id), err)
	}
	return nil
}

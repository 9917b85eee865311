package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/policy"
)

// Reach is how far an approval goes.
type Reach string

// The reaches. A Session approval also adds a grant for the same tool and rules
// until the session ends.
const (
	Once    Reach = "once"
	Session Reach = "session"
)

// ApproveOptions are the details of an approval. The zero value approves this
// one call.
type ApproveOptions struct {
	Scope Reach
	// Grant adds this grant along with the approval, completed from the request:
	// tool, rules, hosts, scripts, agent and workspace are the request's, and the
	// session too if any is named.
	Grant *Grant
	Note  string
	// Shown is Request.Shown, or Batched.Shown, as the person saw it. It is needed:
	// the approval is refused when the desk would show something else.
	Shown string
}

// Approve is one person's yes to a pending request, or to every request of a
// batch. With enough people the request becomes StateApproved and its call may
// run once. In a workspace with the preset "solo" the first approval of an L2
// call covers the session's other L2 calls too.
func (d *Desk) Approve(id string, by Person, o ApproveOptions) (Request, error) {
	var out Request
	if o.Shown == "" {
		return out, fmt.Errorf("approve request %s: %w: an approval says what the person was shown", Visible(id), ErrInvalid)
	}
	err := d.decide(id, by, o.Shown, func(t *tx, n number, r *Request) error {
		for _, v := range r.Votes {
			if v.Person.same(by) {
				return fmt.Errorf("%w: %s has approved it already and %d people are needed", ErrRefused, by.Name, r.Approvers)
			}
		}
		if o.Scope == "" {
			o.Scope = Once
		}
		r.Votes = append(r.Votes, Vote{Person: by, Approve: true, Scope: o.Scope, Note: o.Note, Time: t.now, Shown: r.Shown})
		if len(r.Votes) < r.Approvers {
			t.emit(Event{Kind: Voted, Request: brief(*r), Person: &by})
			out = *r
			return t.put(n, *r)
		}
		r.State, r.Decided, r.Expires = StateApproved, t.now, t.now.Add(d.o.ApprovedTTL)
		t.emit(Event{Kind: Approved, Request: brief(*r), Person: &by, Note: o.Note})
		out = *r
		if err := t.put(n, *r); err != nil {
			return err
		}
		return t.grantFrom(n, *r, by, o)
	})
	if err != nil {
		return Request{}, fmt.Errorf("approve request %s: %w", Visible(id), err)
	}
	return out, nil
}

// Deny is one person's no. The advice reaches the agent. shown is what the person
// saw, as in ApproveOptions; it may be empty, for a no needs no look, and is then
// recorded so.
func (d *Desk) Deny(id string, by Person, advice, shown string) (Request, error) {
	var out Request
	err := d.decide(id, by, "", func(t *tx, n number, r *Request) error {
		v := Vote{Person: by, Note: advice, Time: t.now}
		if shown != "" {
			v.Shown = r.Shown
		}
		r.Votes = append(r.Votes, v)
		r.State, r.Decided, r.Ended, r.Advice = StateDenied, t.now, t.now, advice
		t.emit(Event{Kind: Denied, Request: brief(*r), Person: &by, Note: advice})
		out = *r
		return t.put(n, *r)
	})
	if err != nil {
		return Request{}, fmt.Errorf("deny request %s: %w", Visible(id), err)
	}
	return out, nil
}

// decide finds a pending request, or the pending ones of a batch, checks that
// the person may decide and, where shown is not empty, was shown what the desk
// holds, and applies fn in one change. A decision that may not be is recorded.
func (d *Desk) decide(id string, by Person, shown string, fn func(*tx, number, *Request) error) error {
	var refusal error
	err := d.update(func(t *tx) error {
		numbers, err := t.pending(id)
		if err != nil {
			return err
		}
		all := make([]Request, len(numbers))
		for i, n := range numbers {
			if all[i], err = t.load(n); err != nil {
				return err
			}
			if refusal == nil {
				refusal = d.may(by, all[i])
			}
		}
		if refusal == nil && shown != "" && shown != shownOf(id, all) {
			refusal = fmt.Errorf("%w: what you were shown is not what the desk holds; look again", ErrRefused)
		}
		if refusal != nil {
			t.emit(Event{Kind: Refused, Request: brief(all[0]), Person: &by, Note: refusal.Error()})
			return nil
		}
		for i, n := range numbers {
			if err := fn(t, n, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // what fn refused left nothing behind, the attempt included
		return d.kept(by, err)
	}
	return refusal
}

// pending are the requests an id stands for that wait for a person.
func (t *tx) pending(id string) ([]number, error) {
	if isBatch(id) {
		return t.batch(canonicalID(id))
	}
	n, r, err := t.find(id)
	if err != nil {
		return nil, err
	}
	if r.State != StatePending {
		return nil, fmt.Errorf("%w: request %s is %s%s", ErrDecided, r.ID, r.State, r.since(t.now))
	}
	return []number{n}, nil
}

// since says who ended or decided r, and when.
func (r Request) since(now time.Time) string {
	var s string
	if by := r.decidedBy(); by != "" {
		s = " by " + by
	}
	at := r.Decided
	if at.IsZero() {
		at = r.Ended
	}
	if !at.IsZero() {
		s += " " + now.Sub(at).Round(time.Second).String() + " ago"
	}
	if r.Why != "" {
		s += ": " + r.Why
	}
	return s
}

// channelAgent is the channel of whoever speaks through the agents' door. It
// never decides.
const channelAgent = "agent"

// ChannelHost is the channel of a person who answers the prompt of the agent's own
// host. The desk has only the host's word that somebody did, so it confirms one
// L2 call where the preset says so, and nothing wider.
const ChannelHost = "host"

// may refuses a person who is the requester, has no name, or lacks a role.
func (d *Desk) may(by Person, r Request) error {
	switch {
	case strings.TrimSpace(by.Name) == "" || strings.TrimSpace(by.Channel) == "":
		return fmt.Errorf("%w: a decision needs a named person and the channel it came through", ErrRefused)
	case by.Channel == channelAgent || by.Channel == "mcp":
		return fmt.Errorf("%w: an agent cannot decide; ask a person", ErrRefused)
	case by.Session != "" && by.Session == r.Session, r.Session != "" && (by.From == r.Session || by.Name == r.Session),
		strings.EqualFold(by.Name, r.Agent):
		return fmt.Errorf("%w: the requester cannot approve its own call; ask another person", ErrRefused)
	case by.Channel == ChannelHost && (!r.Solo || r.Tier != policy.L2 || r.Approvers > 1 || len(r.Roles) > 0):
		return fmt.Errorf("%w: a host's own prompt confirms L2 calls where the preset is solo, and nothing else; use `sallyport approvals`", ErrRefused)
	case d.o.OtherUser && by.Name == r.User:
		return fmt.Errorf("%w: the agent runs as %s; another user has to decide", ErrRefused, Visible(by.Name))
	}
	if d.o.Role != "" && !slices.Contains(by.Roles, d.o.Role) {
		return fmt.Errorf("%w: only people with the role %s decide here", ErrRefused, d.o.Role)
	}
	if len(r.Roles) > 0 && !slices.ContainsFunc(by.Roles, func(role string) bool { return slices.Contains(r.Roles, role) }) {
		return fmt.Errorf("%w: this call wants one of the roles %s", ErrRefused, strings.Join(r.Roles, ", "))
	}
	return nil
}

// May reports whether a person may settle something about agents that run as a
// user which is no request: a workspace's preset. A refusal is recorded.
func (d *Desk) May(by Person, user string) error {
	err := d.may(by, Request{User: user})
	if err == nil && by.Session != "" {
		err = fmt.Errorf("%w: session %s is an agent's; only a person may", ErrRefused, Visible(by.Session))
	}
	return d.kept(by, err)
}

// kept is err, and a record of it where it refuses a person something.
func (d *Desk) kept(by Person, err error) error {
	if !errors.Is(err, ErrRefused) {
		return err
	}
	return errors.Join(err, d.Refuse(by, err.Error()))
}

// Refuse records an attempt to decide that a channel turned away itself: a
// forged callback, a replayed message, a stale login.
func (d *Desk) Refuse(by Person, note string) error {
	return d.update(func(t *tx) error {
		t.emit(Event{Kind: Refused, Person: &by, Note: note})
		return nil
	})
}

// Withdraw ends an open request without a decision: the agent gave up, or its
// session ended.
func (d *Desk) Withdraw(id, why string) error {
	err := d.update(func(t *tx) error {
		n, r, err := t.find(id)
		if err != nil {
			return err
		}
		if !r.State.Open() {
			return fmt.Errorf("%w: request %s is %s", ErrDecided, r.ID, r.State)
		}
		r.State, r.Ended, r.Why = StateWithdrawn, t.now, why
		t.emit(Event{Kind: Withdrawn, Request: brief(r), Note: why})
		return t.put(n, r)
	})
	if err != nil {
		return fmt.Errorf("withdraw request %s: %w", Visible(id), err)
	}
	return nil
}

// EndSession withdraws what a session has open and revokes the grants made for
// it alone: its next call, under whatever name, asks anew.
func (d *Desk) EndSession(session, why string) error {
	err := d.update(func(t *tx) error {
		err := t.each(bucketOpen, func(n number, r Request) error {
			if r.Session != session || !r.State.Open() {
				return nil
			}
			r.State, r.Ended, r.Why = StateWithdrawn, t.now, why
			t.emit(Event{Kind: Withdrawn, Request: brief(r), Note: why})
			return t.put(n, r)
		})
		if err != nil {
			return err
		}
		return t.eachGrant(func(g Grant) error {
			if g.Session != session || g.State(t.now) != "active" {
				return nil
			}
			g.Revoked = t.now
			t.emit(Event{Kind: Revoked, Grant: &g, Note: why})
			return t.putGrant(g)
		})
	})
	if err != nil {
		return fmt.Errorf("end session %s at the approvals desk: %w", Visible(session), err)
	}
	return nil
}

// Get is one request with its subject and what a person is shown. The id may be
// shortened to a beginning that is unique.
func (d *Desk) Get(id string) (Request, error) {
	var r Request
	err := d.view(func(t *tx) error {
		n, found, err := t.find(id)
		if err != nil {
			return err
		}
		r = found
		return t.detail(n, &r)
	})
	if err != nil {
		return Request{}, fmt.Errorf("look up request %s: %w", Visible(id), err)
	}
	return r, nil
}

// Filter selects requests. The zero value selects what is open.
type Filter struct {
	States  []State // empty: pending and approved
	All     bool    // whatever the state
	Agent   string
	Session string
	Batch   string
	Limit   int // 0: all
}

// List is the requests that match, newest first, without Subject and Show.
func (d *Desk) List(f Filter) ([]Request, error) {
	out := []Request{}
	err := d.view(func(t *tx) error {
		index := bucketOpen
		if f.All || slices.ContainsFunc(f.States, func(s State) bool { return !s.Open() && s != StateUsed }) {
			index = bucketRequests
		}
		c := t.Bucket(index).Cursor()
		for k, _ := c.Last(); k != nil && (f.Limit <= 0 || len(out) < f.Limit); k, _ = c.Prev() {
			n, _ := toNumber(k)
			r, err := t.load(n)
			if err != nil {
				return err
			}
			if f.matches(r) {
				out = append(out, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list requests: %w", err)
	}
	return out, nil
}

func (f Filter) matches(r Request) bool {
	switch {
	case f.Agent != "" && f.Agent != r.Agent, f.Session != "" && f.Session != r.Session, f.Batch != "" && f.Batch != r.Batch:
		return false
	case f.All:
		return true
	case len(f.States) > 0:
		return slices.Contains(f.States, r.State)
	}
	return r.State.Open()
}

// grantFrom adds the grant that an approval brings along, if any.
func (t *tx) grantFrom(n number, r Request, by Person, o ApproveOptions) error {
	wide := o.Scope == Session || o.Grant != nil
	if wide && len(r.Cut) > 0 {
		return fmt.Errorf("%w: not everything of it can be shown, so it can be approved once only", ErrRefused)
	}
	switch {
	case wide && by.Channel == ChannelHost:
		return fmt.Errorf("%w: a host's own prompt confirms one call at a time", ErrRefused)
	case wide && (r.Approvers > 1 || len(r.Roles) > 0):
		return fmt.Errorf("%w: a call for %d people or a role is approved once at a time", ErrRefused, r.Approvers)
	case wide && r.Tier > grantCeiling && (o.Grant == nil || !o.Grant.L3):
		return fmt.Errorf("%w: L3 is approved once at a time", ErrRefused)
	case o.Grant != nil:
		if err := t.detail(n, &r); err != nil {
			return err
		}
		return t.addGrant(o.Grant.completed(r), r, by)
	case o.Scope == Session:
		return t.addGrant(Grant{
			Tool: r.Tool, Rules: r.asked(), Session: r.Session, Agent: r.Agent, Workspace: r.Workspace,
			MaxTier: r.Tier, Hosts: r.Hosts, Reason: "approved for the session",
		}, r, by)
	case o.Scope != Once:
		return fmt.Errorf("%w: an approval reaches %q or %q, not %q", ErrInvalid, Once, Session, o.Scope)
	case r.Solo && by.Channel != ChannelHost && r.Tier == policy.L2 && r.Approvers == 1 && len(r.Roles) == 0 && r.Grant == "":
		if covered, err := t.soloCovered(r); covered || err != nil {
			return err
		}
		return t.addGrant(Grant{
			Session: r.Session, Agent: r.Agent, Workspace: r.Workspace, MaxTier: policy.L2,
			Hosts: []string{"*"}, AnyScript: true, Solo: true, Reason: "preset solo: one approval covers L2 for the session",
		}, Request{ID: r.ID}, by)
	}
	return nil
}

func (r Request) asked() []string { return Ask{Decision: policy.Decision{Rules: r.Rules}}.asked() }

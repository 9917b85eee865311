package approval

import (
	"context"
	"fmt"
	"strings"

	"sallyport/policy"
)

// Batch is the desk's answer to announced calls: one outcome for each, in their
// order. Outcomes that wait carry Request.Batch, which Approve and Deny take as
// an id.
type Batch struct {
	ID       string
	Outcomes []Outcome
}

// Announce asks for several calls before the agent makes them, so that a person
// decides once. The decision covers exactly the digests announced: a call whose
// files were changed by an earlier one of the batch is a new call. L3 calls are
// not announced; each of them wants a person of its own. Nothing is used up: the
// agent then makes each call as usual.
func (d *Desk) Announce(ctx context.Context, asks []Ask) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	var b Batch
	err := d.update(func(t *tx) error {
		if err := checkBatch(asks, d.o.MaxBatch); err != nil {
			return err
		}
		id, err := newID(d.o.Rand, "b-", func(string) bool { return false })
		if err != nil {
			return err
		}
		b = Batch{ID: id}
		for _, a := range asks {
			out, err := t.announce(a, id)
			if err != nil {
				return err
			}
			b.Outcomes = append(b.Outcomes, out)
		}
		return nil
	})
	if err != nil {
		return Batch{}, fmt.Errorf("announce %d calls: %w", len(asks), err)
	}
	return b, nil
}

func checkBatch(asks []Ask, most int) error {
	if len(asks) == 0 || len(asks) > most {
		return fmt.Errorf("%w: a batch has 1 to %d calls", ErrInvalid, most)
	}
	for i, a := range asks {
		switch {
		case a.Decision.Tier >= policy.L3:
			return fmt.Errorf("%w: call %d is L3 and is decided on its own; leave it out", ErrInvalid, i+1)
		case a.Subject.Agent != asks[0].Subject.Agent || a.Subject.Session != asks[0].Subject.Session:
			return fmt.Errorf("%w: a batch is one session's", ErrInvalid)
		}
	}
	return nil
}

func (t *tx) announce(a Ask, batch string) (Outcome, error) {
	if frozen, why := t.d.Frozen(a.Subject.Agent); frozen {
		return Outcome{State: StateFrozen, Advice: why}, nil
	}
	if a.Decision.Verdict == policy.Deny {
		return Outcome{State: StateDenied, Advice: strings.Join(a.Decision.Remedies(), "; ")}, nil
	}
	a.batch = batch
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
	switch {
	case known && r.State == StateApproved:
		return Outcome{State: StateApproved, Request: r, Person: r.decidedBy()}, nil
	case known && r.State == StateDenied && t.now.Sub(r.Decided) < t.d.o.DeniedFor:
		return deniedOutcome(r), nil
	case known && r.State == StatePending:
		if r.Batch == batch {
			return Outcome{}, fmt.Errorf("%w: one call is announced twice; an approval covers one run of it", ErrInvalid)
		}
		if r.Tier >= policy.L3 { // as it was judged when it was asked first
			return Outcome{}, fmt.Errorf("%w: request %s is L3 and is decided on its own; leave it out", ErrInvalid, r.ID)
		}
		r.Batch = batch
		t.emit(Event{Kind: Requested, Request: brief(r), Note: "joined batch " + batch})
		return pendingOutcome(r), t.put(n, r)
	}
	r, err = t.open(a, digest, string(t.Bucket(bucketUnknown).Get([]byte(digest))))
	return pendingOutcome(r), err
}

func isBatch(id string) bool { return strings.HasPrefix(canonicalID(id), "b-") }

// batch are the requests of a batch that wait for a person.
func (t *tx) batch(id string) ([]number, error) {
	var out []number
	err := t.each(bucketOpen, func(n number, r Request) error {
		if r.Batch == id && r.State == StatePending {
			out = append(out, n)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%w: no call of batch %s waits", ErrDecided, Visible(id))
	}
	return out, err
}

// Batched is what waits of a batch, in the order of its calls.
type Batched struct {
	ID    string    `json:"id"`
	Calls []Request `json:"calls"` // each as Get gives it
	// Shown is the digest of what a person is shown: of all calls.
	Shown string `json:"shown"`
}

// Batch is what still waits of a batch, with what a person is shown of each call.
func (d *Desk) Batch(id string) (Batched, error) {
	b := Batched{ID: canonicalID(id)}
	err := d.view(func(t *tx) error {
		numbers, err := t.batch(b.ID)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			r, err := t.load(n)
			if err != nil {
				return err
			}
			if err := t.detail(n, &r); err != nil {
				return err
			}
			b.Calls = append(b.Calls, r)
		}
		return nil
	})
	if err != nil {
		return Batched{}, fmt.Errorf("look up batch %s: %w", Visible(id), err)
	}
	b.Shown = shownOf(b.ID, b.Calls)
	return b, nil
}

// shownOf identifies what a person is shown of the requests that an id stands for.
func shownOf(id string, all []Request) string {
	if !isBatch(id) {
		return all[0].Shown
	}
	h := newFramed("sallyport approval batch 1")
	for _, r := range all {
		h.part(r.ID, []byte(r.Shown))
	}
	return h.sum()
}

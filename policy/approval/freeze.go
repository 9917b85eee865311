package approval

import (
	"fmt"
	"slices"
	"time"
)

// Scope is whom a freeze stops: one agent, or everybody.
type Scope struct {
	Agent string `json:"agent,omitempty"`
	All   bool   `json:"all,omitempty"`
}

func (s Scope) String() string {
	if s.All {
		return "every agent"
	}
	return "agent " + Visible(s.Agent)
}

func (s Scope) key() string {
	if s.All {
		return "*"
	}
	return "a:" + s.Agent
}

func (s Scope) check() error {
	if s.All == (s.Agent != "") {
		return fmt.Errorf("%w: name one agent, or all", ErrInvalid)
	}
	return nil
}

// Freezing is one freeze that stands.
type Freezing struct {
	Scope Scope     `json:"scope"`
	By    Person    `json:"by"`
	Since time.Time `json:"since"`
}

// Freeze refuses every new call of the scope. It takes effect at once, before it
// is recorded and durable and however busy the desk is: subscribers have the
// event when others still wait for the file. An error means that it stands now
// and may not survive a restart.
func (d *Desk) Freeze(s Scope, by Person) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	f := Freezing{Scope: s, By: by, Since: d.now()}
	e := Event{Kind: Frozen, Time: f.Since, Scope: &s, Person: &by}
	d.setFrozen(s, &f)
	d.publish(e)
	if err := d.keepFreeze(e, &f); err != nil {
		return fmt.Errorf("freeze %s: it stands, and is not kept over a restart: %w", s, err)
	}
	return nil
}

// Lift ends a freeze once that is recorded. Whoever speaks as an agent may not.
func (d *Desk) Lift(s Scope, by Person) error {
	err := s.check()
	if err == nil {
		err = d.may(by, Request{Agent: s.Agent})
	}
	if err == nil && !slices.ContainsFunc(d.Freezes(), func(f Freezing) bool { return f.Scope == s }) {
		err = fmt.Errorf("%w: nothing is frozen by that name", ErrNotFound)
	}
	e := Event{Kind: Lifted, Time: d.now(), Scope: &s, Person: &by}
	if err == nil {
		err = d.keepFreeze(e, nil)
	}
	if err != nil {
		return d.kept(by, fmt.Errorf("lift the freeze of %s: %w", s, err))
	}
	d.publish(e)
	return nil
}

// keepFreeze records and stores the freeze of e.Scope, or with nil its end. What
// stands in memory is set once more with the lock held, so that of a freeze and
// a lift at one time the later in the file is also the one that stands.
func (d *Desk) keepFreeze(e Event, f *Freezing) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	_, err := d.commit(func(t *tx) error {
		t.events = append(t.events, e)
		if f == nil {
			return t.Bucket(bucketFreezes).Delete([]byte(e.Scope.key()))
		}
		return putJSON(t.Bucket(bucketFreezes), []byte(e.Scope.key()), f)
	})
	if err == nil || f != nil {
		d.setFrozen(*e.Scope, f)
	}
	return err
}

// setFrozen replaces or, with nil, removes the freeze of a scope.
func (d *Desk) setFrozen(s Scope, f *Freezing) {
	d.freeze.Lock()
	defer d.freeze.Unlock()
	next := slices.DeleteFunc(d.Freezes(), func(f Freezing) bool { return f.Scope == s })
	if f != nil {
		next = append(next, *f)
	}
	d.frozen.Store(&next)
}

// Freezes lists the freezes that stand.
func (d *Desk) Freezes() []Freezing {
	if p := d.frozen.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// Frozen reports whether an agent's calls are refused, and why in words for it.
// It never waits.
func (d *Desk) Frozen(agent string) (bool, string) {
	p := d.frozen.Load()
	if p == nil {
		return false, ""
	}
	for _, f := range *p {
		if f.Scope.All || f.Scope.Agent == agent {
			return true, fmt.Sprintf("%s froze %s at %s; nothing runs until a person lifts it with `sallyport lift`",
				f.By.Name, f.Scope, f.Since.Format(time.RFC3339))
		}
	}
	return false, ""
}

func (d *Desk) loadFreezes() error {
	var all []Freezing
	err := d.view(func(t *tx) error {
		return t.Bucket(bucketFreezes).ForEach(func(k, _ []byte) error {
			var f Freezing
			if err := getJSON(t.Bucket(bucketFreezes), k, &f); err != nil {
				return err
			}
			all = append(all, f)
			return nil
		})
	})
	d.frozen.Store(&all)
	return err
}

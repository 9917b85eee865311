package approval

import (
	"context"
	"time"
)

// Kind says what happened. The words are the audit log's event names.
type Kind string

// The kinds of event.
const (
	Requested Kind = "approval.requested"
	Voted     Kind = "approval.voted" // approved by one person, more are needed
	Approved  Kind = "approval.approved"
	Denied    Kind = "approval.denied"
	Expired   Kind = "approval.expired"
	Withdrawn Kind = "approval.withdrawn"
	Used      Kind = "approval.used"
	Done      Kind = "approval.done"
	Unknown   Kind = "approval.unknown"
	Refused   Kind = "approval.refused" // somebody tried to decide who may not
	Granted   Kind = "grant.added"
	Revoked   Kind = "grant.revoked"
	Frozen    Kind = "freeze.set"
	Lifted    Kind = "freeze.lifted"
)

// Event is one change of state. What is set depends on Kind. A Requested event
// carries the whole request with what a person will be shown; others carry it
// without Subject and Show.
type Event struct {
	Kind    Kind      `json:"kind"`
	Time    time.Time `json:"time"`
	Request *Request  `json:"request,omitempty"`
	Grant   *Grant    `json:"grant,omitempty"`
	Scope   *Scope    `json:"scope,omitempty"`
	Person  *Person   `json:"person,omitempty"`
	Note    string    `json:"note,omitempty"`
}

// subscription is how many events a subscriber may lag behind.
const subscription = 1024

type subscriber struct {
	c      chan Event
	closed bool
}

// Subscribe returns a channel of the events from now on, and a function that
// ends it. The channel is closed by cancel, by Close, and when the subscriber
// falls 1,024 events behind: then subscribe again and List.
func (d *Desk) Subscribe() (<-chan Event, func()) {
	s := &subscriber{c: make(chan Event, subscription)}
	d.mu.Lock()
	d.subs[s] = struct{}{}
	d.mu.Unlock()
	return s.c, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(s)
	}
}

// drop ends a subscription; d.mu is held.
func (d *Desk) drop(s *subscriber) {
	if !s.closed {
		s.closed = true
		close(s.c)
		delete(d.subs, s)
	}
}

// publish hands events to subscribers and wakes those who wait for a request.
func (d *Desk) publish(events ...Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		for s := range d.subs {
			select {
			case s.c <- e:
			default:
				d.drop(s)
			}
		}
		if e.Request != nil {
			for _, w := range d.waiters[e.Request.ID] {
				close(w)
			}
			delete(d.waiters, e.Request.ID)
		}
	}
}

// Wait returns the request once it is not pending any more, or with ctx's error
// as it stands when ctx ends. Time alone ends a wait when somebody calls Sweep.
func (d *Desk) Wait(ctx context.Context, id string) (Request, error) {
	r, err := d.Get(id)
	if err != nil {
		return Request{}, err
	}
	for {
		changed := d.await(r.ID)
		r, err = d.Get(r.ID)
		if err != nil || r.State != StatePending {
			d.forget(r.ID, changed)
			return r, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.forget(r.ID, changed)
			return r, ctx.Err()
		}
	}
}

func (d *Desk) await(id string) chan struct{} {
	c := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters[id] = append(d.waiters[id], c)
	return c
}

func (d *Desk) forget(id string, c chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.waiters[id][:0]
	for _, w := range d.waiters[id] {
		if w != c {
			left = append(left, w)
		}
	}
	if len(left) == 0 {
		delete(d.waiters, id)
		return
	}
	d.waiters[id] = left
}

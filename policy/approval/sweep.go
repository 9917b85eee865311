package approval

import (
	"fmt"
	"time"
)

// recoverUsed marks every run that was started under an earlier desk.
func recoverUsed(t *tx) error {
	return t.each(bucketOpen, func(n number, r Request) error {
		if r.State != StateUsed {
			return nil
		}
		r.State, r.Ended = StateUnknown, t.now
		if err := t.Bucket(bucketUnknown).Put([]byte(r.Digest), []byte(r.ID)); err != nil {
			return err
		}
		t.emit(Event{Kind: Unknown, Request: &r, Note: "the desk ended while the call ran"})
		return t.put(n, r)
	})
}

// Sweep makes durable what time has ended, and forgets what ended longer ago
// than Options.Keep.
func (d *Desk) Sweep() error {
	err := d.update(func(t *tx) error {
		err := t.each(bucketOpen, func(n number, r Request) error {
			if r.State != StateExpired {
				return nil
			}
			t.emit(Event{Kind: Expired, Request: &r, Note: r.Why})
			return t.put(n, r)
		})
		if err != nil {
			return err
		}
		return t.prune(t.now.Add(-d.o.Keep))
	})
	if err != nil {
		return fmt.Errorf("sweep the approvals desk: %w", err)
	}
	return nil
}

// prune drops requests that ended before a time. It writes only along with
// something else: a commit of its own is not worth a sync.
func (t *tx) prune(before time.Time) error {
	if len(t.events) == 0 {
		return nil
	}
	err := t.eachGrant(func(g Grant) error {
		if g.State(t.now) == "active" || g.Until.After(before) {
			return nil
		}
		return t.Bucket(bucketGrants).Delete([]byte(g.ID))
	})
	if err != nil {
		return err
	}
	var old []number
	c := t.Bucket(bucketRequests).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n, _ := toNumber(k)
		r, err := t.load(n)
		if err != nil {
			return err
		}
		if r.Created.After(before) {
			break
		}
		if !r.State.Open() && r.State != StateUsed {
			old = append(old, n)
		}
	}
	for _, n := range old {
		if err := t.remove(n); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) remove(n number) error {
	r, err := t.load(n)
	if err != nil {
		return err
	}
	if err := t.Bucket(bucketIDs).Delete([]byte(r.ID)); err != nil {
		return err
	}
	for index, key := range map[string]string{string(bucketDigests): r.Digest, string(bucketKeys): r.Key} {
		if m, ok := toNumber(t.Bucket([]byte(index)).Get([]byte(key))); ok && m == n {
			if err := t.Bucket([]byte(index)).Delete([]byte(key)); err != nil {
				return err
			}
		}
	}
	for _, b := range [][]byte{bucketRequests, bucketSubjects, bucketShows, bucketOpen} {
		if err := t.Bucket(b).Delete(n.key()); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for every request in an index bucket keyed by number, oldest
// first. fn may store the request it is given.
func (t *tx) each(index []byte, fn func(number, Request) error) error {
	var all []number
	c := t.Bucket(index).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n, _ := toNumber(k)
		all = append(all, n)
	}
	for _, n := range all {
		r, err := t.load(n)
		if err != nil {
			return err
		}
		if err := fn(n, r); err != nil {
			return err
		}
	}
	return nil
}

// brief is r without its bulk, for events.
func brief(r Request) *Request {
	r.Subject, r.Show = nil, nil
	return &r
}

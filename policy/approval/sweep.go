package approval

import (
	"bytes"
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
		if len(t.events) == 0 {
			return nil // a commit of its own is not worth a sync
		}
		if err := t.fade(t.now.Add(-d.o.Fade)); err != nil {
			return err
		}
		return t.prune(t.now.Add(-d.o.Keep))
	})
	if err != nil {
		return fmt.Errorf("sweep the approvals desk: %w", err)
	}
	return nil
}

// fade drops what requests made before a time would run and write: it can hold
// what should not lie around, and nobody decides on it any more. Digests, rules,
// answers and the one-line summary stay.
func (t *tx) fade(before time.Time) error {
	meta, at := t.Bucket(bucketMeta), []byte("faded") // the last number that is done
	c := t.Bucket(bucketRequests).Cursor()
	k, _ := c.Seek(meta.Get(at))
	if k != nil && bytes.Equal(k, meta.Get(at)) {
		k, _ = c.Next()
	}
	var last []byte
	for ; k != nil; k, _ = c.Next() {
		n, _ := toNumber(k)
		r, err := t.load(n)
		if err != nil {
			return err
		}
		if r.Created.After(before) || r.State.Open() || r.State == StateUsed {
			break
		}
		if err := t.detail(n, &r); err != nil {
			return err
		}
		r.Subject.Args = []byte(`{}`)
		if err := putJSON(t.Bucket(bucketSubjects), n.key(), r.Subject); err != nil {
			return err
		}
		faded := Show{Summary: r.Summary, Risks: r.Risks, Cut: append(r.Cut, "what it would have run and changed is not kept after it ended")}
		if err := putJSON(t.Bucket(bucketShows), n.key(), faded); err != nil {
			return err
		}
		last = n.key()
	}
	if last == nil {
		return nil
	}
	return meta.Put(at, last)
}

// prune drops requests that ended before a time.
func (t *tx) prune(before time.Time) error {
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

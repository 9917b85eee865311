package approval

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets of the file. Requests are keyed by a rising number, so that a
// cursor walks them in the order they were made.
var (
	bucketMeta     = []byte("meta")
	bucketRequests = []byte("requests") // number -> Request without Subject and Show
	bucketSubjects = []byte("subjects") // number -> Subject
	bucketShows    = []byte("shows")    // number -> Show
	bucketIDs      = []byte("ids")      // request id -> number
	bucketOpen     = []byte("open")     // number -> "" while pending, approved or used
	bucketDigests  = []byte("digests")  // digest -> number of the latest request
	bucketKeys     = []byte("keys")     // Request.Key -> number of the latest request
	bucketUnknown  = []byte("unknown")  // digest -> id of a run nobody knows the end of
	bucketGrants   = []byte("grants")   // id -> Grant
	bucketFreezes  = []byte("freezes")  // agent, "*" for all -> Freezing

	buckets = [][]byte{
		bucketMeta, bucketRequests, bucketSubjects, bucketShows, bucketIDs, bucketOpen,
		bucketDigests, bucketKeys, bucketUnknown, bucketGrants, bucketFreezes,
	}
)

// storeVersion is the version of the file's form.
const storeVersion = "1"

func checkVersion(t *bbolt.Tx) error {
	m := t.Bucket(bucketMeta)
	switch v := string(m.Get([]byte("version"))); v {
	case "":
		return m.Put([]byte("version"), []byte(storeVersion))
	case storeVersion:
		return nil
	default:
		return fmt.Errorf("the file has form %s and this program knows form %s; use the sallyport that wrote it", v, storeVersion)
	}
}

// tx is one change of the desk: what it writes, and the events it causes.
type tx struct {
	*bbolt.Tx
	d      *Desk
	now    time.Time
	events []Event
}

// emit adds an event. It is recorded when the change is complete and before it
// is committed.
func (t *tx) emit(e Event) {
	e.Time = t.now
	t.events = append(t.events, e)
}

// update makes one change: fn, then Record for each event, then the commit, then
// the subscribers. A change without events is not written at all. An error of fn
// or Record leaves the desk as it was.
func (d *Desk) update(fn func(*tx) error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	events, err := d.commit(fn)
	if err != nil {
		return err
	}
	d.publish(events...)
	return nil
}

// commit is update without the subscribers; d.writing is held.
func (d *Desk) commit(fn func(*tx) error) ([]Event, error) {
	bt, err := d.db.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("change the approvals desk: %w", err)
	}
	defer bt.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	t := &tx{Tx: bt, d: d, now: d.now()}
	if err := fn(t); err != nil {
		return nil, err
	}
	if len(t.events) == 0 {
		return nil, nil
	}
	d.crash("before record")
	for _, e := range t.events {
		if err := d.o.Record(e); err != nil {
			return nil, fmt.Errorf("record %s: %w; nothing was changed", e.Kind, err)
		}
	}
	d.crash("before commit")
	if err := bt.Commit(); err != nil {
		return nil, fmt.Errorf("keep %s: %w; nothing was changed", t.events[0].Kind, err)
	}
	d.crash("after commit")
	return t.events, nil
}

// now is the desk's time in UTC and without a monotonic part, so that it is the
// same before and after it was stored.
func (d *Desk) now() time.Time { return d.o.Now().UTC().Round(0) }

func (d *Desk) view(fn func(*tx) error) error {
	return d.db.View(func(bt *bbolt.Tx) error {
		return fn(&tx{Tx: bt, d: d, now: d.now()})
	})
}

type number [8]byte

func (n number) key() []byte { return n[:] }

func toNumber(b []byte) (n number, ok bool) { return n, copy(n[:], b) == len(n) }

// put stores a request as it stands, keeping the index of open ones.
func (t *tx) put(n number, r Request) error {
	r.Subject, r.Show = nil, nil
	if err := putJSON(t.Bucket(bucketRequests), n.key(), r); err != nil {
		return err
	}
	if r.State.Open() || r.State == StateUsed {
		return t.Bucket(bucketOpen).Put(n.key(), nil)
	}
	return t.Bucket(bucketOpen).Delete(n.key())
}

// add stores a new request with its subject and show, and indexes it.
func (t *tx) add(r Request) (number, error) {
	var n number
	seq, err := t.Bucket(bucketRequests).NextSequence()
	if err != nil {
		return n, err
	}
	binary.BigEndian.PutUint64(n[:], seq)
	if err := putJSON(t.Bucket(bucketSubjects), n.key(), r.Subject); err != nil {
		return n, err
	}
	if err := putJSON(t.Bucket(bucketShows), n.key(), r.Show); err != nil {
		return n, err
	}
	for _, p := range []struct {
		b *bbolt.Bucket
		k string
	}{
		{t.Bucket(bucketIDs), r.ID},
		{t.Bucket(bucketDigests), r.Digest},
		{t.Bucket(bucketKeys), r.Key},
	} {
		if err := p.b.Put([]byte(p.k), n.key()); err != nil {
			return n, err
		}
	}
	return n, t.put(n, r)
}

// load reads a request as it stands at t.now: time ends what nobody decided.
func (t *tx) load(n number) (Request, error) {
	var r Request
	if err := getJSON(t.Bucket(bucketRequests), n.key(), &r); err != nil {
		return r, err
	}
	return r.at(t.now), nil
}

// at is r as time has changed it.
func (r Request) at(now time.Time) Request {
	if !r.State.Open() || now.Before(r.Expires) {
		return r
	}
	r.Why = "nobody decided in time"
	if r.State == StateApproved {
		r.Why = "it was approved and not used in time"
	}
	r.State, r.Ended = StateExpired, r.Expires
	return r
}

// detail adds the subject and what is shown.
func (t *tx) detail(n number, r *Request) error {
	r.Subject, r.Show = &Subject{}, &Show{}
	if err := getJSON(t.Bucket(bucketSubjects), n.key(), r.Subject); err != nil {
		return err
	}
	return getJSON(t.Bucket(bucketShows), n.key(), r.Show)
}

// latest is the newest request in an index bucket under key; ok is false when
// there is none.
func (t *tx) latest(index []byte, key string) (n number, r Request, ok bool, err error) {
	n, ok = toNumber(t.Bucket(index).Get([]byte(key)))
	if !ok {
		return n, r, false, nil
	}
	r, err = t.load(n)
	return n, r, err == nil, err
}

// find resolves what a person typed: an id or the beginning of one, of at least
// three characters and unique among the open requests or else among all.
func (t *tx) find(typed string) (number, Request, error) {
	id := canonicalID(typed)
	ids := t.Bucket(bucketIDs)
	if n, ok := toNumber(ids.Get([]byte(id))); ok {
		r, err := t.load(n)
		return n, r, err
	}
	var none number
	if len(id) < 3 {
		return none, Request{}, fmt.Errorf("%w: %q is too short; give at least three characters of the id", ErrNotFound, Visible(typed))
	}
	var all, open []number
	for k, v := ids.Cursor().Seek([]byte(id)); k != nil && strings.HasPrefix(string(k), id); k, v = nextAfter(ids, k) {
		n, _ := toNumber(v)
		r, err := t.load(n)
		if err != nil {
			return none, r, err
		}
		all = append(all, n)
		if r.State.Open() {
			open = append(open, n)
		}
	}
	for _, hits := range [][]number{open, all} {
		if len(hits) == 1 {
			r, err := t.load(hits[0])
			return hits[0], r, err
		}
	}
	if len(all) == 0 {
		return none, Request{}, fmt.Errorf("%w: %q; `sallyport approvals list` shows what waits", ErrNotFound, Visible(typed))
	}
	return none, Request{}, fmt.Errorf("%w: %q begins %d ids; give more of it", ErrNotFound, Visible(typed), len(all))
}

func nextAfter(b *bbolt.Bucket, k []byte) ([]byte, []byte) {
	c := b.Cursor()
	c.Seek(k)
	return c.Next()
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

func getJSON(b *bbolt.Bucket, key []byte, v any) error {
	raw := b.Get(key)
	if raw == nil {
		return fmt.Errorf("the desk's file lacks %x", key)
	}
	return json.Unmarshal(raw, v)
}

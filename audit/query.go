package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// Filter chooses records. Its zero value chooses all of them, oldest first; a
// set field must match.
type Filter struct {
	Kind    Kind   `json:"kind,omitempty"`
	Event   string `json:"event,omitempty"`
	Call    string `json:"call,omitempty"`
	Key     string `json:"key,omitempty"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	User    string `json:"user,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Tier    string `json:"tier,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	Status  Status `json:"status,omitempty"`
	Rule    string `json:"rule,omitempty"` // a rule that fired
	// Path is a file that the call names or changed, or a directory above one.
	Path string `json:"path,omitempty"`
	// Moved chooses calls that moved the workspace's commit.
	Moved bool `json:"moved,omitempty"`
	// Text occurs in the record as it is stored; lower-case letters match
	// capitals too.
	Text  string    `json:"text,omitempty"`
	Since time.Time `json:"since,omitzero"` // at or after
	Until time.Time `json:"until,omitzero"` // before
	From  Seq       `json:"from,omitempty"`
	Limit int       `json:"limit,omitempty"` // 0 means no limit
	// Newest gives the newest record first.
	Newest bool `json:"newest,omitempty"`
}

// matches reports whether a record is chosen, Text aside.
func (f *Filter) matches(r *Record) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return r.Seq >= f.From &&
		same(string(f.Kind), string(r.Kind)) && same(f.Event, r.Event) &&
		same(f.Call, r.Call) && same(f.Key, r.Key) &&
		same(f.Session, r.Session) && same(f.Agent, r.Agent) && same(f.User, r.User) &&
		same(f.Tool, r.Tool) && same(f.Tier, r.Tier) && same(f.Verdict, r.Verdict) &&
		same(string(f.Status), string(r.Status)) &&
		(!f.Moved || r.Head != "") &&
		(f.Rule == "" || slices.Contains(r.Rules, f.Rule)) &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) &&
		(f.Until.IsZero() || r.Time.Before(f.Until)) &&
		(f.Path == "" || slices.ContainsFunc(pathsOf(r), func(p string) bool { return beneath(p, f.Path) }))
}

// beneath reports whether path is dir or in it.
func beneath(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// pathsOf lists the workspace files that a record names or changed.
func pathsOf(r *Record) []string {
	out := namedFiles(r.Action)
	for _, c := range r.Changes {
		out = append(out, c.Path)
	}
	return out
}

// chunk is how many records of the newest segment are read before it is let go,
// so that a slow fn never holds pages back from the writer, nor a new writer from
// opening the segment. Older segments have no writer.
const chunk = 256

// Select calls fn with the records that f chooses, in order, until fn returns
// false. Records appended meanwhile are not seen. Every field of f but Text, Since and
// Until is looked up in an index; the rest is read through.
func (r *Reader) Select(ctx context.Context, f Filter, fn func(Record) bool) error {
	return r.run(ctx, &query{f: f, fn: func(rec *Record, _ []byte) bool { return fn(*rec) }})
}

// eachStored is Select with stored bytes, which are valid during the call, and a
// function that can fail.
func (r *Reader) eachStored(ctx context.Context, f Filter, fn func(Seq, []byte) error) error {
	var failed error
	err := r.run(ctx, &query{f: f, fn: func(rec *Record, raw []byte) bool {
		failed = fn(rec.Seq, raw)
		return failed == nil
	}})
	return errors.Join(failed, err)
}

// run gives q.fn the records that q.f chooses.
func (r *Reader) run(ctx context.Context, q *query) error {
	segs, size := r.segments()
	f := q.f
	q.r, q.text, q.terms, q.needles, q.left = r, newTextMatch(f.Text), f.terms(), f.needles(), f.Limit
	for n := range segs {
		i := n
		if f.Newest {
			i = len(segs) - 1 - n
		}
		end := size
		if i+1 < len(segs) {
			end = segs[i+1].first
		}
		if end <= f.From {
			continue
		}
		if err := q.segment(ctx, segs[i], max(segs[i].first, f.From), end); err != nil {
			if r.isRetired(segs[i]) {
				continue // what was kept long enough went while it was read
			}
			return fmt.Errorf("read the audit log: %w", err)
		}
		if q.stop {
			return nil
		}
	}
	return nil
}

// query is one Select under way.
type query struct {
	r       *Reader
	f       Filter
	text    textMatch
	terms   []uint64
	needles [][]byte // what stored bytes of a chosen record contain
	left    int      // records that may still be given; 0 at the start means no limit
	fn      func(*Record, []byte) bool
	stop    bool
}

// segment gives the chosen records of [from, to), which are all in seg.
func (q *query) segment(ctx context.Context, seg segment, from, to Seq) error {
	found, how, err := q.r.lookup(ctx, seg, &q.f, q.terms)
	if err != nil || how == pass {
		return err
	}
	found = within(found, from, to)
	if q.f.Newest {
		slices.Reverse(found)
	}
	next := func(b *bbolt.Bucket, most int) (raws [][]byte) {
		if how == listed {
			n := min(most, len(found))
			for _, seq := range found[:n] {
				raws = append(raws, b.Get(key(uint64(seq))))
			}
			found = found[n:]
			return raws
		}
		raws, from, to = readSpan(b, from, to, most, q.f.Newest)
		return raws
	}
	return q.give(ctx, seg, next)
}

// give hands records on in chunks, as next reads them.
func (q *query) give(ctx context.Context, seg segment, next func(*bbolt.Bucket, int) [][]byte) error {
	live := q.r.isNewest(seg)
	for more := true; more && !q.stop; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var kept [][]byte
		err := q.r.view(seg, func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketRecords)
			if b == nil {
				return errNoBuckets
			}
			for more && !q.stop && ctx.Err() == nil {
				raws := next(b, chunk)
				more = len(raws) == chunk
				for _, raw := range raws {
					if !q.text.in(raw) || !q.mayMatch(raw) {
						continue
					}
					if live {
						kept = append(kept, slices.Clone(raw))
					} else if err := q.one(raw); err != nil || q.stop {
						return err
					}
				}
				if live {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, raw := range kept {
			if err := q.one(raw); err != nil || q.stop {
				return err
			}
		}
	}
	return ctx.Err()
}

// needles are quoted values that occur in every record that f chooses: much
// cheaper to look for than to decode the record.
func (f *Filter) needles() [][]byte {
	var out [][]byte
	for _, v := range []string{f.Event, f.Call, f.Key, f.Session, f.Agent, f.User, f.Tool, f.Tier, f.Verdict, string(f.Kind), string(f.Status), f.Rule} {
		if v != "" {
			out = append(out, quotedJSON(v))
		}
	}
	if f.Moved {
		out = append(out, []byte(`"head":"`))
	}
	if f.Path != "" {
		quoted := quotedJSON(strings.TrimSuffix(f.Path, "/"))
		out = append(out, quoted[:len(quoted)-1]) // more may follow
	}
	return out
}

func (q *query) mayMatch(raw []byte) bool {
	for _, n := range q.needles {
		if !bytes.Contains(raw, n) {
			return false
		}
	}
	return true
}

// one decodes a record and gives it on if it is chosen.
func (q *query) one(raw []byte) error {
	rec, err := Decode(raw)
	if err != nil {
		return err
	}
	if !q.f.matches(&rec) {
		return nil
	}
	q.left--
	q.stop = !q.fn(&rec, raw) || q.left == 0
	return nil
}

// readSpan reads up to most records of [from, to), from the end when newest,
// and returns what is left of the span. The bytes are valid during the
// transaction.
func readSpan(b *bbolt.Bucket, from, to Seq, most int, newest bool) ([][]byte, Seq, Seq) {
	var raws [][]byte
	c := b.Cursor()
	if newest {
		k, _ := c.Seek(key(uint64(to)))
		v := []byte(nil)
		if k == nil {
			k, v = c.Last()
		} else {
			k, v = c.Prev()
		}
		for ; k != nil && to > from && len(raws) < most; k, v = c.Prev() {
			raws = append(raws, v)
			to--
		}
		return raws, from, to
	}
	for k, v := c.Seek(key(uint64(from))); k != nil && from < to && len(raws) < most; k, v = c.Next() {
		raws = append(raws, v)
		from++
	}
	return raws, from, to
}

// within are the numbers of a sorted list that are in [from, to).
func within(list []Seq, from, to Seq) []Seq {
	i, _ := slices.BinarySearch(list, from)
	j, _ := slices.BinarySearch(list, to)
	return list[i:j]
}

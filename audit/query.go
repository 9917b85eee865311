package audit

import (
	"context"
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

// chunk is how many records are read before the segment is let go, so that a
// slow fn never holds pages back from the writer.
const chunk = 256

// Select calls fn with the records that f chooses, in order, until fn returns
// false. Records appended meanwhile are not seen.
func (r *Reader) Select(ctx context.Context, f Filter, fn func(Record) bool) error {
	segs, size := r.segments()
	left := f.Limit
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
		more, err := r.selectIn(ctx, span{i, max(segs[i].first, f.From), end}, &f, func(rec Record) bool {
			left--
			return fn(rec) && left != 0
		})
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// span is the records [first, end) of segment i.
type span struct {
	i          int
	first, end Seq
}

func (r *Reader) selectIn(ctx context.Context, s span, f *Filter, fn func(Record) bool) (more bool, err error) {
	text := newTextMatch(f.Text)
	for s.first < s.end {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		from, to := s.first, min(s.end, s.first+chunk)
		if f.Newest {
			from, to = max(s.first, s.end-min(chunk, s.end)), s.end
		}
		var raws [][]byte
		err := r.view(s.i, func(tx *bbolt.Tx) error {
			return eachRaw(tx, from, to, func(_ Seq, raw []byte) error {
				if text.in(raw) {
					raws = append(raws, slices.Clone(raw))
				}
				return nil
			})
		})
		if err != nil {
			return false, err
		}
		if f.Newest {
			slices.Reverse(raws)
			s.end = from
		} else {
			s.first = to
		}
		for _, raw := range raws {
			rec, err := Decode(raw)
			if err != nil {
				return false, err
			}
			if f.matches(&rec) && !fn(rec) {
				return false, nil
			}
		}
	}
	return true, nil
}

// eachRaw visits the stored bytes of records [from, to), which are only valid
// during the visit.
func eachRaw(tx *bbolt.Tx, from, to Seq, fn func(Seq, []byte) error) error {
	b := tx.Bucket(bucketRecords)
	if b == nil {
		return errNoBuckets
	}
	c := b.Cursor()
	for k, v := c.Seek(key(uint64(from))); k != nil; k, v = c.Next() {
		seq, err := seqOf(k)
		if err != nil {
			return err
		}
		if seq >= to {
			return nil
		}
		if err := fn(seq, v); err != nil {
			return err
		}
	}
	return nil
}

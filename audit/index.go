package audit

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// An index leads from a term, such as a session's name, to the records of one
// segment that have it. It is no evidence: records found by it are looked at
// again, it can be made anew at any time, and verify does not need it.
type index interface {
	// postings are the records with a term, ascending.
	postings(term uint64) []Seq
	// times are those of the oldest and newest record.
	times() (oldest, newest time.Time)
}

// found wraps an index with what a query asks of it.
type found struct{ index }

// find lists the records that have every term.
func (x found) find(terms []uint64) []Seq {
	lists := make([][]Seq, len(terms))
	for i, t := range terms {
		lists[i] = x.postings(t)
	}
	slices.SortFunc(lists, func(a, b []Seq) int { return len(a) - len(b) })
	out := slices.Clone(lists[0])
	for _, l := range lists[1:] {
		out = slices.DeleteFunc(out, func(s Seq) bool {
			_, ok := slices.BinarySearch(l, s)
			return !ok
		})
	}
	return out
}

// outside reports whether no record can be in [since, until).
func (x found) outside(since, until time.Time) bool {
	oldest, newest := x.times()
	return !since.IsZero() && newest.Before(since) || !until.IsZero() && !oldest.Before(until)
}

// The fields that are indexed; the letter keeps equal values of different fields
// apart.
func fieldTerms(r *Record) map[byte]string {
	return map[byte]string{
		'k': string(r.Kind), 'e': r.Event, 'c': r.Call, 'y': r.Key, 's': r.Session, 'a': r.Agent,
		'u': r.User, 't': r.Tool, 'i': r.Tier, 'v': r.Verdict, 'z': string(r.Status),
	}
}

func term(field byte, value string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte{field})
	_, _ = h.Write([]byte(value))
	return h.Sum64()
}

// terms are those that a chosen record must have.
func (f *Filter) terms() []uint64 {
	like := Record{
		Kind: f.Kind, Event: f.Event, Call: f.Call, Key: f.Key, Session: f.Session, Agent: f.Agent,
		User: f.User, Tool: f.Tool, Tier: f.Tier, Verdict: f.Verdict, Status: f.Status,
	}
	if f.Rule != "" {
		like.Rules = []string{f.Rule}
	}
	terms := termsOf(&like)
	if f.Path != "" {
		terms = append(terms, term('p', path.Clean(f.Path)))
	}
	return terms
}

// termsOf are the terms of a record, each once: its fields, rules, and its paths
// with every directory above them.
func termsOf(r *Record) []uint64 {
	set := map[uint64]struct{}{}
	for field, value := range fieldTerms(r) {
		if value != "" {
			set[term(field, value)] = struct{}{}
		}
	}
	for _, rule := range r.Rules {
		set[term('r', rule)] = struct{}{}
	}
	for _, p := range pathsOf(r) {
		for p = path.Clean(p); ; p = path.Dir(p) {
			set[term('p', p)] = struct{}{}
			if up := path.Dir(p); up == p || up == "." {
				break
			}
		}
	}
	return slices.Collect(maps.Keys(set))
}

// growing is the index of the segment that is being written, or of one without
// an index file. It is kept in memory and follows when it is asked.
type growing struct {
	first, next    Seq
	lists          map[uint64][]Seq
	oldest, newest time.Time
}

func newGrowing(first Seq) *growing {
	return &growing{first: first, next: first, lists: map[uint64][]Seq{}}
}

func (g *growing) postings(term uint64) []Seq        { return g.lists[term] }
func (g *growing) times() (oldest, newest time.Time) { return g.oldest, g.newest }

// follow takes in the records up to end.
func (g *growing) follow(ctx context.Context, r *Reader, seg segment, end Seq) error {
	for g.next < end && ctx.Err() == nil {
		err := r.view(seg, func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketRecords)
			if b == nil {
				return errNoBuckets
			}
			raws, _, _ := readSpan(b, g.next, end, 4096, false)
			if len(raws) == 0 {
				return ErrNoRecord
			}
			for _, raw := range raws {
				rec, err := Decode(raw)
				if err != nil {
					return err
				}
				g.take(&rec)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (g *growing) take(r *Record) {
	if g.next == g.first {
		g.oldest = r.Time
	}
	if r.Time.Before(g.oldest) {
		g.oldest = r.Time
	}
	if r.Time.After(g.newest) {
		g.newest = r.Time
	}
	for _, t := range termsOf(r) {
		g.lists[t] = append(g.lists[t], g.next)
	}
	g.next++
}

// encode writes the index in the form that stored reads: counts, times, a sorted
// table of (term, where its list ends), then the lists as differences.
func (g *growing) encode() []byte {
	terms := slices.Sorted(maps.Keys(g.lists))
	var lists []byte
	table := make([]byte, 0, 12*len(terms))
	for _, t := range terms {
		last := g.first
		for _, s := range g.lists[t] {
			lists = binary.AppendUvarint(lists, uint64(s-last))
			last = s
		}
		table = binary.LittleEndian.AppendUint64(table, t)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(lists)))
	}
	out := binary.LittleEndian.AppendUint64([]byte(indexMagic), uint64(g.first))
	out = binary.LittleEndian.AppendUint64(out, uint64(g.next))
	out = binary.LittleEndian.AppendUint64(out, uint64(g.oldest.UnixNano()))
	out = binary.LittleEndian.AppendUint64(out, uint64(g.newest.UnixNano()))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(terms)))
	return append(append(out, table...), lists...)
}

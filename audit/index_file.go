package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	indexMagic  = "sallyidx1\n"
	indexHeader = len(indexMagic) + 5*8
	indexSum    = 32
)

// indexPath is where the index of a full segment is kept.
func indexPath(segment string) string { return strings.TrimSuffix(segment, ".db") + ".idx" }

// stored is an index file in memory. It is searched as it lies.
type stored struct {
	table, lists []byte
	first        Seq
	from, to     time.Time
}

var errIndex = errors.New("the index file is damaged")

// parseIndex reads an index of the segment that starts at first and ends before
// end. The keyed sum in front keeps a damaged one from hiding records.
func (r *Reader) parseIndex(file []byte, first, end Seq) (*stored, error) {
	if len(file) < indexSum+indexHeader {
		return nil, errIndex
	}
	sum, body := file[:indexSum], file[indexSum:]
	if !hmac.Equal(sum, r.mac("index", body)) || !bytes.HasPrefix(body, []byte(indexMagic)) {
		return nil, errIndex
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(body[len(indexMagic)+8*i:]) }
	rest, n := body[indexHeader:], number(4)
	if number(0) != uint64(first) || number(1) != uint64(end) || n > uint64(len(rest))/12 {
		return nil, errIndex
	}
	return &stored{
		table: rest[:12*n], lists: rest[12*n:], first: first,
		from: time.Unix(0, int64(number(2))), to: time.Unix(0, int64(number(3))),
	}, nil
}

func (s *stored) times() (oldest, newest time.Time) { return s.from, s.to }

func (s *stored) postings(term uint64) []Seq {
	n := len(s.table) / 12
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(s.table[12*i:]) }
	i := sort.Search(n, func(i int) bool { return at(i) >= term })
	if i == n || at(i) != term {
		return nil
	}
	start, end := uint32(0), binary.LittleEndian.Uint32(s.table[12*i+8:])
	if i > 0 {
		start = binary.LittleEndian.Uint32(s.table[12*i-4:])
	}
	var out []Seq
	last := s.first
	for list := s.lists[start:end]; len(list) > 0; {
		d, n := binary.Uvarint(list)
		if n <= 0 {
			return out
		}
		last += Seq(d)
		out = append(out, last)
		list = list[n:]
	}
	return out
}

// indexesKept bounds the indexes of full segments in memory, of 2–4 MB each.
const indexesKept = 64

// indexes are those that were used lately.
type indexes struct {
	mu   sync.Mutex
	live *growing
	kept map[Seq]found
}

// how says how a query goes through a segment.
type how int

const (
	pass   how = iota // nothing can be there
	scan              // every record is looked at
	listed            // those that the index lists
)

// lookup lists the records of a segment that have all terms, and tells from the
// segment's oldest and newest record whether it is worth a look. A Reader that
// does not stay has no index of the newest segment and scans it.
func (r *Reader) lookup(ctx context.Context, seg segment, f *Filter, terms []uint64) ([]Seq, how, error) {
	if len(terms) == 0 && f.Since.IsZero() && f.Until.IsZero() || r.isNewest(seg) && !r.isLive() {
		return nil, scan, nil
	}
	r.indexes.mu.Lock()
	defer r.indexes.mu.Unlock()
	ix, err := r.index(ctx, seg)
	if err != nil || ix.outside(f.Since, f.Until) {
		return nil, pass, err
	}
	if len(terms) == 0 {
		return nil, scan, nil
	}
	return ix.find(terms), listed, nil
}

// index returns the index of a segment. The caller holds the lock.
func (r *Reader) index(ctx context.Context, seg segment) (found, error) {
	segs, size := r.segments()
	i := slices.IndexFunc(segs, func(s segment) bool { return s.first == seg.first })
	if i < 0 {
		return found{}, fs.ErrNotExist
	}
	if i == len(segs)-1 {
		if g := r.indexes.live; g == nil || g.first != seg.first {
			r.indexes.live = newGrowing(seg.first)
		}
		err := r.indexes.live.follow(ctx, r, seg, size)
		return found{r.indexes.live}, err
	}
	if ix, ok := r.indexes.kept[seg.first]; ok {
		return ix, nil
	}
	ix, err := r.loadIndex(ctx, seg, segs[i+1].first)
	if err != nil {
		return found{}, err
	}
	if r.indexes.kept == nil || len(r.indexes.kept) >= indexesKept {
		r.indexes.kept = map[Seq]found{}
	}
	r.indexes.kept[seg.first] = ix
	return ix, nil
}

// loadIndex reads a full segment's index file, or indexes the segment anew.
func (r *Reader) loadIndex(ctx context.Context, seg segment, end Seq) (found, error) {
	if file, err := os.ReadFile(indexPath(seg.path)); err == nil {
		if ix, err := r.parseIndex(file, seg.first, end); err == nil {
			return found{ix}, nil
		}
		r.opt.Logger.Warn("an index file of the audit log is damaged and is not used", "file", filepath.Base(indexPath(seg.path)))
	}
	g := newGrowing(seg.first)
	if err := g.follow(ctx, r, seg, end); err != nil {
		return found{}, err
	}
	return found{g}, nil
}

// indexSegment writes the index file of a full segment. It needs no sync: a
// damaged file is known by its sum and made anew.
func (l *Log) indexSegment(ctx context.Context, first Seq) error {
	segs, _ := l.segments()
	for i := range segs[:len(segs)-1] {
		if segs[i].first != first {
			continue
		}
		g := newGrowing(first)
		if err := g.follow(ctx, &l.Reader, segs[i], segs[i+1].first); err != nil {
			return err
		}
		body := g.encode()
		path := indexPath(segs[i].path)
		if err := os.WriteFile(path+".new", append(l.mac("index", body), body...), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	return nil
}

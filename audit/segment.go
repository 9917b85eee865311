package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// A segment is one bbolt file with these buckets. Every segment can be checked
// with nothing but itself and the log's public keys: its hashes start with the
// edge of the tree before it.
var (
	bucketRecords = []byte("records") // sequence number -> stored record
	bucketHashes  = []byte("hashes")  // tlog stored index -> SHA-256
	bucketOpen    = []byte("open")    // sequence number of an intent without an outcome -> nothing
	bucketMeta    = []byte("meta")    // the keys below
	keyHeader     = []byte("header")  // JSON header, written once
	keyHead       = []byte("head")    // signed checkpoint, rewritten by every commit
	keySealed     = []byte("sealed")  // present once another segment follows
	sealedMark    = []byte{1}
	keyUnsealed   = []byte("unsealed") // see type unsealed
)

const segmentFormat = 1

// header opens a segment. Previous is the signed checkpoint that the segment
// before ended with, and so an anchor of everything before First.
type header struct {
	Format   int    `json:"format"`
	First    Seq    `json:"first"`
	Previous string `json:"previous"`
}

type segment struct {
	first Seq
	path  string
}

func segmentPath(dir string, first Seq) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.db", first))
}

// listSegments finds the segments of dir in order.
func listSegments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the log's segments: %w", err)
	}
	var segs []segment
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".db")
		if !ok || len(base) != 20 {
			continue
		}
		if first, err := strconv.ParseUint(base, 10, 63); err == nil {
			segs = append(segs, segment{Seq(first), filepath.Join(dir, e.Name())})
		}
	}
	slices.SortFunc(segs, func(a, b segment) int { return int(int64(a.first) - int64(b.first)) })
	return segs, nil
}

// boltOptions open a segment. The map is larger than a segment gets, so that a
// reader never makes the writer wait for a new map. The list of free pages is
// found again at open, which is cheaper than writing it with every commit.
func (o *Options) boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:         5 * time.Second, // a reader may be looking
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: int(2*o.SegmentBytes + 32<<20),
		NoStatistics:    true,
		OpenFile:        o.openFile,
		PageSize:        o.pageSize,
	}
}

// carried is what a new segment takes over from the one before it.
type carried struct {
	tree     *tree
	previous []byte // signed checkpoint of tree
	open     []Seq
	unsealed unsealed
}

// createSegment makes the segment that starts where c's tree ends, durable when
// it returns. Its name appears only when all of c is in it.
func createSegment(dir string, o *Options, c carried) (*bbolt.DB, segment, error) {
	seg := segment{Seq(c.tree.size), segmentPath(dir, Seq(c.tree.size))}
	tmp := seg.path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, seg, fmt.Errorf("start a segment: %w", err)
	}
	db, err := bbolt.Open(tmp, 0o600, o.boltOptions())
	if err != nil {
		return nil, seg, fmt.Errorf("start a segment: %w", err)
	}
	err = db.Update(c.write)
	if err == nil {
		err = os.Rename(tmp, seg.path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		_ = db.Close()
		return nil, seg, fmt.Errorf("start a segment: %w", err)
	}
	return db, seg, nil
}

func (c *carried) write(tx *bbolt.Tx) error {
	b := map[string]*bbolt.Bucket{}
	for _, name := range [][]byte{bucketRecords, bucketHashes, bucketOpen, bucketMeta} {
		made, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		b[string(name)] = made
	}
	text, err := json.Marshal(header{segmentFormat, Seq(c.tree.size), string(c.previous)})
	if err != nil {
		return err
	}
	if err := b["meta"].Put(keyHeader, text); err != nil {
		return err
	}
	if err := b["meta"].Put(keyHead, c.previous); err != nil {
		return err
	}
	hashes := c.tree.hashes()
	for i, x := range edgeIndexes(c.tree.size) {
		if err := b["hashes"].Put(key(uint64(x)), hashes[i][:]); err != nil {
			return err
		}
	}
	for _, seq := range c.open {
		if err := b["open"].Put(key(uint64(seq)), nil); err != nil {
			return err
		}
	}
	return c.unsealed.write(tx)
}

// openSegment opens a segment file. bbolt panics on some damaged pages, and a
// file that was cut faults when its map is read; both become errors here.
func openSegment(path string, o *bbolt.Options) (db *bbolt.DB, err error) {
	err = guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the log's segment %s: %w", filepath.Base(path), err)
	}
	return db, nil
}

// viewSegment runs fn over a closed segment.
func viewSegment(seg segment, o *Options, fn func(*bbolt.Tx) error) error {
	opt := o.boltOptions()
	opt.ReadOnly = true
	opt.InitialMmapSize = 0
	db, err := openSegment(seg.path, opt)
	if err != nil {
		return err
	}
	err = guarded(func() error { return db.View(fn) })
	if cerr := guarded(db.Close); err == nil {
		err = cerr
	}
	return err
}

// guarded turns a panic or a memory fault in fn into an error.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read the log: the file is damaged: %v", p)
		}
	}()
	return fn()
}

// segmentState is what a segment says of itself.
type segmentState struct {
	header header
	head   []byte // signed checkpoint
	sealed bool
	open   []Seq
	left   unsealed
}

var errNoBuckets = errors.New("read the segment: a bucket is missing")

// readState reads everything in a segment but records and hashes. It takes
// nothing that this version would not have written itself, to the last byte.
func readState(tx *bbolt.Tx) (segmentState, error) {
	var s segmentState
	meta, open := tx.Bucket(bucketMeta), tx.Bucket(bucketOpen)
	if meta == nil || open == nil || tx.Bucket(bucketRecords) == nil || tx.Bucket(bucketHashes) == nil {
		return s, errNoBuckets
	}
	err := meta.ForEach(func(k, v []byte) (err error) {
		switch {
		case bytes.Equal(k, keyHeader):
			s.header, err = parseHeader(v)
		case bytes.Equal(k, keyHead):
			s.head = slices.Clone(v)
		case bytes.Equal(k, keySealed) && bytes.Equal(v, sealedMark):
			s.sealed = true
		case bytes.Equal(k, keyUnsealed):
			s.left, err = parseUnsealed(v)
		default:
			err = errors.New("read the segment: it has an entry of an unknown kind")
		}
		return err
	})
	if err != nil {
		return s, err
	}
	if s.header.Format != segmentFormat {
		return s, fmt.Errorf("read the segment's header: format %d is unknown; use the sallyport that wrote it", s.header.Format)
	}
	err = open.ForEach(func(k, v []byte) error {
		seq, err := seqOf(k)
		s.open = append(s.open, seq)
		if len(v) > 0 {
			return fmt.Errorf("read the segment: open intent %d has a value", seq)
		}
		return err
	})
	return s, err
}

// parseHeader reads a header in the form that json.Marshal gives it: JSON would
// take other cases of the names too.
func parseHeader(text []byte) (header, error) {
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("read the segment's header: %w", err)
	}
	if again, err := json.Marshal(h); err != nil || !bytes.Equal(again, text) {
		return h, errors.New("read the segment's header: it was altered")
	}
	return h, nil
}

func seqOf(k []byte) (Seq, error) {
	if len(k) != 8 {
		return 0, fmt.Errorf("read the segment: a key has %d bytes instead of 8", len(k))
	}
	var n uint64
	for _, c := range k {
		n = n<<8 | uint64(c)
	}
	return Seq(n), nil
}

// resume reads the tree's edge from a segment and holds it against the signed
// checkpoint.
func resume(tx *bbolt.Tx, cp checkpoint) (tree, error) {
	t, err := readTree(cp.size, storedHashes{tx.Bucket(bucketHashes)})
	if err != nil {
		return tree{}, err
	}
	if t.root() != cp.root {
		return tree{}, errors.New("the stored tree does not match the signed checkpoint")
	}
	last, _ := tx.Bucket(bucketRecords).Cursor().Last()
	if last != nil {
		if seq, err := seqOf(last); err != nil || int64(seq) != cp.size-1 {
			return tree{}, errors.New("the last record is not the one the signed checkpoint ends with")
		}
	}
	return t, nil
}

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
)

// compactSuffix names the file that a segment is compacted into, until it takes
// the segment's place.
const compactSuffix = ".compact"

// worthwhile is the most that a compacted file may keep of the old size.
const worthwhile = 0.95

// compactSegment writes what is in a segment that nobody writes any more to a new
// file, without the pages that bbolt has freed, and holds the two against each
// other to the last byte. It returns the new file, or "" where that would save
// too little.
func compactSegment(ctx context.Context, seg segment, o *Options) (string, error) {
	if err := checkPages(seg.path); err != nil {
		return "", err
	}
	to := seg.path + compactSuffix
	if err := removeIfThere(to); err != nil {
		return "", err
	}
	opt := o.boltOptions()
	opt.InitialMmapSize = 0
	opt.NoSync = true // once, at the end
	dst, err := bbolt.Open(to, 0o600, opt)
	if err != nil {
		return "", err
	}
	err = viewDB(seg.path, o, func(src *bbolt.DB) error {
		if err := bbolt.Compact(dst, src, 4<<20); err != nil {
			return err
		}
		return sameContent(ctx, src, dst)
	})
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err == nil {
		err = trimSegment(to)
	}
	if err == nil {
		err = checkPages(to)
	}
	var small bool
	if err == nil {
		small, err = smallerEnough(to, seg.path)
	}
	if err != nil || !small {
		return "", errors.Join(err, removeIfThere(to))
	}
	return to, nil
}

// viewDB runs fn over a closed segment's database.
func viewDB(path string, o *Options, fn func(*bbolt.DB) error) error {
	opt := o.boltOptions()
	opt.ReadOnly, opt.InitialMmapSize = true, 0
	db, err := openSegment(path, opt)
	if err != nil {
		return err
	}
	err = guarded(func() error { return fn(db) })
	return errors.Join(err, guarded(db.Close))
}

// sameContent compares every bucket, key and value of two segments.
func sameContent(ctx context.Context, a, b *bbolt.DB) error {
	return a.View(func(x *bbolt.Tx) error {
		return b.View(func(y *bbolt.Tx) error { return sameEntries(ctx, x.Cursor(), y.Cursor(), x, y) })
	})
}

var errNotCopied = errors.New("the compacted segment is not the same; the old one stays")

func sameEntries(ctx context.Context, a, b *bbolt.Cursor, x, y *bbolt.Tx) error {
	ka, va := a.First()
	kb, vb := b.First()
	for n := 0; ka != nil || kb != nil; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !bytes.Equal(ka, kb) || (va == nil) != (vb == nil) || !bytes.Equal(va, vb) {
			return errNotCopied
		}
		if va == nil && x != nil { // a bucket; those have none in them
			if err := sameEntries(ctx, x.Bucket(ka).Cursor(), y.Bucket(kb).Cursor(), nil, nil); err != nil {
				return err
			}
		}
		ka, va = a.Next()
		kb, vb = b.Next()
	}
	return nil
}

func smallerEnough(file, than string) (bool, error) {
	a, err := os.Stat(file)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(than)
	if err != nil {
		return false, err
	}
	return float64(a.Size()) <= worthwhile*float64(b.Size()), nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceSegment puts a compacted file in a segment's place.
func (r *Reader) replaceSegment(seg segment, with string) error {
	if err := os.Rename(with, seg.path); err != nil {
		return err
	}
	r.checked.Delete(seg.first)
	return syncDir(r.dir)
}

// Compaction is what Compact did.
type Compaction struct {
	Segments int   `json:"segments"` // that became smaller
	Before   int64 `json:"before"`   // bytes of these
	After    int64 `json:"after"`
}

// Compact makes the files of full segments smaller. The log compacts each by
// itself when it is full, so this is for those of before. No record changes; the
// file's new digest is recorded before the new file takes the old one's place.
func (l *Log) Compact(ctx context.Context) (Compaction, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	var done Compaction
	segs, _ := l.segments()
	for _, seg := range segs[:len(segs)-1] {
		if !l.isSealed(seg.first) {
			continue // it is about to be, and compacted then
		}
		before, after, err := l.compactSealed(ctx, seg)
		if err != nil {
			return done, fmt.Errorf("compact segment %s: %w", filepath.Base(seg.path), err)
		}
		if after > 0 {
			done.Segments++
			done.Before += before
			done.After += after
		}
	}
	return done, nil
}

func (l *Log) compactSealed(ctx context.Context, seg segment) (before, after int64, err error) {
	made, err := compactSegment(ctx, seg, &l.opt)
	if err != nil || made == "" {
		return 0, 0, err
	}
	was, before, err := digestFile(ctx, seg.path)
	if err != nil {
		return 0, 0, err
	}
	d := sealedDetail{Segment: filepath.Base(seg.path), First: seg.first, WasBytes: before, Was: was}
	if d.SHA256, d.Bytes, err = digestFile(ctx, made); err != nil {
		return 0, 0, err
	}
	detail, err := json.Marshal(d)
	if err != nil {
		return 0, 0, err
	}
	if _, err := l.append(ctx, Record{Kind: KindEvent, Event: eventSealed, Detail: detail}, func(*waiter) {}); err != nil {
		return 0, 0, err
	}
	return before, d.Bytes, l.replaceSegment(seg, made)
}

// forgetCompacted removes what a compaction left that did not come to its end:
// the segment itself is whole.
func forgetCompacted(dir string) error {
	files, err := filepath.Glob(filepath.Join(globbed(dir), "*.db"+compactSuffix))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// globbed escapes a path for a pattern.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

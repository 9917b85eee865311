package audit

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// smallLog makes a closed log of three segments with one open intent.
func smallLog(t *testing.T) string {
	t.Helper()
	o := quiet()
	o.SegmentBytes = 2 << 10
	return smallLogWith(t, o)
}

func smallLogWith(t *testing.T, o Options) string {
	t.Helper()
	dir := t.TempDir()
	l := openTest(t, dir, o)
	for n := 0; len(segmentsOf(t, dir)) < 3; n++ {
		intent := add(t, l, Record{Kind: KindIntent, Call: fmt.Sprint(n), Tool: "run_command"})
		if n > 0 {
			add(t, l, Record{Kind: KindOutcome, Call: fmt.Sprint(n), Intent: &intent, Status: StatusOK})
		}
	}
	l.sealer.work.Wait()
	require.NoError(t, l.Close())
	return dir
}

func segmentsOf(t *testing.T, dir string) []segment {
	t.Helper()
	segs, err := listSegments(dir)
	require.NoError(t, err)
	return segs
}

func verifyDir(dir string) (Report, error) {
	r, err := OpenReadOnly(dir, quiet())
	if err != nil {
		return Report{}, err
	}
	return r.Verify(context.Background(), VerifyOptions{})
}

// TestEveryFlippedBitIsDetected flips bits of a log's files, one at a time, and
// verifies the whole log after each. Pages are small, so that every bit of the long
// form is a matter of minutes; two copies share the work.
func TestEveryFlippedBitIsDetected(t *testing.T) {
	t.Parallel()
	dir := tinyLog(t)
	paths := []string{closedFile}
	for _, seg := range segmentsOf(t, dir) {
		paths = append(paths, filepath.Base(seg.path))
	}
	var flips, bytes atomic.Int64
	t.Run("halves", func(t *testing.T) {
		for half := range 2 {
			t.Run(fmt.Sprint(half), func(t *testing.T) {
				t.Parallel()
				mine := filepath.Join(t.TempDir(), "log")
				copyDir(t, dir, mine)
				for _, name := range paths {
					n, size := flipBits(t, mine, name, half)
					flips.Add(n)
					bytes.Add(size)
				}
				rep, err := verifyDir(mine)
				require.NoError(t, err)
				require.Equal(t, VerifyNotAnchored, rep.Status, "the flips were undone: %v", rep.Problems)
			})
		}
	})
	t.Logf("%d flips in %d bytes, each seen", flips.Load(), bytes.Load()/2)
}

// tinyLog is smallLog with pages of 1 KiB.
func tinyLog(t *testing.T) string {
	t.Helper()
	o := quiet()
	o.SegmentBytes, o.pageSize = 2<<10, 1<<10
	return smallLogWith(t, o)
}

// flipBits flips and verifies every other bit of a file, or some of them.
func flipBits(t *testing.T, dir, name string, half int) (flips, size int64) {
	t.Helper()
	step := func() int64 { return 2 * (1 + rand.Int64N(300)) }
	if long() {
		step = func() int64 { return 2 }
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	for bit := int64(half); bit < st.Size()*8; bit += step() {
		flips++
		flip(t, f, bit)
		rep, err := verifyDir(dir)
		require.False(t, err == nil && rep.Status == VerifyNotAnchored, "bit %d of %s", bit, name)
		flip(t, f, bit)
	}
	return flips, st.Size()
}

func flip(t *testing.T, f *os.File, bit int64) {
	t.Helper()
	b := make([]byte, 1)
	_, err := f.ReadAt(b, bit/8)
	require.NoError(t, err)
	b[0] ^= 1 << (bit % 8)
	_, err = f.WriteAt(b, bit/8)
	require.NoError(t, err)
}

func TestTamperedFilesAreDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status VerifyStatus
		do     func(t *testing.T, dir string, segs []segment)
	}{
		{"middle segment removed", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			require.NoError(t, os.Remove(segs[1].path))
		}},
		{"last segment removed", VerifyTruncated, func(t *testing.T, _ string, segs []segment) {
			require.NoError(t, os.Remove(segs[2].path))
		}},
		{"two segments swapped", VerifyTampered, func(t *testing.T, dir string, segs []segment) {
			require.NoError(t, os.Rename(segs[0].path, dir+"/x"))
			require.NoError(t, os.Rename(segs[1].path, segs[0].path))
			require.NoError(t, os.Rename(dir+"/x", segs[1].path))
		}},
		{"a segment cut", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			require.NoError(t, os.Truncate(segs[1].path, 9000))
		}},
		{"a segment emptied", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			require.NoError(t, os.Truncate(segs[1].path, 0))
		}},
		{"a record changed and its leaf hash too", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			edit(t, segs[0], func(tx *bbolt.Tx) error {
				k, v := tx.Bucket(bucketRecords).Cursor().First()
				return tx.Bucket(bucketRecords).Put(k, append([]byte(nil), append(v[:len(v)-1], " }"...)...))
			})
		}},
		{"the last record deleted", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			edit(t, segs[2], func(tx *bbolt.Tx) error {
				c := tx.Bucket(bucketRecords).Cursor()
				c.Last()
				return c.Delete()
			})
		}},
		{"an open intent forgotten", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			edit(t, segs[2], func(tx *bbolt.Tx) error {
				c := tx.Bucket(bucketOpen).Cursor()
				c.First()
				return c.Delete()
			})
		}},
		{"an older checkpoint put back", VerifyTampered, func(t *testing.T, _ string, segs []segment) {
			edit(t, segs[2], func(tx *bbolt.Tx) error {
				s, err := readState(tx)
				require.NoError(t, err)
				return tx.Bucket(bucketMeta).Put(keyHead, []byte(s.header.Previous))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := smallLog(t)
			c.do(t, dir, segmentsOf(t, dir))
			rep, err := verifyDir(dir)
			require.NoError(t, err)
			assert.Equal(t, c.status, rep.Status, rep.Problems)
			assert.NotEmpty(t, rep.Problems)
		})
	}
}

func edit(t *testing.T, seg segment, fn func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(seg.path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(fn))
	require.NoError(t, db.Close())
}

// copyDir copies a closed log, as whoever rolls one back does.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	require.NoError(t, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(path, 0o600)
		}
		return err
	}))
}

func TestMetaPagesAreReadAsBboltWritesThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err }))
	pageSize := db.Info().PageSize
	var pages uint64
	require.NoError(t, db.View(func(tx *bbolt.Tx) error { pages = uint64(tx.Size()) / uint64(pageSize); return nil }))
	require.NoError(t, db.Close())
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	a, err := readMetaPage(f, 0)
	require.NoError(t, err)
	b, err := readMetaPage(f, 1)
	require.NoError(t, err)
	assert.EqualValues(t, pages*uint64(pageSize), max(a.end, b.end))
	assert.EqualValues(t, 1, max(a.txid, b.txid)-min(a.txid, b.txid))
}

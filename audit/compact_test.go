package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// looseLog makes a log of some segments that are full and not compacted.
func looseLog(t *testing.T, dir string) *Log {
	t.Helper()
	o := quiet()
	o.SegmentBytes, o.keepLoose = 64<<10, true
	l := openTest(t, dir, o)
	for n := 0; len(segmentsOf(t, dir)) < 4; n++ {
		add(t, l, call(n))
	}
	l.sealer.work.Wait()
	return l
}

func sizeOf(t *testing.T, dir string) (all int64) {
	t.Helper()
	for _, s := range segmentsOf(t, dir) {
		st, err := os.Stat(s.path)
		require.NoError(t, err)
		all += st.Size()
	}
	return all
}

func TestCompactChangesNoRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := looseLog(t, dir)
	segs, size := l.segments()
	var before [][]byte
	for seq := range size {
		raw, err := l.raw(seq)
		require.NoError(t, err)
		before = append(before, raw)
	}
	proof, err := l.Prove(3)
	require.NoError(t, err)
	bytesBefore := sizeOf(t, dir)
	done, err := l.Compact(context.Background())
	require.NoError(t, err)
	require.Equal(t, len(segs)-1, done.Segments)
	require.Less(t, done.After, done.Before)
	t.Logf("%d bytes, %d before", done.After, done.Before)
	require.Less(t, sizeOf(t, dir), bytesBefore)
	for seq, want := range before {
		raw, err := l.raw(Seq(seq))
		require.NoError(t, err)
		require.Equal(t, want, raw)
	}
	again, err := l.Prove(3)
	require.NoError(t, err)
	require.Equal(t, proof.Record, again.Record)
	requireIntact(t, &l.Reader)
	done, err = l.Compact(context.Background())
	require.NoError(t, err)
	require.Zero(t, done.Segments, "a second time there is nothing to do")
	require.NoError(t, l.Close())
	rep, err := verifyDir(dir)
	require.NoError(t, err)
	require.Equal(t, VerifyNotAnchored, rep.Status, rep.Problems)
}

func TestFullSegmentsAreCompacted(t *testing.T) {
	t.Parallel()
	loose, tight := t.TempDir(), t.TempDir()
	looseLog(t, loose)
	o := quiet()
	o.SegmentBytes = 64 << 10
	l := openTest(t, tight, o)
	for n := 0; len(segmentsOf(t, tight)) < 4; n++ {
		add(t, l, call(n))
	}
	l.sealer.work.Wait()
	segs, _ := l.segments()
	for i, s := range segs[:len(segs)-1] {
		a, err := os.Stat(s.path)
		require.NoError(t, err)
		b, err := os.Stat(segmentsOf(t, loose)[i].path)
		require.NoError(t, err)
		assert.Less(t, a.Size(), b.Size())
	}
	requireIntact(t, &l.Reader)
}

func TestCompactedSegmentsAreEvidence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := looseLog(t, dir)
	old, err := os.ReadFile(segmentsOf(t, dir)[0].path)
	require.NoError(t, err)
	_, err = l.Compact(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	path := segmentsOf(t, dir)[0].path
	status := func() VerifyStatus {
		rep, err := verifyDir(dir)
		require.NoError(t, err)
		return rep.Status
	}
	made, err := os.ReadFile(path)
	require.NoError(t, err)
	made[len(made)-1] ^= 1
	require.NoError(t, os.WriteFile(path, made, 0o600))
	require.Equal(t, VerifyTampered, status())
	// A crash right before the new file took its place leaves the old one.
	require.NoError(t, os.WriteFile(path, old, 0o600))
	require.Equal(t, VerifyNotAnchored, status())
	old[len(old)-1] ^= 1
	require.NoError(t, os.WriteFile(path, old, 0o600))
	require.Equal(t, VerifyTampered, status())
}

func TestCopyThatIsNotTheSameIsThrownAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := looseLog(t, dir)
	require.NoError(t, l.Close())
	one, two := segmentsOf(t, dir)[0].path, filepath.Join(dir, "copy")
	for _, alter := range []func(tx *bbolt.Tx) error{
		func(tx *bbolt.Tx) error { return tx.Bucket(bucketRecords).Put(key(1), []byte("x")) },
		func(tx *bbolt.Tx) error { return tx.Bucket(bucketOpen).Put(key(1), nil) },
		func(tx *bbolt.Tx) error { return tx.Bucket(bucketRecords).Delete(key(1)) },
		func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketOpen) },
	} {
		b, err := os.ReadFile(one)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(two, b, 0o600))
		edit(t, segment{path: two}, alter)
		o := quiet()
		require.ErrorIs(t, viewDB(one, &o, func(a *bbolt.DB) error {
			return viewDB(two, &o, func(b *bbolt.DB) error { return sameContent(context.Background(), a, b) })
		}), errNotCopied)
	}
}

// compactEnv makes the test binary a process that compacts until it is killed.
const compactEnv = "SALLYPORT_AUDIT_COMPACT"

func compactUntilKilled(dir string) int {
	o := quiet()
	o.SegmentBytes, o.keepLoose = 32<<10, true
	l, err := Open(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for n := 0; ; n++ {
		seq, err := l.Append(context.Background(), Record{Kind: KindCall, Call: fmt.Sprint(n), Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %d %d\n", KindCall, seq, n)
		if n%20 == 0 {
			if _, err := l.Compact(context.Background()); err != nil {
				panic(err)
			}
		}
	}
}

func TestKilledCompactionLosesNothing(t *testing.T) {
	t.Parallel()
	kills := 12
	if long() {
		kills = 200
	}
	dir := t.TempDir()
	total := 0
	for n := range kills {
		acks := killChild(t, compactEnv, dir, time.Duration(rand.IntN(250))*time.Millisecond)
		total += len(acks)
		rep, err := verifyDir(dir) // as the crash left it
		require.NoError(t, err)
		require.Equal(t, VerifyNotAnchored, rep.Status, "kill %d: %v", n, rep.Problems)
		o := quiet()
		o.keepLoose = true
		l, err := Open(dir, o)
		require.NoError(t, err, "kill %d", n)
		for _, a := range acks {
			r, err := l.Get(a.seq)
			require.NoError(t, err)
			require.Equal(t, a.call, r.Call)
		}
		requireIntact(t, &l.Reader)
		require.NoError(t, l.Close())
		left, err := filepath.Glob(dir + "/*" + compactSuffix)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	t.Logf("%d kills over %d records and %d segments", kills, total, len(segmentsOf(t, dir)))
}

package audit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// agingLog has five full segments and clock that the test moves.
func agingLog(t *testing.T, dir string) (*Log, *clock) {
	t.Helper()
	now := &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	o := quiet()
	o.Now = now.now
	o.SegmentAge = 24 * time.Hour
	o.Retain = 90 * 24 * time.Hour
	l := openTest(t, dir, o)
	for day := range 5 {
		for n := range 10 {
			add(t, l, call(10*day+n))
		}
		now.set(now.now().Add(25 * time.Hour))
		add(t, l, call(1000+day))
		l.sealer.work.Wait()
	}
	return l, now
}

func TestRetire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, now := agingLog(t, dir)
	segs := segmentsOf(t, dir)
	n, err := l.Retire(context.Background())
	require.NoError(t, err)
	require.Zero(t, n, "nothing is old enough")

	now.set(segmentTime(t, l, segs[2].first).Add(90*24*time.Hour + time.Second))
	n, err = l.Retire(context.Background())
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.NoFileExists(t, segs[0].path)
	assert.NoFileExists(t, indexPath(segs[1].path))
	_, err = l.Get(0)
	require.ErrorIs(t, err, ErrNoRecord)

	rep, err := l.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	assert.Equal(t, VerifyIncomplete, rep.Status, rep.Problems)
	assert.Equal(t, segs[2].first, rep.First)
	require.Len(t, rep.Retired, 2)
	assert.Equal(t, segs[2].first, rep.Retired[1].End)
	_, err = l.Prove(segs[2].first)
	require.NoError(t, err, "proofs need no retired segment")

	require.NoError(t, l.Close())
	require.NoError(t, os.Remove(segs[2].path))
	rep, err = verifyDir(dir)
	require.NoError(t, err)
	assert.Equal(t, VerifyTampered, rep.Status, "a segment went without a tombstone")
}

func segmentTime(t *testing.T, l *Log, first Seq) time.Time {
	t.Helper()
	r, err := l.Get(first)
	require.NoError(t, err)
	return r.Time
}

func TestLegalHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, now := agingLog(t, dir)
	segs := segmentsOf(t, dir)
	require.Error(t, l.Hold(context.Background(), Hold{Name: "x"}), "a hold needs a person")
	require.NoError(t, l.Hold(context.Background(), Hold{Name: "case-7", Since: segmentTime(t, l, segs[1].first).Add(time.Second), Person: "ann"}))
	now.set(now.now().Add(365 * 24 * time.Hour))
	n, err := l.Retire(context.Background())
	require.NoError(t, err)
	assert.Equal(t, 1, n, "only what is before the hold")
	require.ErrorContains(t, l.Lift(context.Background(), "other", "ann"), "there is none")
	require.NoError(t, l.Lift(context.Background(), "case-7", "ann"))
	holds, err := l.Holds()
	require.NoError(t, err)
	assert.Empty(t, holds)
	l.sealer.work.Wait() // the lift began a segment, which may have retired the others
	_, err = l.Retire(context.Background())
	require.NoError(t, err)
	assert.NoFileExists(t, segs[1].path)
	assert.NoFileExists(t, segs[2].path)
	rep, err := l.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	assert.Equal(t, VerifyIncomplete, rep.Status, rep.Problems)
}

func TestBackupWhileRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.SegmentBytes = 8 << 10
	l := openTest(t, dir, o)
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				_, err := l.Append(context.Background(), call(n))
				assert.NoError(t, err)
			}
		}
	}()
	for len(segmentsOf(t, dir)) < 3 {
		time.Sleep(time.Millisecond)
	}
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, l.Backup(context.Background(), to, false))
	close(stop)
	<-done
	assert.NoFileExists(t, filepath.Join(to, signingKeyFile))
	r := reader(t, to)
	rep := requireIntact(t, r)
	assert.Greater(t, rep.Records, int64(20))
	_, err := r.Get(3)
	require.NoError(t, err)
	require.Error(t, l.Backup(context.Background(), to, false), "an existing directory is left alone")

	full := filepath.Join(t.TempDir(), "full")
	require.NoError(t, l.Backup(context.Background(), full, true))
	restored := openTest(t, full, quiet())
	add(t, restored, call(1))
	requireIntact(t, &restored.Reader)
}

// A search that is under way when segments are retired gives every record that is
// kept, each once.
func TestSearchGoesOnWhileSegmentsAreRetired(t *testing.T) {
	t.Parallel()
	for _, newest := range []bool{false, true} {
		dir := t.TempDir()
		l, now := agingLog(t, dir)
		segs := segmentsOf(t, dir)
		now.set(segmentTime(t, l, segs[2].first).Add(90*24*time.Hour + time.Second))
		_, end := l.Ends()
		seen := map[Seq]int{}
		require.NoError(t, l.Select(context.Background(), Filter{Kind: KindCall, Newest: newest}, func(r Record) bool {
			if len(seen) == 0 {
				n, err := l.Retire(context.Background())
				require.NoError(t, err)
				require.Equal(t, 2, n)
			}
			seen[r.Seq]++
			return true
		}))
		for seq := segs[2].first; seq < end; seq++ {
			r, err := l.Get(seq)
			require.NoError(t, err)
			if r.Kind == KindCall {
				require.Equal(t, 1, seen[seq], "record %d, newest first: %v", seq, newest)
			}
		}
	}
}

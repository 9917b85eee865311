package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIndexFindsWhatAScanFinds holds many filters against reading every record.
func TestIndexFindsWhatAScanFinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.SegmentBytes = 60 << 10
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o.Now = (&clock{at: start, step: time.Second}).now
	l := openTest(t, dir, o)
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, rand.IntN(n)) }
	for n := range 1500 {
		r := call(n)
		r.Session, r.Agent, r.Tool = pick("s", 20), pick("a", 3), pick("tool", 5)
		r.Tier, r.Verdict = pick("L", 4), pick("v", 3)
		r.Rules = []string{pick("r", 9), pick("q", 9)}
		r.Changes = []Change{{Path: pick("src/d", 4) + pick("/f", 50)}}
		add(t, l, r)
	}
	l.sealer.work.Wait()
	files, err := filepath.Glob(dir + "/*.idx")
	require.NoError(t, err)
	require.Len(t, files, len(segmentsOf(t, dir))-1, "one for each full segment")
	var all []Record
	require.NoError(t, l.Select(context.Background(), Filter{}, func(r Record) bool { all = append(all, r); return true }))

	raws := map[Seq][]byte{}
	for _, rec := range all {
		raws[rec.Seq], err = l.raw(rec.Seq)
		require.NoError(t, err)
	}

	compare := func(r *Reader) {
		for range 40 {
			f := Filter{Newest: rand.IntN(2) == 0, From: Seq(rand.IntN(300))}
			for _, set := range []func(){
				func() { f.Session = pick("s", 21) }, func() { f.Agent = pick("a", 3) }, func() { f.Rule = pick("r", 9) },
				func() { f.Path = pick("src/d", 4) }, func() { f.Path = pick("src/d", 4) + pick("/f", 50) }, func() { f.Tier = pick("L", 4) },
				func() { f.Since = start.Add(time.Duration(rand.IntN(1500)) * time.Second) },
				func() { f.Until = start.Add(time.Duration(rand.IntN(1500)) * time.Second) },
				func() { f.Text = pick("FILE", 1500) }, func() { f.Text = pick("file", 1500) },
			} {
				if rand.IntN(4) == 0 {
					set()
				}
			}
			var want, got []Seq
			text := newTextMatch(f.Text)
			for _, rec := range all {
				if f.matches(&rec) && text.in(raws[rec.Seq]) {
					want = append(want, rec.Seq)
				}
			}
			require.NoError(t, r.Select(context.Background(), f, func(rec Record) bool { got = append(got, rec.Seq); return true }))
			if f.Newest {
				for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
					got[i], got[j] = got[j], got[i]
				}
			}
			require.Equal(t, want, got, "%+v", f)
		}
	}
	compare(&l.Reader)
	require.NoError(t, l.Close())
	compare(reader(t, dir))

	// A damaged index file is not believed.
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	text[len(text)-3] ^= 4
	require.NoError(t, os.WriteFile(files[0], text, 0o600))
	require.NoError(t, os.Remove(files[1]))
	compare(reader(t, dir))
	_, err = l.parseIndex(text, 0, 1)
	assert.ErrorIs(t, err, errIndex)
}

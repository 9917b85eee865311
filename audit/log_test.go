package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quiet is the options of tests: no log lines, no limit on free space.
func quiet() Options {
	return Options{Logger: slog.New(slog.DiscardHandler), MinFree: -1, Ballast: -1}
}

// clock is the time of a test: it goes on by step each time it is asked.
type clock struct {
	mu   sync.Mutex
	at   time.Time
	step time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(c.step)
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func openTest(t *testing.T, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

func call(n int) Record {
	return Record{
		Kind: KindCall, Call: fmt.Sprintf("c%d", n), Session: "s1", Agent: "tester", Tool: "read_file",
		Args: json.RawMessage(fmt.Sprintf(`{"path":"src/file%d.go"}`, n)), Tier: "L0", Verdict: "allow", Status: StatusOK,
	}
}

func add(t *testing.T, l *Log, r Record) Seq {
	t.Helper()
	seq, err := l.Append(context.Background(), r)
	require.NoError(t, err)
	return seq
}

func requireIntact(t *testing.T, r *Reader) Report {
	t.Helper()
	rep, err := r.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	require.Empty(t, rep.Problems)
	require.Equal(t, VerifyNotAnchored, rep.Status)
	return rep
}

func reader(t *testing.T, dir string) *Reader {
	t.Helper()
	r, err := OpenReadOnly(dir, quiet())
	require.NoError(t, err)
	return r
}

func TestAppendAndReadBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	l := openTest(t, dir, quiet())
	intent := add(t, l, Record{Kind: KindIntent, Call: "c1", Session: "s1", Tool: "write_file", Rules: []string{"fs.write"}})
	outcome := add(t, l, Record{Kind: KindOutcome, Intent: &intent, Tier: "L2", Status: StatusOK})
	got, err := l.Get(outcome)
	require.NoError(t, err)
	assert.Equal(t, RecordVersion, got.Version)
	assert.Equal(t, outcome, got.Seq)
	assert.Equal(t, &intent, got.Intent)
	assert.Equal(t, []string{"c1", "s1", "write_file", "L2"}, []string{got.Call, got.Session, got.Tool, got.Tier}, "taken from the intent")
	assert.WithinDuration(t, time.Now(), got.Time, time.Minute)
	assert.Len(t, got.Boot, 16)

	first, err := l.Get(0)
	require.NoError(t, err)
	assert.Equal(t, "start", first.Event)
	_, err = l.Get(outcome + 1)
	assert.ErrorIs(t, err, ErrNoRecord)

	rep := requireIntact(t, &l.Reader)
	assert.EqualValues(t, 3, rep.Records)
	require.NoError(t, l.Close())
	assert.Equal(t, rep, requireIntact(t, reader(t, dir)))
	_, err = l.Append(context.Background(), call(1))
	assert.ErrorIs(t, err, ErrClosed)
}

func TestOneProcessHasTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openTest(t, dir, quiet())
	_, err := Open(dir, quiet())
	require.ErrorIs(t, err, ErrLocked)
	_, err = OpenReadOnly(dir, quiet())
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, l.Close())
	reader(t, dir)
	openTest(t, dir, quiet())
}

func TestOutcomeNeedsItsIntent(t *testing.T) {
	t.Parallel()
	l := openTest(t, t.TempDir(), quiet())
	ctx := context.Background()
	_, err := l.Append(ctx, Record{Kind: KindOutcome})
	require.ErrorContains(t, err, "must name its intent")
	start := Seq(0)
	_, err = l.Append(ctx, Record{Kind: KindOutcome, Intent: &start})
	require.ErrorContains(t, err, "not open")
	intent := add(t, l, Record{Kind: KindIntent})
	add(t, l, Record{Kind: KindOutcome, Intent: &intent})
	_, err = l.Append(ctx, Record{Kind: KindOutcome, Intent: &intent})
	require.ErrorContains(t, err, "not open")
	_, err = l.Append(ctx, Record{Kind: "note"})
	require.ErrorContains(t, err, `kind "note" is unknown`)
	_, err = l.Append(ctx, Record{Kind: KindEvent, Event: eventEpoch})
	require.ErrorContains(t, err, "the log's own")
}

func TestRecoveryClosesOpenIntents(t *testing.T) {
	t.Parallel()
	dir, ws := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(ws, "a.txt"), []byte("hello"), 0o600))
	l := openTest(t, dir, quiet())
	intent := add(t, l, Record{
		Kind: KindIntent, Call: "c9", Session: "s1", Workspace: ws,
		Action: json.RawMessage(`{"files":[{"op":"edit","path":"a.txt"},{"op":"write","path":"b.txt"},{"op":"read","path":"../up"}]}`),
	})
	require.NoError(t, l.Close())

	l = openTest(t, dir, quiet())
	got, err := l.Get(intent + 1)
	require.NoError(t, err)
	assert.Equal(t, StatusInterrupted, got.Status)
	assert.Equal(t, "c9", got.Call)
	assert.JSONEq(t, `{"files":[
		{"path":"a.txt","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","state":"present"},
		{"path":"b.txt","state":"absent"},
		{"path":"../up","state":"outside the workspace: not looked at"}]}`, string(got.Detail))
	start, err := l.Get(intent + 2)
	require.NoError(t, err)
	assert.Equal(t, "start", start.Event)
	requireIntact(t, &l.Reader)
}

func TestConcurrentAppendsAcrossSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.SegmentBytes = 20 << 10
	l := openTest(t, dir, o)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	seen := make([][]Seq, writers)
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				intent, err := l.Append(context.Background(), Record{Kind: KindIntent, Call: fmt.Sprintf("%d-%d", w, n)})
				if !assert.NoError(t, err) {
					return
				}
				seq, err := l.Append(context.Background(), Record{Kind: KindOutcome, Intent: &intent, Status: StatusOK})
				assert.NoError(t, err)
				seen[w] = append(seen[w], intent, seq)
			}
		})
	}
	wg.Wait()
	all := map[Seq]bool{}
	for _, s := range seen {
		for _, seq := range s {
			assert.False(t, all[seq], "number %d given twice", seq)
			all[seq] = true
		}
	}
	rep := requireIntact(t, &l.Reader)
	assert.GreaterOrEqual(t, rep.Records, int64(writers*each*2+1))
	segs, err := listSegments(dir)
	require.NoError(t, err)
	assert.Greater(t, len(segs), 3)
	require.NoError(t, l.Close())
	requireIntact(t, reader(t, dir))
	l = openTest(t, dir, o)
	add(t, l, call(1))
	requireIntact(t, &l.Reader)
}

func TestSelect(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.SegmentBytes = 500 << 10
	l := openTest(t, t.TempDir(), o)
	for n := range 600 {
		r := call(n)
		r.Session = fmt.Sprintf("s%d", n%3)
		if n%10 == 0 {
			r.Rules = []string{"fs.read", "git.status"}
			r.Changes = []Change{{Path: fmt.Sprintf("src/deep/x%d.go", n), Kind: "modified"}}
		}
		add(t, l, r)
	}
	count := func(f Filter) (n int, first Seq) {
		require.NoError(t, l.Select(context.Background(), f, func(r Record) bool {
			if n++; n == 1 {
				first = r.Seq
			}
			return true
		}))
		return n, first
	}
	for _, c := range []struct {
		name  string
		f     Filter
		n     int
		first Seq
	}{
		{"all", Filter{}, 601, 0},
		{"newest", Filter{Newest: true, Limit: 300}, 300, 600},
		{"session", Filter{Session: "s1"}, 200, 2},
		{"rule", Filter{Rule: "git.status"}, 60, 1},
		{"path below", Filter{Path: "src/deep"}, 60, 1},
		{"path exact", Filter{Path: "src/deep/x590.go"}, 1, 591},
		{"path is no prefix of a name", Filter{Path: "src/dee"}, 0, 0},
		{"text folds", Filter{Text: "FILE599"}, 0, 0},
		{"text", Filter{Text: `"path":"src/file599.go"`}, 0, 0}, // quotes are escaped inside of a string
		{"text plain", Filter{Text: "src/file599.go"}, 1, 600},
		{"event", Filter{Kind: KindEvent, Event: "start"}, 1, 0},
		{"from", Filter{From: 590}, 11, 590},
		{"session newest", Filter{Session: "s1", Newest: true, Limit: 5}, 5, 599},
		{"nothing", Filter{Agent: "nobody"}, 0, 0},
		{"future", Filter{Since: time.Now().Add(time.Hour)}, 0, 0},
	} {
		n, first := count(c.f)
		assert.Equal(t, c.n, n, c.name)
		assert.Equal(t, c.first, first, c.name)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	l := openTest(t, t.TempDir(), quiet())
	got := make(chan Seq, 16)
	done := make(chan error, 1)
	go func() {
		done <- l.Tail(context.Background(), 1, func(r Record) bool {
			got <- r.Seq
			return r.Seq < 5
		})
	}()
	for n := range 5 {
		add(t, l, call(n))
	}
	require.NoError(t, <-done)
	for want := Seq(1); want <= 5; want++ {
		assert.Equal(t, want, <-got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- l.Tail(ctx, 100, func(Record) bool { return true }) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	go func() { done <- l.Tail(context.Background(), 100, func(Record) bool { return true }) }()
	require.NoError(t, l.Close())
	require.NoError(t, <-done)
}

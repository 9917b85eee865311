package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// report adds a row to the file that BENCH_JSON names.
func report(b *testing.B, name, unit string, ours, peer float64, peerName string) {
	b.Helper()
	b.ReportMetric(ours, unit)
	row := map[string]any{"name": "audit/" + name, "unit": unit, "ours": ours}
	if peerName != "" {
		row["peer"], row["peer_name"], row["ratio"] = peer, peerName, ours/peer
		b.Logf("%s: %.4g %s, %s %.4g, ratio %.2f", name, ours, unit, peerName, peer, ours/peer)
	} else {
		b.Logf("%s: %.4g %s", name, ours, unit)
	}
	path := os.Getenv("BENCH_JSON")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(b, err)
	defer f.Close()
	require.NoError(b, json.NewEncoder(f).Encode(row))
}

// load is what callers measured together.
type load struct{ rate, p50, p99 float64 } // a second; milliseconds

// drive lets callers repeat op for d.
func drive(callers int, d time.Duration, op func(caller, n int)) load {
	var wg sync.WaitGroup
	took := make([][]time.Duration, callers)
	start := time.Now()
	for c := range callers {
		wg.Go(func() {
			for n := 0; time.Since(start) < d; n++ {
				at := time.Now()
				op(c, n)
				took[c] = append(took[c], time.Since(at))
			}
		})
	}
	wg.Wait()
	total := time.Since(start)
	all := slices.Concat(took...)
	slices.Sort(all)
	ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	return load{float64(len(all)) / total.Seconds(), ms(0.5), ms(0.99)}
}

// benchRecord is as long as an ordinary call, about 600 stored bytes.
func benchRecord(n int) Record {
	return Record{
		Kind: KindCall, Call: fmt.Sprintf("call-%08d", n), Session: fmt.Sprintf("session-%d", n%500), Agent: fmt.Sprintf("agent-%d", n%7),
		User: "dev", Client: "bench/1.0", Workspace: "/home/dev/project", Branch: "main", Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		Tool: []string{"read_file", "grep", "run_command"}[n%3], Tier: []string{"L0", "L1", "L2"}[n%3], Verdict: "allow", Status: StatusOK,
		Args:   json.RawMessage(fmt.Sprintf(`{"path":"src/pkg%d/file%d.go","limit":200}`, n%100, n)),
		Action: json.RawMessage(fmt.Sprintf(`{"workspace":"/home/dev/project","files":[{"op":"read","path":"src/pkg%d/file%d.go","read":{"limit":200}}]}`, n%100, n)),
		Rules:  []string{"fs.read"}, Revision: "e3b0c44298fc1c149afbf4c8996fb924", Took: 3 * time.Millisecond,
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			for range b.N {
				benchAppend(b, callers, 1500*time.Millisecond)
			}
		})
	}
}

func benchAppend(b *testing.B, callers int, d time.Duration) {
	l, err := Open(b.TempDir(), quiet())
	require.NoError(b, err)
	ours := drive(callers, d, func(c, n int) {
		if _, err := l.Append(context.Background(), benchRecord(n)); err != nil {
			b.Error(err)
		}
	})
	raw, err := l.raw(1)
	require.NoError(b, err)
	require.NoError(b, l.Close())

	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	require.NoError(b, err)
	defer f.Close()
	var mu sync.Mutex
	bare := drive(callers, d, func(int, int) {
		mu.Lock()
		defer mu.Unlock()
		_, err := f.Write(raw)
		if err == nil {
			err = syscall.Fdatasync(int(f.Fd()))
		}
		if err != nil {
			b.Error(err)
		}
	})
	plain := driveBbolt(b, callers, d, raw)
	ceiling := driveCeiling(b, callers, d, raw)
	name := func(what string) string { return fmt.Sprintf("append %s, %d callers", what, callers) }
	report(b, name("rate"), "rec/s", ours.rate, plain.rate, "bbolt Update")
	report(b, name("rate vs sync"), "rec/s", ours.rate, bare.rate, "append+fdatasync")
	report(b, name("rate vs ceiling"), "rec/s", ours.rate, ceiling, "bbolt, same batch in one Update")
	report(b, name("p50"), "ms", ours.p50, bare.p50, "append+fdatasync")
	report(b, name("p99"), "ms", ours.p99, ours.p50, "own p50")
}

// BenchmarkCall is one call at a time: intent and outcome, beside two appends
// with fdatasync.
func BenchmarkCall(b *testing.B) {
	for range b.N {
		l, err := Open(b.TempDir(), quiet())
		require.NoError(b, err)
		ours := drive(1, 1500*time.Millisecond, func(_, n int) {
			r := benchRecord(n)
			r.Kind, r.Status = KindIntent, ""
			intent, err := l.Append(context.Background(), r)
			if err == nil {
				_, err = l.Append(context.Background(), Record{Kind: KindOutcome, Intent: &intent, Status: StatusOK, Took: time.Millisecond})
			}
			if err != nil {
				b.Error(err)
			}
		})
		require.NoError(b, l.Close())
		f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
		require.NoError(b, err)
		line := make([]byte, 800)
		bare := drive(1, 1500*time.Millisecond, func(int, int) {
			for range 2 {
				_, err := f.Write(line)
				if err == nil {
					err = syscall.Fdatasync(int(f.Fd()))
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
		require.NoError(b, f.Close())
		report(b, "call, intent and outcome, p50", "ms", ours.p50, bare.p50, "2 × append+fdatasync")
	}
}

// driveBbolt stores each record in an Update of its own.
func driveBbolt(b *testing.B, callers int, d time.Duration, raw []byte) load {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "plain.db"), 0o600, nil)
	require.NoError(b, err)
	defer db.Close()
	return drive(callers, d, func(int, int) {
		err := db.Update(func(tx *bbolt.Tx) error { return putNext(tx, raw) })
		if err != nil {
			b.Error(err)
		}
	})
}

// driveCeiling stores as many records in one Update as there are callers: no
// group commit over bbolt can do more.
func driveCeiling(b *testing.B, callers int, d time.Duration, raw []byte) float64 {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "ceiling.db"), 0o600, nil)
	require.NoError(b, err)
	defer db.Close()
	got := drive(1, d, func(int, int) {
		err := db.Update(func(tx *bbolt.Tx) error {
			for range callers {
				if err := putNext(tx, raw); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Error(err)
		}
	})
	return got.rate * float64(callers)
}

func putNext(tx *bbolt.Tx, raw []byte) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte("r"))
	if err != nil {
		return err
	}
	n, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	return bucket.Put(key(n), raw)
}

// millionLog makes a log of n records, in the directory that
// SALLYPORT_BENCH_LOG names if it is set, so that it can be used again.
func millionLog(b *testing.B, n int) *Log {
	dir := os.Getenv("SALLYPORT_BENCH_LOG")
	if dir == "" {
		dir = b.TempDir()
	}
	l, err := Open(dir, quiet())
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	_, size := l.segments()
	var next atomic.Int64
	next.Store(int64(size))
	var writers sync.WaitGroup
	for range 256 {
		writers.Go(func() {
			for at := next.Add(1) - 1; at < int64(n); at = next.Add(1) - 1 {
				if _, err := l.Append(context.Background(), benchRecord(int(at))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	l.sealer.work.Wait()
	return l
}

func BenchmarkSearch(b *testing.B) {
	l := millionLog(b, 1_000_000)
	count := func(f Filter) (n int) {
		require.NoError(b, l.Select(context.Background(), f, func(Record) bool { n++; return true }))
		return n
	}
	count(Filter{Session: "session-1"}) // the newest segment's index is made once
	for _, c := range []struct {
		name string
		f    Filter
	}{
		{"session, all 2,000", Filter{Session: "session-77"}},
		{"agent and tool, newest 100", Filter{Agent: "agent-3", Tool: "grep", Newest: true, Limit: 100}},
		{"file", Filter{Path: "src/pkg50/file500050.go"}},
		{"directory, newest 100", Filter{Path: "src/pkg50", Newest: true, Limit: 100}},
		{"full text, one hit", Filter{Text: "file777777.go"}},
		{"full text, no hit", Filter{Text: "nowhere to be found"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			start, n := time.Now(), 0
			for range b.N {
				n = count(c.f)
			}
			ms := float64(time.Since(start).Microseconds()) / 1000 / float64(b.N)
			report(b, fmt.Sprintf("search 1M, %s (%d found)", c.name, n), "ms", ms, 0, "")
		})
	}
	b.Run("verify", func(b *testing.B) {
		start := time.Now()
		var rep Report
		for range b.N {
			var err error
			rep, err = l.Verify(context.Background(), VerifyOptions{})
			require.NoError(b, err)
			require.Empty(b, rep.Problems)
		}
		report(b, "verify 1M", "rec/s", float64(rep.Records)*float64(b.N)/time.Since(start).Seconds(), 0, "")
	})
}

package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childEnv makes the test binary a writer that is meant to be killed.
const childEnv = "SALLYPORT_AUDIT_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(compactEnv); dir != "" {
		os.Exit(compactUntilKilled(dir))
	}
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(writeUntilKilled(dir))
	}
	os.Exit(m.Run())
}

// long reports whether the long forms of tests were asked for.
func long() bool { return os.Getenv("SALLYPORT_TEST_LONG") == "1" }

// writeUntilKilled appends intents and outcomes from eight goroutines and says
// on stdout what was acknowledged, one line each.
func writeUntilKilled(dir string) int {
	o := quiet()
	o.SegmentBytes = 200 << 10
	l, err := Open(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	say := func(kind Kind, seq Seq, call string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s %d %s\n", kind, seq, call)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				call := fmt.Sprintf("%s-%d-%d", l.boot, w, n)
				intent, err := l.Append(context.Background(), Record{Kind: KindIntent, Call: call})
				if err != nil {
					panic(err)
				}
				say(KindIntent, intent, call)
				seq, err := l.Append(context.Background(), Record{Kind: KindOutcome, Call: call, Intent: &intent, Status: StatusOK})
				if err != nil {
					panic(err)
				}
				say(KindOutcome, seq, call)
			}
		})
	}
	wg.Wait()
	return 0
}

// acked is one acknowledgement of a child.
type acked struct {
	kind Kind
	seq  Seq
	call string
}

// runAndKill runs a child on dir, kills it d after its first acknowledgement and
// returns what it had acknowledged.
func runAndKill(t *testing.T, dir string, d time.Duration) []acked {
	t.Helper()
	return killChild(t, childEnv, dir, d)
}

// killChild runs this test binary as the child that env makes of it.
func killChild(t *testing.T, env, dir string, d time.Duration) []acked {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var acks []acked
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acked
		if n, _ := fmt.Sscanf(lines.Text(), "%s %d %s", &a.kind, &a.seq, &a.call); n == 3 {
			acks = append(acks, a)
		}
		if len(acks) == 1 {
			timer.Reset(d)
		}
	}
	require.ErrorContains(t, cmd.Wait(), "killed")
	return acks
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	kills := 10
	if long() {
		kills = 200
	}
	dir := t.TempDir()
	total := 0
	for n := range kills {
		acks := runAndKill(t, dir, time.Duration(rand.IntN(60))*time.Millisecond)
		total += len(acks)
		l, err := Open(dir, quiet())
		require.NoError(t, err, "kill %d", n)
		for _, a := range acks {
			r, err := l.Get(a.seq)
			require.NoError(t, err, "acknowledged record %d is lost", a.seq)
			require.Equal(t, a.kind, r.Kind)
			require.Equal(t, a.call, r.Call)
		}
		requireClosed(t, l)
		requireIntact(t, &l.Reader)
		require.NoError(t, l.Close())
	}
	assert.Greater(t, total, kills, "the children did not get to write")
	t.Logf("%d kills, %d acknowledged records, none lost", kills, total)
}

// requireClosed checks that every intent has exactly one outcome.
func requireClosed(t *testing.T, l *Log) {
	t.Helper()
	open := map[Seq]string{}
	require.NoError(t, l.Select(context.Background(), Filter{}, func(r Record) bool {
		switch r.Kind {
		case KindIntent:
			open[r.Seq] = r.Call
		case KindOutcome:
			call, ok := open[*r.Intent]
			require.True(t, ok, "outcome %d closes no open intent", r.Seq)
			require.Equal(t, call, r.Call)
			delete(open, *r.Intent)
		}
		return true
	}))
	require.Empty(t, open, "intents without outcome")
}

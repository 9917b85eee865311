//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/cmd/bench"
)

// contender starts `true` once and returns when it has ended.
type contender struct {
	name    string
	run     func() error
	prepare func() // not timed
}

// BenchmarkSpawn measures what a command costs over the program itself: plain
// os/exec, bwrap, and our cells: warm, cold (the first command of a workspace,
// which finds a blank) and cloned for the command, every isolation on in all, interleaved so that whatever
// else the machine does meets all alike. Medians in milliseconds.
func BenchmarkSpawn(b *testing.B) {
	rounds := max(b.N, 40)
	for _, heap := range []int{16 << 20, 1 << 30} {
		for _, parallel := range []int{1, 16} {
			b.Run(fmt.Sprintf("heap=%dMiB/at-once=%d", heap>>20, parallel), func(b *testing.B) {
				ballast := make([]byte, heap)
				for i := 0; i < len(ballast); i += 4096 {
					ballast[i] = 1
				}
				medians := race(b, contenders(b, parallel), rounds/parallel+4, parallel)
				runtime.KeepAlive(ballast)
				for name, ms := range medians {
					b.ReportMetric(ms, name+"-ms")
				}
				note(b, fmt.Sprintf("spawn, heap %d MiB, %d at once", heap>>20, parallel), medians)
			})
		}
	}
}

func contenders(b *testing.B, parallel int) []contender {
	ws := newWorkspace(b)
	action := Action{Workspace: ws, Exec: &Exec{Argv: []string{"/bin/true"}}}
	ours := func(warm int) (*Runner, func() error) {
		r, err := NewRunner(Options{State: b.TempDir(), CellBinary: cellBinary, Warm: warm})
		require.NoError(b, err)
		b.Cleanup(func() { r.Close() })
		_, err = r.Run(context.Background(), action, Terms{}) // finds the rung, compiles filters
		require.NoError(b, err)
		return r, func() error {
			_, err := r.Run(context.Background(), action, Terms{})
			return err
		}
	}
	cloned, clone := ours(-1)
	cloned.blanks.keep = 0
	blank, cold := ours(-1)
	blank.blanks.keep = maxBlank
	require.NoError(b, cold())
	warmed, warm := ours(parallel)
	list := []contender{
		{name: "plain", run: func() error { return exec.Command("/bin/true").Run() }},
		{name: "clone", run: clone},
		{name: "cold", run: cold, prepare: func() { blankCells(b, blank) }},
		{name: "warm", run: warm, prepare: func() { waitWarm(warmed, parallel) }},
	}
	for _, argv := range benchPeers {
		if _, err := exec.LookPath(argv[0]); err == nil {
			list = append(list, contender{name: argv[0], run: func() error { return exec.Command(argv[0], argv[1:]...).Run() }})
		}
	}
	return list
}

// benchPeers are other sandboxes, as far as they are installed.
var benchPeers = [][]string{
	{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/true"},
	{"firejail", "--quiet", "--profile=default", "--net=none", "--private-tmp", "/bin/true"},
	{"nsjail", "-Mo", "--really_quiet", "--chroot", "/", "--tmpfsmount", "/tmp", "--", "/bin/true"},
}

// waitWarm waits until the pool is full, so that a warm start is one.
func waitWarm(r *Runner, n int) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.pool.mu.Lock()
		idle := 0
		for _, s := range r.pool.slots {
			idle += len(s.idle)
		}
		r.pool.mu.Unlock()
		if idle >= min(n, maxWarm) {
			return
		}
	}
}

// race gives each contender's median time of one command, in milliseconds: of
// a batch of parallel ones the batch's time divided by their number.
func race(b *testing.B, list []contender, rounds, parallel int) map[string]float64 {
	times := map[string][]float64{}
	for i := range rounds {
		for j := range list {
			c := list[(i+j)%len(list)]
			if c.prepare != nil {
				c.prepare()
			}
			errs := make([]error, parallel)
			var wg sync.WaitGroup
			start := time.Now()
			for k := range parallel {
				wg.Go(func() { errs[k] = c.run() })
			}
			wg.Wait()
			took := time.Since(start)
			for _, err := range errs {
				require.NoError(b, err, c.name)
			}
			times[c.name] = append(times[c.name], float64(took.Microseconds())/1000/float64(parallel))
		}
	}
	medians := map[string]float64{}
	for name, t := range times {
		slices.Sort(t)
		medians[name] = t[len(t)/2]
	}
	return medians
}

// note adds the comparisons to the rows of make bench.
func note(b *testing.B, what string, m map[string]float64) {
	b.Helper()
	for _, pair := range [][2]string{{"warm", "plain"}, {"warm", "bwrap"}, {"cold", "bwrap"}, {"clone", "bwrap"}, {"warm", "firejail"}, {"warm", "nsjail"}} {
		if peer, ok := m[pair[1]]; ok {
			bench.Row(b, pair[0]+" "+what, "ms", m[pair[0]], peer, pair[1])
		}
	}
}

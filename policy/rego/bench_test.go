package rego_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy/rego"
	"sallyport/sandbox"
)

// BenchmarkAdmit is inspect + decide + floors, as one call pays for it.
func BenchmarkAdmit(b *testing.B) {
	g, _ := gate(b)
	script := strings.Repeat("if [ -f go.mod ]; then\n  go test ./... | tail -5\nfi\necho done > /tmp/x\ncp a.txt b.txt\n", 10)
	for name, text := range map[string]string{
		"ls": "ls -la", "commit": "git commit -m 'fix: x'", "test": "go test ./... 2>&1 | tail -20", "script of 50 lines": script,
	} {
		b.Run(name, func(b *testing.B) {
			c := shellCall()
			c.Action = sandbox.Action{Workspace: c.Workspace.Root, Exec: &sandbox.Exec{Shell: text}}
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				g.Admit(context.Background(), c)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			// On a busy machine the fastest one says more of the work than p50.
			b.ReportMetric(float64(took[0].Nanoseconds()), "min-ns")
			b.ReportMetric(float64(took[len(took)/10].Nanoseconds()), "p10-ns")
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
		})
	}
}

// BenchmarkGeneration tells what one more loaded policy costs in memory.
func BenchmarkGeneration(b *testing.B) {
	measure := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var kept []*rego.Engine
	before := measure()
	for b.Loop() {
		e, err := rego.Load(context.Background(), rego.Options{})
		require.NoError(b, err)
		kept = append(kept, e)
	}
	b.ReportMetric(float64(measure()-before)/float64(len(kept)), "B/generation")
	runtime.KeepAlive(kept)
}

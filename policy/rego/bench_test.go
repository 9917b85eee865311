package rego_test

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"sallyport/cmd/bench"
	"sallyport/policies"
	"sallyport/policy"
	"sallyport/policy/rego"
	"sallyport/sandbox"
)

// script50 is a build script of fifty different lines.
var script50 = func() string {
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "if [ -f go.mod ]; then\n  go test ./pkg%[1]d/... | tail -5\nfi\necho done > /tmp/x%[1]d\ncp a%[1]d.txt b.txt\n", i)
	}
	return b.String()
}()

// BenchmarkAdmit is inspect + decide + floors, as one call pays for it, beside
// what the two libraries alone take: parsing the text, and evaluating one rule.
func BenchmarkAdmit(b *testing.B) {
	g, _ := gate(b)
	many, _ := gate(b, rego.Layer{Name: "user", FS: userRules(200)})
	bare := bareRule(b)
	for _, c := range []struct{ name, text string }{
		{"ls", "ls -la"}, {"commit", "git commit -m 'fix: x'"}, {"test", "go test ./... 2>&1 | tail -20"}, {"script of 50 lines", script50},
	} {
		b.Run(c.name, func(b *testing.B) {
			call := shellCall()
			call.Action = sandbox.Action{Workspace: call.Workspace.Root, Exec: &sandbox.Exec{Shell: c.text}}
			admit := func(g *policy.Gate) func() { return func() { g.Admit(context.Background(), call) } }
			libraries := func() {
				_, err := syntax.NewParser().Parse(strings.NewReader(c.text), "")
				require.NoError(b, err)
				bare()
			}
			for range b.N {
				m := bench.Medians(3000, admit(g), admit(many), libraries)
				bench.Row(b, "policy/admit/"+c.name, "us", micro(m[0]), micro(m[2]), "parser and one rule")
				bench.Row(b, "policy/admit/"+c.name+" with 200 user rules", "us", micro(m[1]), micro(m[0]), "without them")
			}
		})
	}
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// userRules is a layer of n rules of which none fires.
func userRules(n int) fs.FS {
	text := "package sallyport.user\n"
	for i := range n {
		text += fmt.Sprintf("\n# METADATA\n# title: Rule %[1]d\n# custom:\n#   id: user.r%[1]d\n#   tier: L2\n#   reason: because\n#   remedy: another way\nhit contains rego.metadata.rule().custom if {\n\tinput.cmd.program == \"program%[1]d\"\n\tinput.cmd.sub == \"x\"\n}\n", i)
	}
	return fstest.MapFS{"x.rego": {Data: []byte(text)}}
}

func bareRule(b *testing.B) func() {
	ctx := context.Background()
	query, err := oparego.New(oparego.Query("data.x.hit"), oparego.Module("x.rego", "package x\nhit contains 1 if input.program == \"ls\"")).PrepareForEval(ctx)
	require.NoError(b, err)
	input := ast.NewObject([2]*ast.Term{ast.StringTerm("program"), ast.StringTerm("ls")})
	return func() {
		_, err := query.Eval(ctx, oparego.EvalParsedInput(input))
		require.NoError(b, err)
	}
}

// BenchmarkLoad is compile, check, test and prepare of the built-in policy
// beside the compiler alone, and what one more generation costs in memory.
func BenchmarkLoad(b *testing.B) {
	var kept []*rego.Engine
	load := func() {
		e, err := rego.Load(context.Background(), rego.Options{})
		require.NoError(b, err)
		kept = append(kept, e)
	}
	names, err := fs.Glob(policies.FS, "*.rego")
	require.NoError(b, err)
	compiler := func() {
		modules := map[string]string{}
		for _, n := range names {
			text, err := fs.ReadFile(policies.FS, n)
			require.NoError(b, err)
			modules[n] = string(text)
		}
		_, err := ast.CompileModules(modules)
		require.NoError(b, err)
	}
	for range b.N {
		m := bench.Medians(10, load, compiler)
		bench.Row(b, "policy/load", "ms", micro(m[0])/1000, micro(m[1])/1000, "the compiler alone")
		kept = nil
		before := heap()
		for range 5 {
			load()
		}
		bench.Row(b, "policy/generation", "MiB", float64(heap()-before)/5/(1<<20), 0, "")
		runtime.KeepAlive(kept)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

package rego

import (
	"context"
	"fmt"
	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"reflect"
	"sallyport/policy"
	"sallyport/policy/inspect"
	"sallyport/sandbox"
	"testing"
	"time"
)

func minOf(name string, f func()) {
	best := time.Hour
	for range 4000 {
		s := time.Now()
		f()
		if d := time.Since(s); d < best {
			best = d
		}
	}
	fmt.Println(name, best)
}
func TestZZ(t *testing.T) {
	e := load(t)
	g := e.current.Load()
	for _, text := range []string{"ls -la", "git commit -m 'fix: x'", "go test ./... 2>&1 | tail -20"} {
		c := call("run_command")
		c.Workspace.Root = "/home/dev/project"
		c.Action = sandbox.Action{Workspace: "/home/dev/project", Exec: &sandbox.Exec{Shell: text}}
		ins := inspect.New(inspect.Options{Data: e.Data})
		f, _ := ins.Inspect(context.Background(), c)
		fmt.Println("==", text, len(f.Cmds))
		minOf("inspect", func() { ins.Inspect(context.Background(), c) })
		minOf("decide", func() { e.Decide(context.Background(), c, f) })
		in := newInput(c, f, g.data)
		minOf("encodeCall", func() { e.encode.items(reflect.ValueOf(in), nil) })
		base := e.encode.items(reflect.ValueOf(in), nil)
		minOf("newobject", func() { ast.NewObject(base...) })
		obj := ast.NewObject(base...)
		minOf("evalCall", func() {
			func() { q := g.queries["call"]; q.Eval(context.Background(), oparego.EvalParsedInput(obj)) }()
		})
		for _, cmd := range f.Cmds {
			minOf("newCommand", func() { newCommand(cmd, g.data) })
			minOf("encodeCmd", func() { e.encode.term(reflect.ValueOf(*newCommand(cmd, g.data))) })
			p := in
			p.Unit = unitCmd
			p.Has = nil
			p.Cmd = newCommand(cmd, g.data)
			obj2 := e.encode.term(reflect.ValueOf(p)).Value
			minOf("evalCmd", func() {
				func() { q := g.queries["cmd"]; q.Eval(context.Background(), oparego.EvalParsedInput(obj2)) }()
			})
		}
		hits, _ := g.evaluate(context.Background(), "call", base, "", nil)
		minOf("join", func() { g.join(in, f, hits) })
	}
	pq, _ := oparego.New(oparego.Query("h = data.p.hit"), oparego.Module("a", "package p\nhit contains {\"id\":\"q\"} if { input.cmd.program == \"git\" }\n"), oparego.StrictBuiltinErrors(true)).PrepareForEval(context.Background())
	obj, _ := ast.InterfaceToValue(map[string]any{"cmd": map[string]any{"program": "git"}})
	minOf("floor", func() { pq.Eval(context.Background(), oparego.EvalParsedInput(obj)) })
	_ = policy.L0
}

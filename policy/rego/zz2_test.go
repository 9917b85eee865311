package rego

import (
	"context"
	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"reflect"
	"sallyport/policy"
	"testing"
)

func BenchmarkCallOnly(b *testing.B) {
	e := load(b)
	g := e.current.Load()
	c := call("run_command")
	in := newInput(c, policy.Facts{}, g.data)
	obj := ast.NewObject(e.encode.items(reflect.ValueOf(in), nil)...)
	for b.Loop() {
		func() { q := g.queries["call"]; q.Eval(context.Background(), oparego.EvalParsedInput(obj)) }()
	}
}

package rego

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// encoder turns Go values straight into the evaluator's terms, by the rules of
// encoding/json with one difference: a nil slice is [] and a nil map is {}, so
// that rules need not tell null from empty. It is built once for a type and is
// read-only afterwards. Going through JSON text costs ten times as much.
type encoder struct {
	structs map[reflect.Type][]field
	// Most of a command's facts are empty: one shared term for each kind of
	// nothing saves half of the allocations. Terms are immutable.
	zero                  map[reflect.Type]*ast.Term // of structs
	noText, noList, noMap *ast.Term
}

type field struct {
	index int
	key   *ast.Term
	empty bool // omitempty
	embed bool
}

func newEncoder(of any) *encoder {
	e := &encoder{
		structs: map[reflect.Type][]field{}, zero: map[reflect.Type]*ast.Term{},
		noText: ast.StringTerm(""), noList: ast.ArrayTerm(), noMap: ast.ObjectTerm(),
	}
	e.learn(reflect.TypeOf(of))
	for t := range e.structs {
		zero := ast.ObjectTerm(e.items(reflect.Zero(t), nil)...)
		zero.Value.Hash()
		e.zero[t] = zero
	}
	return e
}

var textType = reflect.TypeFor[encoding.TextMarshaler]()

func (e *encoder) learn(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		e.learn(t.Elem())
	case reflect.Struct:
		if e.structs[t] != nil || t.Implements(textType) {
			return
		}
		fields := make([]field, 0, t.NumField())
		for i := range t.NumField() {
			sf := t.Field(i)
			name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
			fields = append(fields, field{
				index: i, key: ast.StringTerm(name),
				empty: strings.Contains(options, "omitempty"),
				embed: sf.Anonymous && name == "",
			})
		}
		e.structs[t] = fields
		for i := range t.NumField() {
			e.learn(t.Field(i).Type)
		}
	}
}

// items lists the members of a struct.
func (e *encoder) items(v reflect.Value, out [][2]*ast.Term) [][2]*ast.Term {
	for _, f := range e.structs[v.Type()] {
		fv := v.Field(f.index)
		switch {
		case f.embed:
			out = e.items(fv, out)
		case fv.Kind() == reflect.Pointer && fv.IsNil(), f.empty && fv.IsZero():
		default:
			out = append(out, [2]*ast.Term{f.key, e.term(fv)})
		}
	}
	return out
}

func (e *encoder) term(v reflect.Value) *ast.Term {
	if v.Kind() != reflect.Pointer && v.Type().Implements(textType) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return ast.NullTerm()
		}
		return ast.StringTerm(string(text))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return e.term(v.Elem())
	case reflect.String:
		if v.Len() == 0 {
			return e.noText
		}
		return ast.StringTerm(v.String())
	case reflect.Bool:
		return ast.InternedTerm(v.Bool())
	case reflect.Int, reflect.Int64:
		return ast.InternedTerm(int(v.Int()))
	case reflect.Slice:
		if v.Len() == 0 {
			return e.noList
		}
		terms := make([]*ast.Term, v.Len())
		for i := range terms {
			terms[i] = e.term(v.Index(i))
		}
		return ast.ArrayTerm(terms...)
	case reflect.Map:
		if v.Len() == 0 {
			return e.noMap
		}
		items := make([][2]*ast.Term, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			items = append(items, [2]*ast.Term{ast.StringTerm(it.Key().String()), e.term(it.Value())})
		}
		return ast.ObjectTerm(items...)
	case reflect.Struct:
		if zero, ok := e.zero[v.Type()]; ok && v.IsZero() {
			return zero
		}
		return ast.ObjectTerm(e.items(v, make([][2]*ast.Term, 0, len(e.structs[v.Type()])+8))...)
	}
	panic(fmt.Sprintf("the policy input holds a %s, which the encoder does not know", v.Type()))
}

// Package rego decides by Rego rules. It loads layers of rules and lists,
// checks and tests them, evaluates them over the facts of a call, and takes
// edits while it runs. It is the only package that links the policy engine.
package rego

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"sallyport/policies"
	"sallyport/policy"
)

// Options say what to load.
type Options struct {
	// Layers above the built-in one, strongest first. Each can only tighten what
	// the ones before it say, but for the lists the machine's owner may widen.
	Layers []Layer
	// SkipTests leaves out the tests of the layers (not the invariants). The
	// built-in tests ran when the program was built.
	SkipTests bool

	builtinTests bool // parse the tests of the built-in rules too
}

// Engine judges calls. Its methods may be called concurrently.
type Engine struct {
	options Options
	reader  reader
	encode  *encoder
	base    source // the built-in layer, which never changes
	current atomic.Pointer[generation]

	loaded string     // fingerprint of the files before Load read them
	reload sync.Mutex // one at a time
	failed atomic.Pointer[error]
	held   atomic.Pointer[[]Held]
	tried  string // digest of the last sources that were tried; guarded by reload
}

// Load compiles the built-in rules and the layers, checks every rule against
// the input schema, runs the layers' tests and the invariants. Its errors name
// file and line.
func Load(ctx context.Context, o Options) (*Engine, error) {
	r, err := newReader()
	if err != nil {
		return nil, err
	}
	e := &Engine{options: o, reader: r, encode: newEncoder(Input{})}
	if e.base, err = collect(Layer{Name: builtin, FS: policies.FS}); err != nil {
		return nil, err
	}
	if !o.builtinTests {
		e.base.names = slices.DeleteFunc(e.base.names, isTest)
	}
	if err := e.reader.parse(&e.base); err != nil {
		return nil, err
	}
	e.loaded = e.fingerprint()
	sources, err := e.read()
	if err != nil {
		return nil, err
	}
	g, err := e.build(ctx, sources)
	if err != nil {
		return nil, err
	}
	e.current.Store(g)
	e.tried = stamp(sources)
	return e, nil
}

// Held is a layer that waits for a person to accept its digest.
type Held struct {
	Layer  string `json:"layer"`
	Digest string `json:"digest"`
}

// Held lists the layers that are not in force because nobody accepted them.
func (e *Engine) Held() []Held { return *e.held.Load() }

// read reads all layers, the built-in one first.
func (e *Engine) read() ([]source, error) {
	sources := append(make([]source, 0, len(e.options.Layers)+1), e.base)
	held := []Held{}
	for _, l := range e.options.Layers {
		s, err := collect(l)
		if err != nil {
			return nil, err
		}
		if l.Accepted != nil && !s.empty() && !l.Accepted(s.digest) {
			held = append(held, Held{Layer: l.Name, Digest: s.digest})
			continue
		}
		if err := e.reader.parse(&s); err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	e.held.Store(&held)
	return sources, nil
}

// build compiles, checks and tests.
func (e *Engine) build(ctx context.Context, sources []source) (*generation, error) {
	g, err := compile(ctx, sources)
	if err != nil {
		return nil, err
	}
	if !e.options.SkipTests {
		if err := g.testLayers(ctx); err != nil {
			return nil, err
		}
	}
	return g, g.checkInvariants(ctx, e.encode)
}

// Decide judges a call by what was seen in it. A rule that fails, times out or
// says nothing makes the call L3; an error means that the caller gave up.
func (e *Engine) Decide(ctx context.Context, c policy.Call, f policy.Facts) (policy.Decision, error) {
	d, err := e.current.Load().decision(ctx, e.encode, c, f)
	if err != nil {
		return d, err
	}
	if err := e.LastError(); err != nil && d.Verdict != policy.Allow {
		d.Rules[0].Remedy += " (the newest policy edit is broken and not in force: " + firstLine(err) + ")"
	}
	return d, nil
}

// Data is the joined lists of the policy in force. It must not be changed.
func (e *Engine) Data() *policy.Data { return e.current.Load().data }

// Revision is the digest of all rules and lists in force.
func (e *Engine) Revision() string { return e.current.Load().revision }

// Rules describes the rules in force.
func (e *Engine) Rules() []RuleInfo { return append([]RuleInfo(nil), e.current.Load().rules...) }

// LastError is why the newest edit is not in force, or nil.
func (e *Engine) LastError() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Reload reads the layers again and, when they changed and are sound, puts them
// in force. When they are not, the policy in force stays and the error is kept
// for LastError.
func (e *Engine) Reload(ctx context.Context) (changed bool, err error) {
	e.reload.Lock()
	defer e.reload.Unlock()
	sources, err := e.read()
	if err == nil {
		now := stamp(sources)
		if now == e.tried {
			return false, e.LastError()
		}
		var g *generation
		if g, err = e.build(ctx, sources); err == nil {
			changed = g.revision != e.current.Load().revision
			e.current.Store(g)
		}
		e.tried = now
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return false, err
		}
		err = fmt.Errorf("reload the policy (the last good one stays in force): %w", err)
		e.failed.Store(&err)
		return false, err
	}
	e.failed.Store(nil)
	return changed, nil
}

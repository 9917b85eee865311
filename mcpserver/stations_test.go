package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/limits"
	"sallyport/sandbox"
)

// The stations of these tests: every call is allowed at L0 and recorded in
// memory; a command runs until the test lets it go.

type openGate struct{}

func (openGate) Admit(context.Context, policy.Call) (policy.Decision, policy.Facts) {
	return policy.Decision{Tier: policy.L0, Verdict: policy.Allow, Rules: []policy.RuleHit{}, Revision: "test"}, policy.Facts{}
}

type noDesk struct{}

func (noDesk) Settle(context.Context, approval.Ask) (approval.Outcome, error) {
	return approval.Outcome{}, nil
}
func (noDesk) Announce(context.Context, []approval.Ask) (approval.Batch, error) {
	return approval.Batch{}, nil
}
func (noDesk) Wait(context.Context, string) (approval.Request, error) {
	return approval.Request{}, nil
}
func (noDesk) Approve(string, approval.Person, approval.ApproveOptions) (approval.Request, error) {
	return approval.Request{}, approval.ErrNotFound
}
func (noDesk) Deny(string, approval.Person, string, string) (approval.Request, error) {
	return approval.Request{}, approval.ErrNotFound
}
func (noDesk) Get(string) (approval.Request, error) { return approval.Request{}, approval.ErrNotFound }
func (noDesk) Finish(string, string) error          { return nil }
func (noDesk) Frozen(string) (bool, string)         { return false, "" }

// slowRunner runs until its context ends or let is closed.
type slowRunner struct {
	begun, cancelled atomic.Int64
	let              chan struct{}
}

func (r *slowRunner) Run(ctx context.Context, _ sandbox.Action, _ sandbox.Terms) (sandbox.Result, error) {
	r.begun.Add(1)
	select {
	case <-ctx.Done():
		r.cancelled.Add(1)
		return sandbox.Result{}, ctx.Err()
	case <-r.let:
		return sandbox.Result{}, nil
	}
}
func (*slowRunner) Land(context.Context, string) ([]sandbox.Change, error) { return nil, nil }
func (*slowRunner) Drop(string) error                                      { return nil }
func (*slowRunner) Keep(string, []byte) error                              { return nil }
func (*slowRunner) Kept() (map[string][]byte, error)                       { return nil, nil }
func (*slowRunner) TxContent(string, string) ([]byte, error)               { return nil, nil }

type memoryLog struct {
	mu      sync.Mutex
	records []audit.Record
}

func (l *memoryLog) Append(_ context.Context, r audit.Record) (audit.Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return audit.Seq(len(l.records) - 1), nil
}
func (*memoryLog) Redact(text string) string { return text }
func (*memoryLog) Digest([]byte) string      { return "digest" }

func (*memoryLog) ByKey(context.Context, string, string) (*audit.Step, error) { return nil, nil }

func (l *memoryLog) all() []audit.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]audit.Record(nil), l.records...)
}

type noLimits struct{}

func (noLimits) Admit(time.Time, limits.Key, string) (bool, limits.Violation) {
	return true, limits.Violation{}
}
func (noLimits) Slot(context.Context, string) (func(), error)  { return func() {}, nil }
func (noLimits) Observe(time.Time, limits.Key, limits.Outcome) {}
func (noLimits) Session(string) policy.Session                 { return policy.Session{} }

// gated is a Server with the stations above.
func gated() (*Server, *slowRunner, *memoryLog) {
	run, log := &slowRunner{let: make(chan struct{})}, &memoryLog{}
	var ids atomic.Int64
	return New(Options{
		Version: "test", Gate: openGate{}, Desk: noDesk{}, Runner: run, Log: log, Limits: noLimits{}, Now: time.Now,
		ID: func() string { return fmt.Sprintf("id%d", ids.Add(1)) }, Logger: slog.New(slog.DiscardHandler),
	}), run, log
}

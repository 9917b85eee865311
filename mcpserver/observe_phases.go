package mcpserver

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

// The stations of a call each give its span a child: plan, judge, ask, wait,
// record (the intent), run, effects, land, record (the outcome). A span says which
// rules and walls there were and how it ended; never an argument, a path or an
// output, for those may hold secrets and a collector is not the audit log.

// phase starts a station's span.
func (w *watcher) phase(ctx context.Context, name string) (context.Context, trace.Span) {
	return w.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal))
}

// failedSpan marks a span whose station gave an error. The error's text stays here.
func failedSpan(span trace.Span, err error) {
	if err == nil {
		return
	}
	kind := "error"
	var e *sandbox.Error
	if errors.As(err, &e) {
		kind = string(e.Kind)
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, kind)
}

// traced puts a span around each station.
func (w *watcher) traced(o Options) Options {
	o.Gate, o.Desk = tracedGate{o.Gate, w}, tracedDesk{o.Desk, w}
	o.Runner, o.Log = tracedRunner{o.Runner, w}, tracedLog{o.Log, w}
	return o
}

type tracedGate struct {
	gate
	w *watcher
}

func (t tracedGate) Admit(ctx context.Context, c policy.Call) (policy.Decision, policy.Facts) {
	name := "judge"
	if c.Phase == policy.PhaseEffects {
		name = "effects"
	}
	ctx, span := t.w.phase(ctx, name)
	defer span.End()
	d, f := t.gate.Admit(ctx, c)
	if span.IsRecording() {
		rules := make([]string, len(d.Rules))
		for i, r := range d.Rules {
			rules[i] = r.ID
		}
		span.SetAttributes(attribute.String("sallyport.tier", d.Tier.String()), attribute.String("sallyport.verdict", d.Verdict.String()),
			attribute.StringSlice("sallyport.rules", rules), attribute.String("sallyport.policy", d.Revision))
	}
	return d, f
}

type tracedDesk struct {
	desk
	w *watcher
}

func (t tracedDesk) Settle(ctx context.Context, a approval.Ask) (approval.Outcome, error) {
	ctx, span := t.w.phase(ctx, "ask")
	defer span.End()
	out, err := t.desk.Settle(ctx, a)
	failedSpan(span, err)
	span.SetAttributes(attribute.String("sallyport.approval", out.Request.ID), attribute.String("sallyport.approval.state", string(out.State)))
	return out, err
}

func (t tracedDesk) Wait(ctx context.Context, id string) (approval.Request, error) {
	ctx, span := t.w.phase(ctx, "wait")
	defer span.End()
	r, err := t.desk.Wait(ctx, id)
	span.SetAttributes(attribute.String("sallyport.approval", r.ID), attribute.String("sallyport.approval.state", string(r.State)))
	return r, err
}

type tracedRunner struct {
	runner
	w *watcher
}

func (t tracedRunner) Run(ctx context.Context, a sandbox.Action, terms sandbox.Terms) (sandbox.Result, error) {
	ctx, span := t.w.phase(ctx, "run")
	defer span.End()
	r, err := t.runner.Run(ctx, a, terms)
	failedSpan(span, err)
	if a.Exec != nil && span.IsRecording() {
		hit := make([]string, len(r.Hit))
		for i, h := range r.Hit {
			hit[i] = h.Limit
		}
		span.SetAttributes(attribute.Int("process.exit.code", r.Exit), attribute.String("sallyport.level", string(r.Level)),
			attribute.StringSlice("sallyport.limits_hit", hit))
	}
	return r, err
}

func (t tracedRunner) Land(ctx context.Context, tx string) ([]sandbox.Change, error) {
	ctx, span := t.w.phase(ctx, "land")
	defer span.End()
	changes, err := t.runner.Land(ctx, tx)
	failedSpan(span, err)
	span.SetAttributes(attribute.Int("sallyport.changes", len(changes)))
	return changes, err
}

type tracedLog struct {
	journal
	w *watcher
}

func (t tracedLog) Append(ctx context.Context, r audit.Record) (audit.Seq, error) {
	ctx, span := t.w.phase(ctx, "record")
	defer span.End()
	seq, err := t.journal.Append(ctx, r)
	failedSpan(span, err)
	span.SetAttributes(attribute.String("sallyport.record.kind", string(r.Kind)), attribute.Int64("sallyport.record", int64(seq)))
	return seq, err
}

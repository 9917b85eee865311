package mcpserver

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"sallyport/audit"
	"sallyport/tools"
)

// scope names this package in traces and metrics.
const scope = "sallyport/mcpserver"

// watcher counts, times and traces calls. Names follow OpenTelemetry's
// conventions for MCP and generative AI where there is one. No label takes a
// value that a client makes up: a tool that does not exist is "other".
type watcher struct {
	tracer  trace.Tracer
	took    metric.Float64Histogram
	calls   metric.Int64Counter
	running metric.Int64UpDownCounter
}

func newWatcher(tp trace.TracerProvider, mp metric.MeterProvider) (*watcher, error) {
	if tp == nil {
		tp = tracenoop.NewTracerProvider()
	}
	if mp == nil {
		mp = metricnoop.NewMeterProvider()
	}
	w, m := &watcher{tracer: tp.Tracer(scope)}, mp.Meter(scope)
	var err error
	if w.took, err = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a tools/call to its answer, waiting for people included."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	if w.calls, err = m.Int64Counter("sallyport.calls", metric.WithDescription("Calls by tool, tier, verdict and how they ended.")); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	if w.running, err = m.Int64UpDownCounter("sallyport.calls.running", metric.WithDescription("Calls in flight.")); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	return w, nil
}

// toolLabel is a tool's name as a label.
func toolLabel(name string) string {
	if _, ok := tools.Find(name); ok {
		return name
	}
	return "other"
}

// watch follows one call; end is told of it when it has ended.
func (s *Server) watch(ctx context.Context, p *Peer, tool string) (_ context.Context, end func(*call)) {
	name := toolLabel(tool)
	ctx, span := s.watcher.tracer.Start(ctx, "tools/call "+name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("mcp.method.name", string(mcp.MethodToolsCall)),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", name),
		attribute.String("gen_ai.agent.name", p.Agent),
		attribute.String("mcp.session.id", p.Session),
	))
	counted := context.WithoutCancel(ctx)
	s.watcher.running.Add(counted, 1)
	return ctx, func(c *call) {
		took := s.o.Now().Sub(c.begun)
		tier, verdict := "none", "none" // refused before it was judged
		if c.judged.Tool != "" {
			tier, verdict = c.decision.Tier.String(), c.decision.Verdict.String()
		}
		labels := metric.WithAttributes(
			attribute.String("gen_ai.tool.name", name), attribute.String("sallyport.tier", tier),
			attribute.String("sallyport.verdict", verdict), attribute.String("sallyport.status", string(c.status)))
		s.watcher.running.Add(counted, -1)
		s.watcher.calls.Add(counted, 1, labels)
		s.watcher.took.Record(counted, took.Seconds(), metric.WithAttributes(
			attribute.String("mcp.method.name", string(mcp.MethodToolsCall)), attribute.String("gen_ai.tool.name", name),
			attribute.String("sallyport.tier", tier)))
		span.SetAttributes(attribute.String("sallyport.call", c.id), attribute.String("sallyport.tier", tier),
			attribute.String("sallyport.verdict", verdict), attribute.String("sallyport.status", string(c.status)))
		if c.status != audit.StatusOK && c.status != audit.StatusPending {
			span.SetAttributes(attribute.String("error.type", string(c.status)))
			span.SetStatus(codes.Error, string(c.status))
		}
		span.End()
		level := slog.LevelInfo
		if c.status == audit.StatusOK {
			level = slog.LevelDebug // the record has it
		}
		s.o.Logger.LogAttrs(counted, level, "call", slog.String("call", c.id), slog.String("agent", p.Agent),
			slog.String("session", p.Session), slog.String("tool", name), slog.String("tier", tier),
			slog.String("verdict", verdict), slog.String("status", string(c.status)), slog.Duration("took", took))
	}
}

// refused counts what never became a call.
func (w *watcher) refused(ctx context.Context, tool string) {
	w.calls.Add(context.WithoutCancel(ctx), 1, metric.WithAttributes(
		attribute.String("gen_ai.tool.name", toolLabel(tool)), attribute.String("sallyport.tier", "none"),
		attribute.String("sallyport.verdict", "none"), attribute.String("sallyport.status", string(audit.StatusInvalid))))
}

// withinTrace gives ctx the trace that a request says it belongs to: by its _meta
// (traceparent and tracestate, as MCP has it), else by what ctx holds already.
func withinTrace(ctx context.Context, m *mcp.Meta) context.Context {
	if m == nil {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for _, k := range []string{"traceparent", "tracestate"} {
		if v, ok := m.AdditionalFields[k].(string); ok {
			carrier.Set(k, v)
		}
	}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}

// traceOf is the trace id of a request, "" for none.
func traceOf(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}

// maxKey is the longest idempotency key that is recorded, in bytes.
const maxKey = 128

// keyOf is the client's own id of a call, by which a host finds it in the record.
func keyOf(m *mcp.Meta) string {
	if m == nil {
		return ""
	}
	key, _ := m.AdditionalFields["claudecode/toolUseId"].(string)
	if key == "" {
		key, _ = m.AdditionalFields[MetaKey].(string)
	}
	if len(key) > maxKey {
		return ""
	}
	return key
}

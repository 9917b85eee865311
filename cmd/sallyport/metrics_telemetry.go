package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// telemetryConfig is the telemetry part of config.yaml. Without otlp nothing
// leaves this machine.
type telemetryConfig struct {
	// OTLP is the base URL of a collector (OTLP over HTTP), such as
	// http://127.0.0.1:4318.
	OTLP string `yaml:"otlp"`
	// Headers are sent along, for a collector that wants a key.
	Headers map[string]string `yaml:"headers"`
}

// telemetry is where metrics are gathered and traces sent.
type telemetry struct {
	registry *prometheus.Registry
	meters   *metric.MeterProvider
	traces   *trace.TracerProvider // drops everything where no collector is named
}

func openTelemetry(ctx context.Context, c telemetryConfig) (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scrape, err := otelprom.New(otelprom.WithRegisterer(t.registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("prepare the metrics: %w", err)
	}
	who := resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName("sallyport"), semconv.ServiceVersion(version))
	meters := []metric.Option{metric.WithReader(scrape), metric.WithResource(who)}
	traces := []trace.TracerProviderOption{trace.WithResource(who)}
	if c.OTLP == "" {
		traces = append(traces, trace.WithSampler(trace.NeverSample()))
	} else {
		spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.OTLP+"/v1/traces"), otlptracehttp.WithHeaders(c.Headers))
		if err != nil {
			return nil, fmt.Errorf("send traces to %s: %w", c.OTLP, err)
		}
		points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(c.OTLP+"/v1/metrics"), otlpmetrichttp.WithHeaders(c.Headers))
		if err != nil {
			return nil, fmt.Errorf("send metrics to %s: %w", c.OTLP, err)
		}
		traces = append(traces, trace.WithBatcher(spans))
		meters = append(meters, metric.WithReader(metric.NewPeriodicReader(points)))
	}
	t.meters, t.traces = metric.NewMeterProvider(meters...), trace.NewTracerProvider(traces...)
	return t, nil
}

// handler serves the metrics to Prometheus.
func (t *telemetry) handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// close sends what is left, for a few seconds at most.
func (t *telemetry) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return errors.Join(t.traces.Shutdown(ctx), t.meters.Shutdown(ctx))
}

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"sallyport/audit"
	"sallyport/mcpserver"
	"sallyport/policy/approval"
)

// gauges are what the daemon itself can be asked: how many use it, how much
// waits for people.
func (d *daemon) gauges(e *mcpserver.Endpoint) error {
	m := d.telemetry.meters.Meter("sallyport")
	_, err := m.Int64ObservableGauge("sallyport.sessions", metric.WithDescription("Open sessions by transport."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(d.mcp.Sessions()), metric.WithAttributes(attribute.String("network.transport", "unix")))
			o.Observe(int64(e.Sessions()), metric.WithAttributes(attribute.String("network.transport", "http")))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	_, err = m.Int64ObservableGauge("sallyport.approvals.pending", metric.WithDescription("Requests that wait for a person."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			list, err := d.desk.List(approval.Filter{States: []approval.State{approval.StatePending}})
			if err != nil {
				return err
			}
			o.Observe(int64(len(list)))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	_, err = m.Int64ObservableGauge("sallyport.frozen", metric.WithDescription("1 while a person has frozen calls."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(min(1, len(d.desk.Freezes()))))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	return nil
}

// scraped lets a scraper on this machine read without a token, any other with
// one.
func (f *front) scraped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			if _, err := f.authenticate(r); err != nil {
				w.Header().Set("WWW-Authenticate", `Bearer realm="sallyport"`)
				http.Error(w, "a valid bearer token is needed", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// rules are the rules as agents are told of them.
func (d *daemon) rules() []mcpserver.Rule {
	var out []mcpserver.Rule
	if d.judges.ready(context.Background()) != nil {
		return out
	}
	for _, r := range d.judges.base.engine.Rules() {
		out = append(out, mcpserver.Rule{ID: r.ID, Tier: r.Tier, Verdict: r.Verdict, Title: r.Title, Remedy: r.Remedy})
	}
	return out
}

// history is a session's own records, the newest first.
func (d *daemon) history(ctx context.Context, session string, most int) ([]audit.Record, error) {
	var out []audit.Record
	err := d.log.Select(ctx, audit.Filter{Session: session, Newest: true, Limit: most}, func(r audit.Record) bool {
		out = append(out, r)
		return true
	})
	return out, err
}

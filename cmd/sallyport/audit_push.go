package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"sallyport/audit"
	"sallyport/audit/push"
	"sallyport/sandbox"
)

func (p place) push() string { return filepath.Join(p.state, "push") }

// openLog opens the log and begins to push it where the configuration says so.
func (d *daemon) openLog() error {
	o, err := d.config.logOptions(d.logger)
	if err != nil {
		return err
	}
	targets, err := d.config.pushTargets()
	if err != nil {
		return err
	}
	if d.log, err = audit.Open(d.place.log(), o); err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	d.pusher, err = push.Start(push.Options{Log: d.log, Dir: d.place.push(), Targets: targets, Logger: d.logger})
	return err
}

// keptAnchors reads the configured anchors from the daemon.
func (d *daemon) keptAnchors(ctx context.Context) ([][]byte, error) {
	return d.config.keptAnchors(ctx, func() (actor, func(), error) { return d.runner, func() {}, nil })
}

// localAnchors reads the configured anchors where nobody serves.
func localAnchors(c config) func(context.Context) ([][]byte, error) {
	return func(ctx context.Context) ([][]byte, error) {
		return c.keptAnchors(ctx, func() (actor, func(), error) { return ownRunner(c.MinLevel) })
	}
}

// localPushRoutes tell how the targets stand while nobody pushes.
func localPushRoutes(m *http.ServeMux, p place, c config, log *audit.Reader) {
	m.HandleFunc("GET /v1/audit/push", func(w http.ResponseWriter, _ *http.Request) {
		targets, err := c.pushTargets()
		if err != nil {
			answer(w, nil, err)
			return
		}
		s, err := push.ReadStatus(log, p.push(), targets)
		answer(w, s, err)
	})
}

// pushProblems are the targets that do not take records.
func pushProblems(all []push.Status) []sandbox.Problem {
	var out []sandbox.Problem
	for _, s := range all {
		if s.Error != "" {
			out = append(out, sandbox.Problem{
				What:   fmt.Sprintf("the audit log is not pushed to %s since %s (%d records behind): %s", s.Name, s.Failing.Format(time.RFC3339), s.Behind, s.Error),
				Remedy: "mend the target or audit.push in the configuration; nothing is lost meanwhile, records wait in the log",
			})
		}
		if s.Lost > 0 {
			out = append(out, sandbox.Problem{
				What:   fmt.Sprintf("%d records were retired before %s had them", s.Lost, s.Name),
				Remedy: "raise audit.retain, or set a legal hold during an outage (`sallyport audit hold`)",
			})
		}
	}
	return out
}

func printPush(out io.Writer, all []push.Status) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out, "pushed to")
	for _, s := range all {
		fmt.Fprintf(out, "  %s  %s: %d records behind", s.Name, s.URL, s.Behind)
		if !s.Sent.IsZero() {
			fmt.Fprintf(out, ", last sent %s", s.Sent.Local().Format(time.RFC3339))
		}
		if s.Error != "" {
			fmt.Fprintf(out, ", failing since %s: %s", s.Failing.Local().Format(time.RFC3339), s.Error)
		}
		fmt.Fprintln(out)
	}
}

// anchorProblems tells that checkpoints do not get out.
func anchorProblems(log *audit.Log) []sandbox.Problem {
	since, err := log.Anchoring()
	if err == nil {
		return nil
	}
	return []sandbox.Problem{{
		What:   fmt.Sprintf("the audit log is not anchored since %s: %v", since.Format(time.RFC3339), err),
		Remedy: "mend the anchor or audit.anchors in the configuration; until then a rollback of what came since cannot be seen",
	}}
}

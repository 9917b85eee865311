package main

import (
	"context"
	"fmt"
	"time"

	"sallyport/audit"
	"sallyport/policy/approval"
)

// openDesk opens the approvals desk, whose every step is recorded before it
// takes effect.
func openDesk(p place, c config, log *audit.Log) (*approval.Desk, error) {
	desk, err := approval.Open(p.desk(), approval.Options{
		TTL: time.Duration(c.ApprovalTTL), Redact: log.Redact, OtherUser: c.Approvers == "other-user", Role: c.decidingRole(),
		Record: func(e approval.Event) error {
			_, err := log.Append(context.Background(), deskRecord(e))
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the approvals: %w", err)
	}
	return desk, nil
}

// deskRecord is what the log keeps of a step at the desk.
func deskRecord(e approval.Event) audit.Record {
	r := audit.Record{Kind: audit.KindEvent, Event: string(e.Kind), Detail: asJSON(e)}
	if q := e.Request; q != nil {
		r.Approval, r.Agent, r.Session, r.Workspace, r.Call = q.ID, q.Agent, q.Session, q.Workspace, q.Call
	}
	if e.Person != nil {
		r.Person = e.Person.String()
	}
	return r
}

// authorIn looks a file's author up in the log: the newest call that left this
// content.
func authorIn(log *audit.Log) authorOf {
	return func(workspace, path, sha256 string) (author string) {
		most := 50 // of calls that name the path; an older author is nobody
		_ = log.Select(context.Background(), audit.Filter{Path: path, Kind: audit.KindOutcome, Newest: true, Limit: most}, func(r audit.Record) bool {
			for _, c := range r.Changes {
				if r.Workspace == workspace && c.Path == path && c.After == sha256 {
					author = r.Agent + "/" + r.Session + " at " + r.Time.Format(time.RFC3339)
				}
			}
			return author == ""
		})
		return author
	}
}

// followDesk ends the running calls of whoever is frozen, and sweeps what has
// expired, until ctx ends.
func (d *daemon) followDesk(ctx context.Context) {
	events, cancel := d.desk.Subscribe()
	defer cancel()
	sweep := time.NewTicker(5 * time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			if err := d.desk.Sweep(); err != nil {
				d.logger.Error("sweep the approvals", "err", err)
			}
			d.files.tidy()
			for _, session := range d.sessions.due(time.Now(), d.config.sessionGrace()) {
				d.sessionEnded(session)
			}
		case e, ok := <-events:
			if !ok { // fell behind, or the desk is closed
				cancel()
				if ctx.Err() != nil {
					return
				}
				events, cancel = d.desk.Subscribe()
				if err := d.files.syncAll(); err != nil {
					d.logger.Error("keep the files of what waits", "err", err)
				}
				continue
			}
			if e.Request != nil {
				d.files.sync(e.Request.ID)
			}
			if e.Kind == approval.Frozen && e.Scope != nil {
				d.mcp.Interrupt(e.Scope.Agent)
			}
		}
	}
}

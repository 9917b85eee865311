package audit

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// executionTrace is the document of FormatTrace.
type executionTrace struct {
	Version  int            `json:"version"`
	Sessions []sessionTrace `json:"sessions"`
}

type sessionTrace struct {
	Session   string      `json:"session"`
	Agent     string      `json:"agent"`
	User      string      `json:"user,omitempty"`
	Workspace string      `json:"workspace,omitempty"`
	Branch    string      `json:"branch,omitempty"`
	Commit    string      `json:"commit,omitempty"`
	Started   time.Time   `json:"started"`
	Ended     time.Time   `json:"ended"`
	Steps     []traceStep `json:"steps"`
}

type traceStep struct {
	Seq        Seq             `json:"seq"`
	Time       time.Time       `json:"time"`
	Tool       string          `json:"tool"`
	Input      json.RawMessage `json:"input,omitempty"`
	Decision   traceDecision   `json:"decision"`
	Status     Status          `json:"status,omitempty"` // empty while it runs
	DurationMS float64         `json:"duration_ms"`
	Exit       *int            `json:"exit,omitempty"`
	Error      string          `json:"error,omitempty"`
	Outputs    []Output        `json:"outputs,omitempty"`
	Changes    []Change        `json:"changes,omitempty"`
}

type traceDecision struct {
	Tier     string   `json:"tier"`
	Verdict  string   `json:"verdict"`
	Rules    []string `json:"rules,omitempty"`
	Revision string   `json:"revision,omitempty"`
	Approval string   `json:"approval,omitempty"`
	Person   string   `json:"person,omitempty"`
}

// exportTrace writes every session of which f chooses a record, as a whole.
func (r *Reader) exportTrace(ctx context.Context, w io.Writer, f Filter) error {
	var ids []string
	err := r.Select(ctx, f, func(rec Record) bool {
		if rec.Session != "" && !slices.Contains(ids, rec.Session) {
			ids = append(ids, rec.Session)
		}
		return true
	})
	if err != nil {
		return err
	}
	doc := executionTrace{Version: 1, Sessions: []sessionTrace{}}
	for _, id := range ids {
		steps, err := r.Session(ctx, id)
		if err != nil {
			return err
		}
		doc.Sessions = append(doc.Sessions, traceOf(id, steps))
	}
	enc := encoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func traceOf(id string, steps []Step) sessionTrace {
	t := sessionTrace{Session: id, Steps: []traceStep{}}
	for i := range steps {
		c, e := &steps[i].Call, steps[i].End()
		if i == 0 {
			t.Started = c.Time
		}
		t.Ended = e.Time
		if c.Kind == KindEvent {
			continue
		}
		t.Agent, t.User, t.Workspace, t.Branch, t.Commit = c.Agent, c.User, c.Workspace, c.Branch, c.Commit
		took := e.Took
		if took == 0 && steps[i].Outcome != nil {
			took = e.Time.Sub(c.Time)
		}
		t.Steps = append(t.Steps, traceStep{
			Seq: c.Seq, Time: c.Time, Tool: c.Tool, Input: c.Args,
			Decision: traceDecision{c.Tier, c.Verdict, c.Rules, c.Revision, c.Approval, c.Person},
			Status:   e.Status, DurationMS: float64(took.Microseconds()) / 1000, Exit: e.Exit, Error: e.Error,
			Outputs: e.Outputs, Changes: e.Changes,
		})
	}
	return t
}

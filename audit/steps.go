package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Step is one thing that happened in a session: a call with how it ended, or an
// event.
type Step struct {
	Call Record `json:"call"` // the intent, the whole call of a KindCall, or the event
	// Outcome closes an intent; nil while the call runs and for other kinds.
	Outcome *Record `json:"outcome,omitempty"`
}

// End is the record that tells how the step ended: Outcome where there is one.
func (s *Step) End() *Record {
	if s.Outcome != nil {
		return s.Outcome
	}
	return &s.Call
}

// Running reports whether the step is a call without outcome.
func (s *Step) Running() bool { return s.Call.Kind == KindIntent && s.Outcome == nil }

// Session lists what happened in a session, in order.
func (r *Reader) Session(ctx context.Context, id string) ([]Step, error) {
	return r.steps(ctx, Filter{Session: id})
}

// ByKey finds what was recorded under a client's idempotency key, newest first:
// nothing, a running call, or one that ended, possibly as StatusInterrupted. A
// call with the same key and another ArgsDigest is not a repetition.
func (r *Reader) ByKey(ctx context.Context, session, key string) (*Step, error) {
	steps, err := r.steps(ctx, Filter{Session: session, Key: key})
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	return &steps[len(steps)-1], nil
}

func (r *Reader) steps(ctx context.Context, f Filter) ([]Step, error) {
	var steps []Step
	open := map[Seq]int{}
	err := r.Select(ctx, f, func(rec Record) bool {
		if rec.Kind == KindOutcome {
			if at, ok := open[*rec.Intent]; ok {
				steps[at].Outcome = &rec
				return true
			}
		}
		if rec.Kind == KindIntent {
			open[rec.Seq] = len(steps)
		}
		steps = append(steps, Step{Call: rec})
		return true
	})
	return steps, err
}

// Show writes a session for people, one step after the other.
func Show(w io.Writer, steps []Step) error {
	for i := range steps {
		if _, err := io.WriteString(w, steps[i].text()); err != nil {
			return fmt.Errorf("show the session: %w", err)
		}
	}
	return nil
}

// text is a step in a few lines.
func (s *Step) text() string {
	c, e := &s.Call, s.End()
	var b strings.Builder
	at := c.Time.Local().Format("2006-01-02 15:04:05")
	if c.Kind == KindEvent {
		fmt.Fprintf(&b, "%s  #%d  %s %s\n", at, c.Seq, c.Event, clip(string(c.Detail), 200))
		return b.String()
	}
	status := string(e.Status)
	if s.Running() {
		status = "running"
	}
	fmt.Fprintf(&b, "%s  #%d  %s %s  %s %s  -> %s", at, c.Seq, c.Tool, clip(string(c.Args), 200), c.Tier, c.Verdict, status)
	if e.Exit != nil {
		fmt.Fprintf(&b, " (exit %d)", *e.Exit)
	}
	if e.Took > 0 {
		fmt.Fprintf(&b, " in %s", e.Took.Round(time.Millisecond))
	}
	b.WriteByte('\n')
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "    %s: %s\n", label, text)
		}
	}
	line("rules", strings.Join(c.Rules, ", "))
	line("approved by", c.Person)
	line("error", clip(e.Error, 400))
	for _, ch := range e.Changes {
		line(ch.Kind, ch.Path)
	}
	for _, o := range e.Outputs {
		line(o.Name, clip(strings.TrimSpace(o.Preview), 600))
	}
	return b.String()
}

// clip keeps the first n bytes of a text, whole letters only.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// Asciicast writes a session as an asciicast v2 recording: each call is typed as
// a command and its output appears when it ended. Pauses longer than idle are
// cut to idle; 0 means 2 s.
func Asciicast(w io.Writer, steps []Step, idle time.Duration) error {
	if idle == 0 {
		idle = 2 * time.Second
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	var began time.Time
	title := "sallyport"
	if len(steps) > 0 {
		began = steps[0].Call.Time
		title += " session " + steps[0].Call.Session
	}
	err := enc.Encode(map[string]any{"version": 2, "width": 120, "height": 40, "timestamp": began.Unix(), "title": title})
	at, last := time.Duration(0), began
	emit := func(when time.Time, text string) {
		at += min(max(when.Sub(last), 0), idle)
		last = when
		if err == nil {
			err = enc.Encode([]any{at.Seconds(), "o", strings.ReplaceAll(text, "\n", "\r\n")})
		}
	}
	for i := range steps {
		s := &steps[i]
		if s.Call.Kind == KindEvent {
			emit(s.Call.Time, s.text())
			continue
		}
		emit(s.Call.Time, fmt.Sprintf("\x1b[1;32m%s ❯\x1b[0m %s %s\n", s.Call.Tier, s.Call.Tool, clip(string(s.Call.Args), 200)))
		emit(s.End().Time, s.text())
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

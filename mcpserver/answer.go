package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/limits"
	"sallyport/sandbox"
	"sallyport/tools"
)

// MetaStructured in a request's _meta asks for the Structured form of the
// answer under MetaResult in the result's _meta.
const (
	MetaStructured = "sallyport/structured"
	MetaResult     = "sallyport/result"
)

// Structured is an answer for programs. Its JSON is stable.
type Structured struct {
	Call     string       `json:"call"`
	Status   audit.Status `json:"status"`
	Decision *Judged      `json:"decision"` // null when the call was never judged
	Approval string       `json:"approval,omitempty"`
	// PendingFile tells a program on this machine of a request that waits.
	PendingFile string         `json:"pending_file,omitempty"`
	Failure     *tools.Failure `json:"failure,omitempty"`
	Ran
	Data any `json:"data,omitempty"` // the tool's own
}

// Ran is what a command did, for programs.
type Ran struct {
	Exit    int                `json:"exit"`
	Stdout  string             `json:"stdout"`
	Stderr  string             `json:"stderr"`
	Walls   []sandbox.Wall     `json:"walls"`
	Level   sandbox.Level      `json:"level"`
	Usage   sandbox.Usage      `json:"usage"`
	Hit     []sandbox.LimitHit `json:"limits_hit"`
	Denials []sandbox.Denial   `json:"denials"`
	Changes []sandbox.Change   `json:"changes"`
}

// Judged is a decision as programs see it.
type Judged struct {
	Tier     policy.Tier      `json:"tier"`
	Verdict  policy.Verdict   `json:"verdict"`
	Rules    []policy.RuleHit `json:"rules"`
	Shadow   []policy.RuleHit `json:"shadow,omitempty"` // what rules on trial would have said
	Revision string           `json:"revision"`
}

// Judge is a decision in its stable JSON form.
func Judge(d policy.Decision) *Judged {
	return &Judged{Tier: d.Tier, Verdict: d.Verdict, Rules: list(d.Rules), Shadow: d.Shadow, Revision: d.Revision}
}

// result is a call's answer as MCP carries it. The text is all the model sees.
func (s *Server) result(c *call) *mcp.CallToolResult {
	r := mcp.NewToolResultText(c.answer.Text)
	r.IsError = c.answer.IsError
	meta := map[string]any{"sallyport/call": c.id, "sallyport/status": c.status}
	if c.allowed.Request.ID != "" {
		meta["sallyport/approval"] = c.allowed.Request.ID
	}
	if file := s.pendingFile(c); file != "" {
		meta["sallyport/pending_file"] = file
	}
	if c.wantsAll {
		meta[MetaResult] = s.structured(c)
	}
	r.Meta = &mcp.Meta{AdditionalFields: meta}
	return r
}

// pendingFile is the file of the request that a local caller's call waits for.
func (s *Server) pendingFile(c *call) string {
	if s.o.PendingFile == nil || c.status != audit.StatusPending || c.allowed.Request.ID == "" || c.peer.Credential != "" {
		return ""
	}
	return s.o.PendingFile(c.allowed.Request.ID)
}

func (s *Server) structured(c *call) Structured {
	r := c.result
	out := Structured{
		Call: c.id, Status: c.status, Approval: c.allowed.Request.ID, PendingFile: s.pendingFile(c), Failure: c.answer.Failure, Data: c.answer.Data,
		Ran: Ran{
			Exit: r.Exit, Stdout: s.o.Log.Redact(string(r.Stdout.Data)), Stderr: s.o.Log.Redact(string(r.Stderr.Data)),
			Walls: list(r.Walls), Level: r.Level, Usage: r.Usage, Hit: list(r.Hit), Denials: list(r.Denials), Changes: list(r.Changes),
		},
	}
	if out.Failure != nil {
		f := *out.Failure
		f.Msg = s.o.Log.Redact(f.Msg)
		out.Failure = &f
	}
	if c.judged.Tool != "" {
		out.Decision = Judge(c.decision)
		out.Decision.Rules = s.redacted(out.Decision.Rules)
		out.Decision.Shadow = s.redacted(out.Decision.Shadow)
	}
	return out
}

// redacted are rules without the secrets of the commands they fired on.
func (s *Server) redacted(rules []policy.RuleHit) []policy.RuleHit {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Reason, rules[i].Cmd = s.o.Log.Redact(rules[i].Reason), s.o.Log.Redact(rules[i].Cmd)
	}
	return rules
}

// list keeps an empty list from becoming JSON null.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// wantsAll reports whether a request asks for the Structured form.
func wantsAll(m *mcp.Meta) bool {
	if m == nil {
		return false
	}
	on, _ := m.AdditionalFields[MetaStructured].(bool)
	return on
}

// MetaWait in a request's _meta is how many milliseconds the caller lets the call
// wait for a person before it answers pending.
const MetaWait = "sallyport/wait_ms"

// maxWait bounds a wait; hosts give up on a silent call long before.
const maxWait = time.Hour

func waitOf(m *mcp.Meta) time.Duration {
	if m == nil {
		return 0
	}
	ms, _ := m.AdditionalFields[MetaWait].(float64)
	return min(max(0, time.Duration(ms)*time.Millisecond), maxWait)
}

func denied(d policy.Decision) tools.Answer {
	f := &tools.Failure{
		Kind: tools.KindExecutionFailed, Class: tools.Unrecoverable,
		Msg:    "denied by policy (" + d.Tier.String() + "); nothing was run" + because(d, true),
		Remedy: remedy(d, "do the work another way, or ask a person to change the policy"),
	}
	return tools.Answer{Text: f.Text(), IsError: true, Failure: f}
}

// limited is the answer to a call that a limit refused.
func limited(v limits.Violation) tools.Answer {
	f := &tools.Failure{Kind: tools.KindExecutionFailed, Class: tools.Fixable, Msg: v.Reason + " [limits." + v.Kind + "]; nothing was run", Remedy: v.Remedy}
	if v.RetryAfter > 0 {
		f.Class = tools.Transient
		f.Remedy = fmt.Sprintf("retry after %s; %s", v.RetryAfter.Round(time.Second), v.Remedy)
	}
	return tools.Answer{Text: f.Text(), IsError: true, Failure: f}
}

func deniedEffects(l landing) tools.Answer {
	a := denied(l.decision)
	f := *a.Failure
	f.Msg = "the command ran, and what it changed is denied by policy; the workspace is untouched" + because(l.decision, true) +
		"\nchanges that were dropped: " + names(l.changes)
	return tools.Answer{Text: f.Text(), IsError: true, Failure: &f}
}

// because lists the rules that fired, strictest first, each with the command it
// fired on where the agent wrote that.
func because(d policy.Decision, commands bool) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, r := range d.Rules {
		if r.Verdict != d.Verdict || seen[r.ID+r.Reason] {
			continue
		}
		seen[r.ID+r.Reason] = true
		fmt.Fprintf(&b, "\n  %s [%s] %s", r.Tier, r.ID, r.Reason)
		if commands && r.Cmd != "" {
			fmt.Fprintf(&b, ": %s", r.Cmd)
		}
	}
	return b.String()
}

func remedy(d policy.Decision, otherwise string) string {
	for _, r := range d.Rules {
		if r.Verdict == d.Verdict && r.Remedy != "" {
			return r.Remedy
		}
	}
	return otherwise
}

// unsettled is the answer to a call that a person has not allowed; commands as
// in because.
func unsettled(d policy.Decision, o approval.Outcome, commands bool) (audit.Status, tools.Answer) {
	r := o.Request
	f := &tools.Failure{Kind: tools.KindExecutionFailed}
	status := audit.StatusDenied
	switch o.State {
	case approval.StatePending:
		status, f.Class = audit.StatusPending, tools.Transient
		f.Msg = fmt.Sprintf("pending: approval %s needed (%s); nothing was changed%s", r.ID, d.Tier, because(d, commands))
		if len(o.Changed) > 0 {
			f.Msg += "\nan earlier request like this one does not cover it; changed since: " + strings.Join(o.Changed, ", ")
		}
		f.Remedy = fmt.Sprintf("tell the user to look with `sallyport approvals show %s` and decide with `sallyport approvals approve %s`; "+
			"then repeat this identical call, once (the request lives until %s)", r.ID, r.ID, r.Expires.Format(time.RFC3339))
	case approval.StateFrozen:
		return status, frozen(o.Advice)
	case approval.StateUnknown:
		f.Class = tools.Fixable
		f.Msg = fmt.Sprintf("approval %s was used by a run that was interrupted: whether it took effect is unknown", r.ID)
		f.Remedy = "look at the state first (git_status, read_file); then repeat the call to ask for a new approval"
	default:
		f.Class = tools.Unrecoverable
		f.Msg = fmt.Sprintf("a person denied request %s%s", r.ID, advice(o.Advice))
		f.Remedy = "do not repeat the call; follow the advice or ask the user what they want instead"
	}
	text := strings.TrimPrefix(f.Text(), "Error: ")
	return status, tools.Answer{Text: text, IsError: true, Failure: f}
}

func frozen(why string) tools.Answer {
	f := &tools.Failure{
		Kind: tools.KindExecutionFailed, Class: tools.Transient,
		Msg:    "frozen: a person has stopped this agent's calls" + advice(why),
		Remedy: "stop and tell the user; a person lifts it with `sallyport lift`",
	}
	return tools.Answer{Text: f.Text(), IsError: true, Failure: f}
}

func advice(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// unrecorded replaces an answer that could not be recorded: it says what is
// known of the effect and nothing else.
func unrecorded(c *call, err error) tools.Answer {
	f := &tools.Failure{
		Kind: tools.KindExecutionFailed, Class: tools.Unrecoverable,
		Msg:    fmt.Sprintf("the audit log could not be written, so the answer is withheld: %v", err),
		Remedy: "ask a person to free disk space or repair the log (`sallyport doctor`)",
	}
	if c.result.Ran || len(c.result.Changes) > 0 || len(c.result.Files) > 0 {
		f.Msg = "the call was carried out, but " + f.Msg
	}
	return tools.Answer{Text: f.Text(), IsError: true, Failure: f}
}

func names(changes []sandbox.Change) string {
	var out []string
	for i, ch := range changes {
		if i == 20 {
			out = append(out, fmt.Sprintf("and %d more", len(changes)-i))
			break
		}
		out = append(out, ch.Kind+" "+ch.Path)
	}
	return strings.Join(out, ", ")
}

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sallyport/audit"
	"sallyport/policy/approval"
	"sallyport/tools"
)

// The gate's own tools tell an agent of itself, of its requests and of its
// sessions, and announce calls. They touch nothing, and see no request but the
// session's own.

const deskSchema = `{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
	"id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Id of the request, as the pending answer named it, such as \"k7f3qd\""}%s}}`

const waitSchema = `,
	"wait_ms": {"type": "integer", "minimum": 0, "maximum": 3600000, "description": "Most milliseconds to wait for a person; 60000 when not given"}`

const announceSchema = `{"type": "object", "additionalProperties": false, "required": ["calls"], "properties": {
	"calls": {"type": "array", "minItems": 1, "maxItems": %d, "description": "The calls, in the order you will make them", "items": {
		"type": "object", "additionalProperties": false, "required": ["tool", "arguments"], "properties": {
			"tool": {"type": "string", "description": "Name of one of the tools here"},
			"arguments": {"type": "object", "description": "Its arguments, exactly as you will give them"}}}}}}`

// defaultWait is how long approval_wait waits unless told otherwise.
const defaultWait = time.Minute

// ownTool is one of the gate's own tools. do answers a call in c.
type ownTool struct {
	name, title, text, schema string

	changes bool // it leaves something at the desk
	do      func(*Server, context.Context, *call, attempt) error
}

// ownTools is the one list of them.
func ownTools() []ownTool {
	return []ownTool{
		{
			name: "whoami", title: "Who you are here", schema: `{"type": "object", "additionalProperties": false}`, do: (*Server).whoAmI,
			text: "Tells who you are to Sallyport: user, agent, session, workspace, the preset that says what a change of code needs, your highest tier, your tools, the walls that commands get. Tier L0.",
		},
		{
			name: "approval_status", title: "Look at a request for approval", schema: fmt.Sprintf(deskSchema, ""), do: (*Server).lookUp,
			text: "Tells how a pending request stands: pending, approved, denied with the person's advice, expired. Tier L0.",
		},
		{
			name: "approval_wait", title: "Wait for a person's decision", schema: fmt.Sprintf(deskSchema, waitSchema), do: (*Server).lookUp,
			text: "Waits until a person has decided a pending request or the time is up, and tells how it stands. Tier L0. Once it is approved, repeat the identical call.",
		},
		{
			name: "approval_announce", title: "Announce calls for one approval", schema: fmt.Sprintf(announceSchema, maxAnnounced), do: (*Server).announce, changes: true,
			text: fmt.Sprintf("Asks a person once for up to %d calls that you will make next, such as several edits that belong together. Nothing runs. Each call is judged as if you made it; "+
				"the person sees all that wait and decides once, for exactly these calls. Once approved, make each of them with the identical arguments; each runs once. "+
				"A call whose file an earlier one changes, and each L3 call, is decided by itself. Tier L0.", maxAnnounced),
		},
		{
			name: resumeTool, title: "See where a session stopped", schema: resumeSchema, do: (*Server).resume,
			text: "Tells where your session, or an earlier one of yours in this workspace, stopped: the last call that succeeded, calls that were interrupted or wait for a person, and what has changed since (files, commits). Tier L0. Call it first after a restart.",
		},
	}
}

// OwnTool reports whether a tool is the gate's own: its calls do no work.
func OwnTool(name string) bool {
	return slices.ContainsFunc(ownTools(), func(t ownTool) bool { return t.name == name })
}

func (s *Server) addOwnTools() {
	yes, no := true, false
	for _, t := range ownTools() {
		if t.name == resumeTool && s.o.Sessions == nil {
			continue
		}
		d := mcp.NewToolWithRawSchema(t.name, t.text, json.RawMessage(t.schema))
		d.Title = t.title
		looks := !t.changes
		d.Annotations = mcp.ToolAnnotation{Title: t.title, ReadOnlyHint: &looks, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no}
		s.mcp.AddTools(server.ServerTool{Tool: d, Handler: func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.own(ctx, t, req)
		}})
	}
}

// own answers a call of one of the gate's own tools and records it.
func (s *Server) own(ctx context.Context, t ownTool, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	p := peerOf(ctx)
	a := attempt{tool: t.name, raw: req.Params.RawArguments, meta: req.Params.Meta}
	if len(a.raw) == 0 {
		a.raw = json.RawMessage("{}")
	}
	c := s.begin(ctx, p, a)
	c.tool.Name = a.tool
	defer s.beat(ctx, req.Params.Meta)()
	err := s.frozen(c)
	if err == nil {
		err = s.ready(ctx)
	}
	if err == nil {
		err = t.do(s, ctx, c, a)
	}
	if err != nil {
		return s.result(s.refuse(ctx, c, a, err)), nil
	}
	c.answer.Text = s.o.Log.Redact(c.answer.Text)
	r := s.outcomeRecord(c)
	r.Tier, r.Args, r.Approval = "L0", rawArgs(a.raw), c.allowed.Request.ID
	if _, err := s.o.Log.Append(context.WithoutCancel(ctx), r); err != nil {
		c.answer = unrecorded(c, err)
	}
	return s.result(c), nil
}

// lookUp tells how a request of the session stands.
func (s *Server) lookUp(ctx context.Context, c *call, a attempt) error {
	var in struct {
		ID   string `json:"id"`
		Wait *int64 `json:"wait_ms"`
	}
	if err := tools.Strict(a.raw, &in); err != nil {
		return err
	}
	r, err := s.o.Desk.Get(in.ID)
	if err != nil || r.Session != c.peer.Session || r.Agent != c.peer.Agent {
		return &tools.Failure{Kind: tools.KindExecutionFailed, Class: tools.Fixable, Msg: "this session has no request " + in.ID, Remedy: "take the id from the pending answer"}
	}
	if a.tool == "approval_wait" && r.State == approval.StatePending {
		wait := defaultWait
		if in.Wait != nil {
			wait = time.Duration(*in.Wait) * time.Millisecond
		}
		wctx, cancel := context.WithTimeout(ctx, min(wait, maxWait))
		defer cancel()
		if now, err := s.o.Desk.Wait(wctx, r.ID); err == nil {
			r = now
		}
	}
	c.status, c.answer = audit.StatusOK, standing(r)
	return nil
}

// standing says how a request stands and what the agent does next.
func standing(r approval.Request) tools.Answer {
	text := fmt.Sprintf("%s: %s (%s)", r.ID, r.State, r.Tier)
	switch r.State {
	case approval.StatePending:
		text += fmt.Sprintf("\nnobody has decided yet; it lives until %s", r.Expires.Format(time.RFC3339))
	case approval.StateApproved:
		text += fmt.Sprintf("\nrepeat the identical call now; it runs once, until %s", r.Expires.Format(time.RFC3339))
	case approval.StateDenied:
		text += advice(r.Advice) + "\ndo not repeat the call"
	}
	return tools.Answer{Text: text}
}

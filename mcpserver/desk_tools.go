package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sallyport/audit"
	"sallyport/policy/approval"
	"sallyport/tools"
)

// The gate's own tools tell an agent of its requests and of its sessions. They
// plan nothing that could touch the machine, and see no request but the session's
// own.

const deskSchema = `{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
	"id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Id of the request, as the pending answer named it, such as \"k7f3qd\""}%s}}`

const waitSchema = `,
	"wait_ms": {"type": "integer", "minimum": 0, "maximum": 3600000, "description": "Most milliseconds to wait for a person; 60000 when not given"}`

// defaultWait is how long approval_wait waits unless told otherwise.
const defaultWait = time.Minute

func (s *Server) addOwnTools() {
	list := []ownTool{
		{"approval_status", "Look at a request for approval", "Tells how a pending request stands: pending, approved, denied with the person's advice, expired. Tier L0.",
			fmt.Sprintf(deskSchema, "")},
		{"approval_wait", "Wait for a person's decision", "Waits until a person has decided a pending request or the time is up, and tells how it stands. Tier L0. Once it is approved, repeat the identical call.",
			fmt.Sprintf(deskSchema, waitSchema)},
	}
	if s.o.Sessions != nil {
		list = append(list, ownTool{resumeTool, "See where a session stopped", "Tells where your session, or an earlier one of yours in this workspace, stopped: the last call that succeeded, calls that were interrupted or wait for a person, and what has changed since (files, commits). Tier L0. Call it first after a restart.",
			resumeSchema})
	}
	yes, no := true, false
	for _, t := range list {
		d := mcp.NewToolWithRawSchema(t.name, t.text, json.RawMessage(t.schema))
		d.Title = t.title
		d.Annotations = mcp.ToolAnnotation{Title: t.title, ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no}
		s.mcp.AddTools(server.ServerTool{Tool: d, Handler: s.ownTool})
	}
}

// ownTool is a tool of the gate itself.
type ownTool struct{ name, title, text, schema string }

// ownTool answers each of them and records the call.
func (s *Server) ownTool(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	p := peerOf(ctx)
	a := attempt{tool: req.Params.Name, raw: req.Params.RawArguments, meta: req.Params.Meta}
	if len(a.raw) == 0 {
		a.raw = json.RawMessage("{}")
	}
	c := s.begin(ctx, p, a)
	c.tool.Name = a.tool
	defer s.beat(ctx, req.Params.Meta)()
	answer := s.lookUp
	if a.tool == resumeTool {
		answer = s.resume
	}
	err := s.frozen(c)
	if err == nil {
		err = answer(ctx, c, a)
	}
	if err != nil {
		return s.result(s.refuse(ctx, c, a, err)), nil
	}
	c.answer.Text = s.o.Log.Redact(c.answer.Text)
	r := s.outcomeRecord(c)
	r.Tier, r.Args = "L0", rawArgs(a.raw)
	if _, err := s.o.Log.Append(context.WithoutCancel(ctx), r); err != nil {
		c.answer = unrecorded(c, err)
	}
	return s.result(c), nil
}

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

// OwnTool reports whether a tool is the gate's own: its calls do no work.
func OwnTool(name string) bool {
	return name == "approval_status" || name == "approval_wait" || name == resumeTool
}

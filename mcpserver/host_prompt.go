package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"sallyport/policy"
	"sallyport/policy/approval"
)

const (
	// hostTime is how long the host's person may take to answer; then the call is
	// pending as any other.
	hostTime = 2 * time.Minute
	// hostText is the longest text, in bytes, that a host is asked to show. Nobody
	// reads more in a dialog, and hosts cut what is longer without a word.
	hostText = 8 << 10
)

// hostMay reports whether the host's own prompt may confirm a call: an L2 call where
// the preset is solo, of a local agent whose client shows forms, and only where
// all of it can be shown. Anything else is the desk's.
func hostMay(ctx context.Context, c *call, r approval.Request) bool {
	if !c.solo || r.Tier != policy.L2 || r.Approvers > 1 || len(r.Roles) > 0 || len(r.Cut) > 0 || c.peer.Credential != "" || c.peer.User == "" {
		return false
	}
	s, ok := server.ClientSessionFromContext(ctx).(*session)
	if !ok || askOf(ctx) == nil {
		return false
	}
	can := s.GetClientCapabilities().Elicitation
	return can != nil && (can.Form != nil || can.URL == nil) // an empty one means forms
}

// hostForm is what the host's person fills in. Nothing is chosen beforehand.
var hostForm = json.RawMessage(`{"type": "object", "required": ["decision"], "properties": {
	"decision": {"type": "string", "title": "Decision", "enum": ["deny", "approve"], "enumNames": ["Deny", "Run it once"]},
	"advice": {"type": "string", "title": "Advice for the agent", "description": "What to do instead, when you deny"}}}`)

// askHost has the host ask its person while the request waits at the desk too: the
// first answer counts, and the other question is withdrawn. It reports whether the
// request was decided.
func (s *Server) askHost(ctx context.Context, c *call, r approval.Request) bool {
	var text bytes.Buffer
	text.WriteString("Sallyport: an agent asks to do this.\n\n")
	if err := approval.Render(&text, r, approval.RenderOptions{Now: s.o.Now()}); err != nil || text.Len() > hostText {
		return false
	}
	both, done := context.WithTimeout(ctx, hostTime)
	defer done()
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		if _, err := s.o.Desk.Wait(both, r.ID); err == nil {
			done() // somebody was faster
		}
	}()
	raw, err := askOf(ctx)(both, "elicitation/create", map[string]any{"message": text.String(), "requestedSchema": hostForm})
	done()
	<-decided
	if err == nil {
		s.takeHost(c, r, raw)
	}
	now, err := s.o.Desk.Get(r.ID)
	return err == nil && now.State != approval.StatePending
}

// takeHost hands the desk what the host's person answered. A dialog that was closed
// is no answer, and what the desk refuses leaves the request as it is.
func (s *Server) takeHost(c *call, r approval.Request, raw json.RawMessage) {
	var in struct {
		Action  string `json:"action"`
		Content struct {
			Decision string `json:"decision"`
			Advice   string `json:"advice"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		s.o.Logger.Warn("read the host's answer", "request", r.ID, "err", err)
		return
	}
	by := approval.Person{Name: c.peer.User, Channel: approval.ChannelHost, From: c.client, UID: -1}
	var err error
	switch {
	case in.Action == "accept" && in.Content.Decision == "approve":
		_, err = s.o.Desk.Approve(r.ID, by, approval.ApproveOptions{Shown: r.Shown})
	case in.Action == "accept" && in.Content.Decision == "deny":
		_, err = s.o.Desk.Deny(r.ID, by, in.Content.Advice, r.Shown)
	case in.Action == "decline":
		_, err = s.o.Desk.Deny(r.ID, by, "", r.Shown)
	}
	if err != nil {
		s.o.Logger.Warn("take the host's answer", "request", r.ID, "err", err)
	}
}

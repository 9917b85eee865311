package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/sandbox"
	"sallyport/tools"
)

// Identity is who a caller is to the server and how far it may go. Its JSON is
// stable; resource sallyport://workspace, the tool whoami and the command of that
// name all show it.
type Identity struct {
	User       string            `json:"user,omitempty"` // of the machine
	Agent      string            `json:"agent"`
	Session    string            `json:"session"`
	Client     string            `json:"client,omitempty"`     // what the host calls itself
	Credential string            `json:"credential,omitempty"` // what proved it, over HTTP
	Sources    map[string]string `json:"sources,omitempty"`    // where each of these came from
	Workspace  string            `json:"workspace"`
	Branch     string            `json:"branch"`
	Commit     string            `json:"commit"`
	Worktree   bool              `json:"worktree"` // a linked worktree
	Preset     string            `json:"preset"`
	L2         string            `json:"l2"` // what the preset makes of a call that changes code
	MaxTier    policy.Tier       `json:"max_tier"`
	Tools      []string          `json:"tools"`
	Level      sandbox.Level     `json:"level,omitempty"` // rung of the walls that commands get
	Frozen     bool              `json:"frozen"`
}

// who is a peer as the server sees it now.
func (s *Server) who(ctx context.Context, p *Peer) Identity {
	head := sandbox.ReadHead(p.Workspace)
	preset, of := s.o.preset(p.Workspace)
	id := Identity{
		User: p.User, Agent: p.Agent, Session: p.Session, Client: clientOf(ctx), Credential: p.Credential, Sources: p.Sources,
		Workspace: p.Workspace, Branch: head.Branch, Commit: head.Commit, Worktree: head.Worktree,
		Preset: preset, L2: confirmed(of, head.Worktree), MaxTier: p.MaxTier,
	}
	id.Frozen, _ = s.o.Desk.Frozen(p.Agent)
	if s.o.About != nil {
		var highest policy.Tier
		highest, id.Level = s.o.About(ctx, p.Agent)
		id.MaxTier = min(id.MaxTier, highest)
	}
	var all []mcp.Tool
	for _, t := range s.mcp.ListTools() {
		all = append(all, t.Tool)
	}
	for _, t := range s.visible(ctx, all) {
		id.Tools = append(id.Tools, t.Name)
	}
	slices.Sort(id.Tools)
	return id
}

// confirmed says in words what a preset makes of L2.
func confirmed(p policy.Preset, worktree bool) string {
	switch {
	case p.Worktree && p.L2 == policy.Allow && worktree:
		return "proceeds in this linked worktree; the merge is confirmed"
	case p.Worktree && p.L2 == policy.Allow:
		return "a person confirms each call, for this is no linked worktree"
	case p.Session:
		return "one approval covers the session; the host's own prompt may confirm a call"
	}
	return "a person confirms each call"
}

// whoAmI answers the tool of that name.
func (s *Server) whoAmI(ctx context.Context, c *call, a attempt) error {
	if err := tools.Strict(a.raw, &struct{}{}); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	id := s.who(ctx, c.peer)
	c.status, c.answer = audit.StatusOK, tools.Answer{Text: id.Text(), Data: id}
	return nil
}

// Text is the identity for a reader.
func (i Identity) Text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, value)
		}
	}
	line("user", i.User)
	line("agent", i.Agent)
	line("session", i.Session)
	line("client", i.Client)
	line("credential", i.Credential)
	where := i.Workspace
	if i.Branch != "" {
		where += " on " + i.Branch
	}
	if i.Worktree {
		where += " (linked worktree)"
	}
	line("workspace", where)
	line("preset", i.Preset+": L2: "+i.L2+"; L3: always a person")
	line("up to", i.MaxTier.String())
	line("walls", string(i.Level))
	line("tools", strings.Join(i.Tools, " "))
	if i.Frozen {
		line("frozen", "a person has stopped this agent's calls")
	}
	return b.String()
}

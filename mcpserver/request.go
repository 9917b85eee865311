package mcpserver

import (
	"fmt"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

// maxShown is the largest file, in bytes, that a request shows as a diff.
const maxShown = 1 << 20

// request is what a person is asked: the subject whose digest binds the answer,
// and what they are shown of it.
func (s *Server) request(c *call, l *landing) approval.Ask {
	sub := approval.Subject{
		Agent: c.peer.Agent, Session: c.peer.Session, User: c.peer.User, Tool: c.tool.Name, Args: c.args.Canonical(),
		Workspace: c.peer.Workspace, Branch: c.judged.Workspace.Branch, Commit: c.judged.Workspace.Commit,
		Files: map[string]string{}, Scripts: scripts(c.facts), Revision: c.decision.Revision,
	}
	for _, f := range c.facts.Files {
		sub.Files[f.Path] = f.SHA256
	}
	show := approval.Show{Summary: summary(c), Files: touched(c.facts), Net: endpoints(c.facts)}
	if x := c.action.Exec; x != nil {
		show.Argv = x.Args()
	}
	if l == nil {
		show.Diff = s.diff(c)
	} else {
		sub.Tx = l.tx
		for _, ch := range l.changes {
			sub.Files[ch.Path] = ch.After
		}
		show.Summary = "land what the command changed: " + names(l.changes)
		show.Diff = s.landingDiff(c, l)
	}
	return approval.Ask{Subject: sub, Decision: c.decision, Show: show, Call: c.id}
}

func summary(c *call) string {
	if x := c.action.Exec; x != nil {
		if x.Shell != "" {
			return x.Shell
		}
		return strings.Join(x.Argv, " ")
	}
	var parts []string
	for _, f := range c.action.Files {
		parts = append(parts, string(f.Op)+" "+f.Path)
	}
	return strings.Join(parts, ", ")
}

func touched(f policy.Facts) []string {
	var out []string
	for _, file := range f.Files {
		out = append(out, file.Op+" "+file.Path)
	}
	for _, c := range f.Cmds {
		for _, t := range c.Targets {
			out = append(out, t.Op+" "+t.Path)
		}
	}
	return out
}

func endpoints(f policy.Facts) []string {
	var out []string
	for _, n := range f.Net {
		out = append(out, fmt.Sprintf("%s:%d", n.Host, n.Port))
	}
	return out
}

// diff is a unified diff of what the action would write.
func (s *Server) diff(c *call) string {
	ws, err := sandbox.OpenWorkspace(c.peer.Workspace)
	if err != nil {
		return ""
	}
	defer ws.Close()
	var b strings.Builder
	for _, op := range c.action.Files {
		if !op.Op.Writes() {
			continue
		}
		before, err := ws.ReadFile(op.Path, maxShown)
		if err != nil {
			before = nil
		}
		after, err := op.After(before)
		if err != nil {
			fmt.Fprintf(&b, "%s %s: %v\n", op.Op, op.Path, err)
			continue
		}
		b.WriteString(unified(op.Path, before, after))
	}
	return b.String()
}

func (s *Server) landingDiff(c *call, l *landing) string {
	ws, err := sandbox.OpenWorkspace(c.peer.Workspace)
	if err != nil {
		return ""
	}
	defer ws.Close()
	var b strings.Builder
	for _, ch := range l.changes {
		before, err := ws.ReadFile(ch.Path, maxShown)
		if err != nil {
			before = nil
		}
		after, err := s.o.Runner.TxContent(l.tx, ch.Path)
		if err != nil {
			after = nil
		}
		b.WriteString(unified(ch.Path, before, after))
	}
	return b.String()
}

func unified(path string, before, after []byte) string {
	if len(before) > maxShown || len(after) > maxShown {
		return fmt.Sprintf("%s: too large to show as a diff (%d -> %d bytes)\n", path, len(before), len(after))
	}
	return udiff.Unified("a/"+path, "b/"+path, string(before), string(after))
}

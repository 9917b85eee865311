package mcpserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

// maxShown is the largest file, in bytes, that a request shows as a diff.
const maxShown = 1 << 20

// request is what a person is asked: the subject whose digest binds the answer,
// and what they are shown of it.
func (s *Server) request(c *call, l *landing) approval.Ask {
	judged, facts := c.judged, c.facts
	if l != nil {
		judged.Phase, judged.Changes = policy.PhaseEffects, l.changes
		facts = l.facts
	}
	sub, show := approval.Describe(judged, facts, c.decision)
	if l == nil {
		show.Diff = diff(c)
	} else {
		sub.Tx, sub.Changes = l.tx, digestOf(l.changes)
		show.Summary = "land what the command changed: " + names(l.changes)
		show.Diff = s.landingDiff(c, l)
	}
	return approval.Ask{Subject: sub, Decision: c.decision, Show: show, Call: c.id, Preset: c.peer.Preset}
}

func digestOf(changes []sandbox.Change) string {
	sum := sha256.Sum256(toJSON(changes))
	return hex.EncodeToString(sum[:])
}

// diff is a unified diff of what the action would write.
func diff(c *call) string {
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
	return approval.Unified(path, string(before), string(after))
}

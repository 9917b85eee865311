package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
	"sallyport/tools"
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
	sub.Schema = schemaOf(c.tool)
	if c.planned() { // the agent's own words say it better than the hardened command line
		show.Summary = c.tool.Name + ": " + string(c.args.Canonical())
	}
	d := &differ{}
	if ws, err := sandbox.OpenWorkspace(c.peer.Workspace); err != nil {
		d.cut = append(d.cut, "no diff: "+err.Error())
	} else if l == nil {
		d.action(ws, c.action)
		ws.Close()
	} else {
		sub.Tx, sub.Changes = l.tx, digestOf(l.changes)
		show.Summary = "land what the command changed: " + names(l.changes)
		d.landing(ws, s.o.Runner, l)
		ws.Close()
	}
	show.Diff = d.text.String()
	show.Cut = append(show.Cut, d.cut...)
	return approval.Ask{Subject: sub, Decision: c.decision, Show: show, Call: c.id, Preset: c.preset, Solo: c.solo}
}

// planned reports whether a tool, not the agent, wrote the command.
func (c *call) planned() bool { return c.action.Exec != nil && c.tool.Name != "run_command" }

// schemaOf identifies the form of a tool's arguments.
func schemaOf(t tools.Tool) string {
	sum := sha256.Sum256(t.Input)
	return hex.EncodeToString(sum[:8])
}

func digestOf(changes []sandbox.Change) string {
	sum := sha256.Sum256(toJSON(changes))
	return hex.EncodeToString(sum[:])
}

// differ gathers unified diffs, and a sentence for each that it cannot show.
type differ struct {
	text strings.Builder
	cut  []string
}

// action adds what an action would write.
func (d *differ) action(ws *sandbox.Workspace, a sandbox.Action) {
	for _, op := range a.Files {
		if !op.Op.Writes() {
			continue
		}
		before, ok := d.before(ws, op.Path)
		if !ok {
			continue
		}
		after, err := op.After(before)
		if err != nil {
			d.cut = append(d.cut, fmt.Sprintf("%s: no diff: %v", op.Path, err))
			continue
		}
		d.add(op.Path, before, after)
	}
}

// landing adds what a run changed and has not landed.
func (d *differ) landing(ws *sandbox.Workspace, r runner, l *landing) {
	for _, ch := range l.changes {
		before, ok := d.before(ws, ch.Path)
		if !ok {
			continue
		}
		var after []byte
		if ch.Kind != "removed" {
			var err error
			if after, err = r.TxContent(l.tx, ch.Path); err != nil {
				d.cut = append(d.cut, fmt.Sprintf("%s: no diff: %v", ch.Path, err))
				continue
			}
		}
		d.add(ch.Path, before, after)
	}
}

// before is a file's present content; an absent one has none.
func (d *differ) before(ws *sandbox.Workspace, path string) ([]byte, bool) {
	if !ws.Exists(path) {
		return nil, true
	}
	b, err := ws.ReadFile(path, maxShown)
	if err != nil {
		d.cut = append(d.cut, fmt.Sprintf("%s: no diff: %v", path, err))
		return nil, false
	}
	return b, true
}

func (d *differ) add(path string, before, after []byte) {
	switch {
	case len(after) > maxShown:
		d.cut = append(d.cut, fmt.Sprintf("%s: too large to show as a diff (%d bytes)", path, len(after)))
	case bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0:
		d.cut = append(d.cut, fmt.Sprintf("%s: binary, %d bytes before and %d after", path, len(before), len(after)))
	default:
		d.text.WriteString(approval.Unified(path, string(before), string(after)))
	}
}

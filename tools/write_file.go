package tools

import (
	"fmt"
	"strings"

	"sallyport/sandbox"
)

// pendingNote is what every tool that may wait for a person says of it.
const pendingNote = "When the answer says pending, a person has to approve first: tell the user the approval id, wait, then repeat exactly the same call; it runs once."

type writeFileArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func writeFile() Tool {
	return define(Tool{
		Name:  "write_file",
		Title: "Write a file",
		Description: `Creates a file of the workspace or replaces all of it, with the directories it needs. Tier L2 (L3 for configuration, CI, hooks and the like). ` + pendingNote + `

The write happens whole or not at all. To change a part of an existing file use edit_file. Read a file before you replace it. The content is scanned for dangerous commands and secrets.`,
		Destructive: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["path", "content"],
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "File to write, relative to the workspace, such as \"docs/setup.md\""},
			"content": {"type": "string", "description": "The whole new content"}
		}
	}`, planWriteFile, answerWriteFile)
}

func planWriteFile(a writeFileArgs, p Place) (sandbox.Action, error) {
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpWrite, Path: p.rel(a.Path), Write: &sandbox.Write{Content: []byte(a.Content)}})
}

type changedData struct {
	Path     string          `json:"path"`
	Change   *sandbox.Change `json:"change"` // null when the file already was so
	Replaced int             `json:"replaced,omitempty"`
	SHA256   string          `json:"sha256"`
}

func answerWriteFile(a writeFileArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	data := changedData{Path: r.Path, Change: r.Change, SHA256: r.SHA256}
	lines := strings.Count(a.Content, "\n")
	if a.Content != "" && !strings.HasSuffix(a.Content, "\n") {
		lines++
	}
	size := fmt.Sprintf("(%s, %d bytes)", plural(lines, "line"), len(a.Content))
	switch {
	case r.Change == nil:
		return Answer{Text: fmt.Sprintf("%s already holds exactly this %s; nothing was written.", r.Path, size), Data: data}
	case r.Change.Kind == "added":
		return Answer{Text: fmt.Sprintf("Created %s %s.", r.Path, size), Data: data}
	}
	return Answer{Text: fmt.Sprintf("Replaced %s %s.", r.Path, size), Data: data}
}

package tools

import (
	"fmt"

	"sallyport/sandbox"
)

type editFileArgs struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
	All  bool   `json:"replace_all"`
}

func editFile() Tool {
	return define(Tool{
		Name:  "edit_file",
		Title: "Edit a file",
		Description: `Replaces exact text in a file of the workspace. Tier L2 (L3 for configuration, CI, hooks and the like). ` + pendingNote + `

old_string must be the file's text to the letter, with its indentation, without the line numbers of read_file, and must occur exactly once: add surrounding lines to make it unique, or pass replace_all: true. Line ends (LF or CRLF), mode and encoding mark of the file are kept. The edit happens whole or not at all.`,
		Destructive: true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["path", "old_string", "new_string"],
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "File to edit, relative to the workspace"},
			"old_string": {"type": "string", "minLength": 1, "description": "The exact text to replace"},
			"new_string": {"type": "string", "description": "The text to put in its place; may be empty"},
			"replace_all": {"type": "boolean", "description": "Replace every occurrence; false when not given"}
		}
	}`, planEditFile, answerEditFile)
}

func planEditFile(a editFileArgs, p Place) (sandbox.Action, error) {
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpEdit, Path: p.rel(a.Path), Edit: &sandbox.Edit{Old: a.Old, New: a.New, All: a.All}})
}

func answerEditFile(a editFileArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	return Answer{
		Text: fmt.Sprintf("Edited %s: %s made.", r.Path, plural(r.Replaced, "replacement")),
		Data: changedData{Path: r.Path, Change: r.Change, Replaced: r.Replaced, SHA256: r.SHA256},
	}
}

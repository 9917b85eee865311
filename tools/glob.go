package tools

import (
	"fmt"

	"sallyport/sandbox"
)

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Limit   int    `json:"limit"`
	Offset  int    `json:"offset"`
}

func glob() Tool {
	return define(Tool{
		Name:  "glob",
		Title: "Find files by name",
		Description: `Finds files whose path matches a pattern, newest first. Tier L0: runs at once.

Patterns know *, **, ?, [abc] and {a,b}: "src/**/*.ts", "**/*_test.go", "*.{yml,yaml}". A pattern without a slash is for the file name, at any depth. Files that .gitignore leaves out and .git are skipped. Use grep to search inside files.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["pattern"],
		"properties": {
			"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Pattern, such as \"**/*.go\""},
			"path": {"type": "string", "description": "Directory to look in, relative to the workspace; the workspace itself when not given"},
			"limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": "Most files to return; 100 when not given"},
			"offset": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "Files to skip first, to see the next ones"}
		}
	}`, planGlob, answerGlob)
}

func planGlob(a globArgs, p Place) (sandbox.Action, error) {
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpGlob, Path: p.rel(a.Path), Glob: &sandbox.Glob{Pattern: a.Pattern, Limit: a.Limit, Offset: a.Offset}})
}

func answerGlob(a globArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	data := entriesData{Path: r.Path, Entries: r.Entries, Total: r.Total, Skipped: r.Skipped}
	if r.Total == 0 {
		return Answer{Text: fmt.Sprintf("No files match %q in %s.", a.Pattern, shown(r.Path)) + skippedNote(r.Skipped), Data: data}
	}
	if len(r.Entries) == 0 {
		return noneAt(a.Offset, plural(r.Total, "file"), data)
	}
	var p page
	for _, e := range r.Entries {
		if !p.add(shown(e.Path)) {
			break
		}
	}
	text := p.String()
	if next := a.Offset + p.n; next < r.Total {
		text += fmt.Sprintf("\n… cut: %s; continue with offset=%d, or use a narrower pattern", plural(r.Total-next, "more file"), next)
	}
	return Answer{Text: text + skippedNote(r.Skipped), Data: data}
}

package tools

import (
	"fmt"

	"sallyport/sandbox"
)

type listDirectoryArgs struct {
	Path   string `json:"path"`
	Depth  int    `json:"depth"`
	Hidden bool   `json:"hidden"`
	Offset int    `json:"offset"`
}

func listDirectory() Tool {
	return define(Tool{
		Name:  "list_directory",
		Title: "List a directory",
		Description: `Lists a directory of the workspace, sorted by path. Tier L0: runs at once.

A directory ends in "/", a symbolic link in "@", a file shows its size. What .gitignore leaves out is not listed unless hidden is true. Use depth to see a tree, glob to find files by name, grep to find text.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"path": {"type": "string", "description": "Directory, relative to the workspace; the workspace itself when not given"},
			"depth": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Levels to show; 1 when not given"},
			"hidden": {"type": "boolean", "description": "Also list what .gitignore leaves out"},
			"offset": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "Entries to skip first, to see the next ones"}
		}
	}`, planListDirectory, answerListDirectory)
}

func planListDirectory(a listDirectoryArgs, p Place) (sandbox.Action, error) {
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpList, Path: p.rel(a.Path), List: &sandbox.List{Depth: a.Depth, Hidden: a.Hidden, Offset: a.Offset}})
}

type entriesData struct {
	Path    string          `json:"path"`
	Entries []sandbox.Entry `json:"entries"`
	Total   int             `json:"total"`
	Skipped []string        `json:"skipped,omitempty"`
}

func answerListDirectory(a listDirectoryArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	data := entriesData{Path: r.Path, Entries: r.Entries, Total: r.Total, Skipped: r.Skipped}
	if r.Total == 0 {
		return Answer{Text: shown(r.Path) + " is empty" + map[bool]string{true: ".", false: " (or holds only ignored files; pass hidden: true to see them)."}[a.Hidden], Data: data}
	}
	if len(r.Entries) == 0 {
		return noneAt(a.Offset, plural(r.Total, "entry"), data)
	}
	var p page
	for _, e := range r.Entries {
		if !p.add(entryLine(e)) {
			break
		}
	}
	text := p.String()
	if next := a.Offset + p.n; next < r.Total {
		text += fmt.Sprintf("\n… cut: %s; continue with offset=%d, or list a subdirectory or a smaller depth", plural(r.Total-next, "more entry"), next)
	}
	return Answer{Text: text + skippedNote(r.Skipped), Data: data}
}

// noneAt answers an offset beyond the last of a list.
func noneAt(offset int, all string, data any) Answer {
	return Answer{Text: fmt.Sprintf("Nothing at offset %d; there are %s in all. Use a smaller offset.", offset, all), Data: data}
}

func entryLine(e sandbox.Entry) string {
	switch e.Kind {
	case "dir":
		return shown(e.Path) + "/"
	case "link":
		return shown(e.Path) + "@"
	case "file":
		return fmt.Sprintf("%s  (%s)", shown(e.Path), byteSize(e.Size))
	}
	return shown(e.Path) + "  (special file)"
}

func byteSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func skippedNote(skipped []string) string {
	if len(skipped) == 0 {
		return ""
	}
	text := "\nNot looked at:"
	for _, s := range skipped {
		text += "\n  " + clipped(shown(s), 200)
	}
	return text
}

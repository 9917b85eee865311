package tools

import (
	"bytes"
	"fmt"
	"strings"

	"sallyport/sandbox"
)

type readFileArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

func readFile() Tool {
	return define(Tool{
		Name:  "read_file",
		Title: "Read a file",
		Description: `Reads a text file of the workspace. Tier L0: runs at once.

Each line is shown as its number, a tab and the line ("12<TAB>func main() {"). Up to 2,000 lines are shown; use offset and limit for a part of a long file. Lines over 2,000 characters are cut. Binary files are named, not shown. Read a file before you edit it: edit_file needs its exact text, without the number and the tab.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["path"],
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "File to read, relative to the workspace or absolute inside it, such as \"cmd/server/main.go\""},
			"offset": {"type": "integer", "minimum": 0, "maximum": 1000000000, "description": "First line to show, counted from 1"},
			"limit": {"type": "integer", "minimum": 1, "maximum": 100000, "description": "Number of lines to show; 2000 when not given"}
		}
	}`, planReadFile, answerReadFile)
}

func planReadFile(a readFileArgs, p Place) (sandbox.Action, error) {
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpRead, Path: p.rel(a.Path), Read: &sandbox.Read{Offset: a.Offset, Limit: a.Limit}})
}

type readFileData struct {
	Path   string `json:"path"`
	First  int    `json:"first_line"`
	Shown  int    `json:"shown_lines"`
	Lines  int    `json:"lines"`
	Size   int64  `json:"size"`
	Binary bool   `json:"binary"`
	SHA256 string `json:"sha256"`
}

func answerReadFile(a readFileArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	data := readFileData{Path: r.Path, First: r.First, Lines: r.Lines, Size: r.Size, Binary: r.Binary, SHA256: r.SHA256}
	switch {
	case r.Binary:
		return Answer{Text: fmt.Sprintf("%s is a binary file of %d bytes (SHA-256 %s); its content is not shown. Use run_command with file, xxd or strings to look at it.", r.Path, r.Size, r.SHA256), Data: data}
	case r.Size == 0:
		return Answer{Text: r.Path + " exists and is empty.", Data: data}
	case len(r.Data) == 0:
		return Answer{Text: fmt.Sprintf("%s has only %s; nothing at offset %d. Use a smaller offset.", r.Path, plural(r.Lines, "line"), a.Offset), Data: data}
	}
	text := bytes.TrimSuffix(r.Data, []byte("\n"))
	if r.First == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	var p page
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if !p.add(fmt.Sprintf("%d\t%s", r.First+p.n, strings.TrimSuffix(string(line), "\r"))) {
			break
		}
	}
	data.Shown = p.n
	next := r.First + p.n
	if rest := r.Lines - next + 1; rest > 0 {
		return Answer{Text: fmt.Sprintf("%s\n… cut: %s of %d; continue with offset=%d", p.String(), plural(rest, "more line"), r.Lines, next), Data: data}
	}
	return Answer{Text: p.String(), Data: data}
}

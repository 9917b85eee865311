package tools

import (
	"fmt"

	"sallyport/sandbox"
)

// grepArgs bears the names of Claude Code's Grep.
type grepArgs struct {
	Pattern   string `json:"pattern"`
	Path      string `json:"path"`
	Glob      string `json:"glob"`
	Mode      string `json:"output_mode"`
	After     int    `json:"-A"`
	Before    int    `json:"-B"`
	Around    int    `json:"-C"`
	Context   int    `json:"context"`
	NoCase    bool   `json:"-i"`
	Numbers   *bool  `json:"-n"`
	HeadLimit int    `json:"head_limit"`
	Offset    int    `json:"offset"`
	Multiline bool   `json:"multiline"`
}

func grep() Tool {
	return define(Tool{
		Name:  "grep",
		Title: "Search in files",
		Description: `Searches the workspace's files with a regular expression (RE2, as in Go: no look-around, no back-references). Tier L0: runs at once.

output_mode: "files_with_matches" (the default) gives paths, "content" gives path:line:text with -A/-B/-C lines of context, "count" gives matching lines per file. Escape what is meant literally: "interface\{\}". Patterns match within one line; with multiline: true they may span lines and "." also matches a line end. Files that .gitignore leaves out, binary files and .git are skipped. Answers are sorted by path; page with head_limit and offset.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["pattern"],
		"properties": {
			"pattern": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "Regular expression (RE2), such as \"func \\\\w+Handler\\\\(\""},
			"path": {"type": "string", "description": "File or directory to search, relative to the workspace; all of it when not given"},
			"glob": {"type": "string", "maxLength": 1000, "description": "Only files that match, such as \"*.go\" or \"src/**/*.{ts,tsx}\""},
			"output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "Form of the answer; files_with_matches when not given"},
			"-A": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines to show after each match (content)"},
			"-B": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines to show before each match (content)"},
			"-C": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines to show before and after each match (content)"},
			"context": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "The same as -C"},
			"-i": {"type": "boolean", "description": "Ignore case"},
			"-n": {"type": "boolean", "description": "Show line numbers (content); true when not given"},
			"head_limit": {"type": "integer", "minimum": 0, "maximum": 10000, "description": "Most lines (content) or files to return; 250 when not given or 0"},
			"offset": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "Lines or files to skip first"},
			"multiline": {"type": "boolean", "description": "Let the pattern span lines"}
		}
	}`, planGrep, answerGrep)
}

func planGrep(a grepArgs, p Place) (sandbox.Action, error) {
	around := max(a.Around, a.Context)
	s := sandbox.Search{
		Pattern: a.Pattern, Mode: sandbox.SearchMode(a.Mode), Glob: a.Glob, IgnoreCase: a.NoCase, Multiline: a.Multiline,
		Before: max(a.Before, around), After: max(a.After, around), Offset: a.Offset, Limit: a.HeadLimit,
	}
	if s.Mode == "" {
		s.Mode = sandbox.SearchFiles
	}
	return fileAction(p, sandbox.FileOp{Op: sandbox.OpSearch, Path: p.rel(a.Path), Search: &s})
}

type grepData struct {
	Path    string          `json:"path"`
	Matches []sandbox.Match `json:"matches"`
	Total   int             `json:"total"`
	Cut     bool            `json:"cut"`
	Skipped []string        `json:"skipped,omitempty"`
}

func answerGrep(a grepArgs, act sandbox.Action, res sandbox.Result) Answer {
	r := one(res)
	data := grepData{Path: r.Path, Matches: r.Matches, Total: r.Total, Cut: r.Cut, Skipped: r.Skipped}
	if r.Total == 0 {
		return Answer{Text: "No matches found." + skippedNote(r.Skipped), Data: data}
	}
	if len(r.Matches) == 0 {
		return Answer{Text: fmt.Sprintf("No more matches at offset %d; there are %d in all.", a.Offset, r.Total), Data: data}
	}
	var p page
	var last sandbox.Match
	contexts := max(a.Around, a.Context, a.Before, a.After) > 0
	shown := 0
	for _, m := range r.Matches {
		gap := contexts && shown > 0 && (m.Path != last.Path || m.Line != last.Line+1)
		if gap && !p.add("--") || !p.add(grepLine(m, a)) {
			break
		}
		last = m
		shown++
	}
	text := p.String()
	if next := a.Offset + shown; next < r.Total {
		unit := map[string]string{"content": "line"}[a.Mode]
		if unit == "" {
			unit = "file"
		}
		text += fmt.Sprintf("\n… cut: at least %s; continue with offset=%d", plural(r.Total-next, "more "+unit), next)
	}
	return Answer{Text: text + skippedNote(r.Skipped), Data: data}
}

// grepLine words a match as grep -n does: ":" for a hit, "-" for context.
func grepLine(m sandbox.Match, a grepArgs) string {
	switch {
	case a.Mode == "count":
		return fmt.Sprintf("%s:%d", shown(m.Path), m.Count)
	case a.Mode != "content":
		return shown(m.Path)
	}
	sep := ":"
	if m.Context {
		sep = "-"
	}
	if a.Numbers != nil && !*a.Numbers {
		return shown(m.Path) + sep + m.Text
	}
	return fmt.Sprintf("%s%s%d%s%s", shown(m.Path), sep, m.Line, sep, m.Text)
}

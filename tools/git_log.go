package tools

import (
	"fmt"

	"sallyport/sandbox"
)

type gitLogArgs struct {
	Limit int    `json:"limit"`
	Skip  int    `json:"offset"`
	Ref   string `json:"ref"`
	Path  string `json:"path"`
}

func gitLog() Tool {
	return define(Tool{
		Name:  "git_log",
		Title: "Git log",
		Description: `Shows commits, newest first: short hash, date, author and subject. Tier L0: runs at once.

limit is 20 when not given; ref starts at a commit, branch or range ("v1.2..HEAD"); path shows only commits that touch a file or directory. Use git_diff with ref "HASH~1..HASH" to see what a commit changed.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Most commits to show; 20 when not given"},
			"offset": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "Commits to skip first, to see the next ones"},
			"ref": {`+refSchema+`, "description": "Where to start, such as \"main\" or \"v1.2..HEAD\"; HEAD when not given"},
			"path": {"type": "string", "description": "Only commits that touch this file or directory"}
		}
	}`, planGitLog, answerGitLog)
}

func planGitLog(a gitLogArgs, p Place) (sandbox.Action, error) {
	if a.Limit == 0 {
		a.Limit = 20
	}
	args := []string{"log", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", fmt.Sprintf("--max-count=%d", a.Limit),
		fmt.Sprintf("--skip=%d", a.Skip), "--date=iso-strict", "--format=%h %ad %an%n    %s", "--end-of-options"}
	if a.Ref != "" {
		args = append(args, a.Ref)
	}
	args = append(args, "--")
	return gitExec(p, append(args, gitPaths(p, a.Path)...)...)
}

func answerGitLog(_ gitLogArgs, _ sandbox.Action, res sandbox.Result) Answer {
	return gitAnswer(res, "(no commits)")
}

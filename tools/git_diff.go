package tools

import "sallyport/sandbox"

type gitDiffArgs struct {
	Staged bool   `json:"staged"`
	Ref    string `json:"ref"`
	Path   string `json:"path"`
	Stat   bool   `json:"stat"`
}

func gitDiff() Tool {
	return define(Tool{
		Name:  "git_diff",
		Title: "Git diff",
		Description: `Shows changes as a unified diff. Tier L0: runs at once.

Without arguments: what is changed and not staged. staged: true shows what git_commit would commit; ref compares with a commit, branch or range ("main", "HEAD~2", "main...HEAD"); path narrows to a file or directory; stat: true gives only a summary per file, good for a first look at a large diff.`,
		ReadOnly: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"staged": {"type": "boolean", "description": "Compare the index with HEAD (or ref)"},
			"ref": {`+refSchema+`, "description": "Commit, branch or range to compare with, such as \"main...HEAD\""},
			"path": {"type": "string", "description": "Only this file or directory, relative to the workspace"},
			"stat": {"type": "boolean", "description": "Only a summary per file"}
		}
	}`, planGitDiff, answerGitDiff)
}

func planGitDiff(a gitDiffArgs, p Place) (sandbox.Action, error) {
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"}
	if a.Staged {
		args = append(args, "--cached")
	}
	if a.Stat {
		args = append(args, "--stat")
	}
	args = append(args, "--end-of-options")
	if a.Ref != "" {
		args = append(args, a.Ref)
	}
	args = append(args, "--")
	return gitExec(p, append(args, gitPaths(p, a.Path)...)...)
}

func answerGitDiff(_ gitDiffArgs, _ sandbox.Action, res sandbox.Result) Answer {
	return gitAnswer(res, "(no differences)")
}

package tools

import "sallyport/sandbox"

type gitAddArgs struct {
	Paths []string `json:"paths"`
}

func gitAdd() Tool {
	return define(Tool{
		Name:        "git_add",
		Title:       "Git add",
		Description: `Stages files for the next git_commit; also stages the removal of files that are gone. Tier L2. ` + pendingNote + ` Paths are taken literally, without wildcards; a directory stages all beneath it. Ignored files are not staged.`,
		Idempotent:  true,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["paths"],
		"properties": {
			"paths": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string", "minLength": 1}, "description": "Files or directories, relative to the workspace, such as [\"main.go\", \"docs\"]"}
		}
	}`, planGitAdd, answerGitAdd)
}

func planGitAdd(a gitAddArgs, p Place) (sandbox.Action, error) {
	act, err := gitExec(p, append([]string{"add", "--all", "--verbose", "--"}, gitPaths(p, a.Paths...)...)...)
	act.Exec.Write, act.Exec.Asked = sandbox.WriteDirect, true
	return act, err
}

func answerGitAdd(_ gitAddArgs, _ sandbox.Action, res sandbox.Result) Answer {
	return gitAnswer(res, "(nothing new to stage)")
}

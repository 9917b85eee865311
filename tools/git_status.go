package tools

import "sallyport/sandbox"

type gitStatusArgs struct{}

func gitStatus() Tool {
	return define(Tool{
		Name:        "git_status",
		Title:       "Git status",
		Description: `Shows the branch and the changed, staged and untracked files of the workspace's repository, as git status --short --branch does. Tier L0: runs at once.`,
		ReadOnly:    true, Idempotent: true,
	}, `{"type": "object", "additionalProperties": false, "properties": {}}`, planGitStatus, answerGitStatus)
}

func planGitStatus(_ gitStatusArgs, p Place) (sandbox.Action, error) {
	return gitExec(p, "status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty")
}

func answerGitStatus(_ gitStatusArgs, _ sandbox.Action, res sandbox.Result) Answer {
	return gitAnswer(res, "(clean)")
}

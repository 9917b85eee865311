package tools

import (
	"strings"

	"sallyport/sandbox"
)

type gitCommitArgs struct {
	Message string   `json:"message"`
	Paths   []string `json:"paths"`
	All     bool     `json:"all"`
}

func gitCommit() Tool {
	return define(Tool{
		Name:  "git_commit",
		Title: "Git commit",
		Description: `Commits what is staged. Tier L2. ` + pendingNote + `

paths commits exactly these tracked files as they are now, all: true every change of tracked files; new files must be staged with git_add first. Hooks do not run and the commit is not signed; the author is the repository's user.name and user.email. A last line, Sallyport-Call, names the call. Nothing is pushed.`,
	}, `{
		"type": "object", "additionalProperties": false, "required": ["message"],
		"properties": {
			"message": {"type": "string", "minLength": 1, "maxLength": 20000, "pattern": "\\S", "description": "Commit message: a short first line, then an empty line and the reason"},
			"paths": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string", "minLength": 1}, "description": "Only these files, relative to the workspace"},
			"all": {"type": "boolean", "description": "Every change of tracked files"}
		}
	}`, planGitCommit, answerGitCommit)
}

func planGitCommit(a gitCommitArgs, p Place) (sandbox.Action, error) {
	if a.All && len(a.Paths) > 0 {
		return sandbox.Action{}, invalid("arguments of git_commit: paths and all do not go together", "give one of them")
	}
	args := []string{"commit", "--no-verify", "--no-gpg-sign", "--no-edit", "--message=" + p.Mark.sign(a.Message)}
	if a.All {
		args = append(args, "--all")
	}
	args = append(args, "--")
	act, err := gitExec(p, append(args, gitPaths(p, a.Paths...)...)...)
	act.Exec.Write, act.Exec.Asked = sandbox.WriteDirect, true
	return act, err
}

func answerGitCommit(_ gitCommitArgs, _ sandbox.Action, res sandbox.Result) Answer {
	ans := gitAnswer(res, "(committed)")
	if ans.Failure == nil {
		return ans
	}
	out := string(res.Stdout.Data) + string(res.Stderr.Data)
	switch {
	case strings.Contains(out, "nothing to commit"), strings.Contains(out, "nothing added to commit"), strings.Contains(out, "no changes added"):
		ans.Failure.Remedy = "stage changes with git_add, or pass all: true"
	case strings.Contains(out, "Please tell me who you are"), strings.Contains(out, "ident name"):
		ans.Failure.Remedy = "ask the user to set user.name and user.email in the repository's configuration"
	case strings.Contains(out, "index.lock"):
		ans.Failure.Class = Transient
		ans.Failure.Remedy = "another git is at work; repeat the call in a moment"
	default:
		return ans
	}
	ans.Text += "\nWhat to do: " + ans.Failure.Remedy
	return ans
}

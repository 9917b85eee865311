package tools

import (
	"time"

	"sallyport/sandbox"
)

// gitTimeout bounds one git program.
const gitTimeout = 60 * time.Second

// gitExec plans git with everything off that would run another program or
// reach the network, whatever the repository's configuration says: fsmonitor
// and hooks (CVE-2026-45033, -72718), ext:: transports, pagers, signing.
// Pathspecs are literal, so that a path is a path.
func gitExec(p Place, args ...string) (sandbox.Action, error) {
	argv := []string{
		"git",
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never",
		"-c", "commit.gpgSign=false", "-c", "log.showSignature=false", "-c", "color.ui=false", "-c", "core.quotePath=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=" + p.Root,
		"--no-optional-locks", "--no-pager", "--literal-pathspecs",
	}
	return sandbox.Action{Exec: &sandbox.Exec{
		Argv:    append(argv, args...),
		Dir:     ".",
		Timeout: gitTimeout,
		Env: map[string]string{
			"GIT_TERMINAL_PROMPT": "0",
			"GIT_CONFIG_NOSYSTEM": "1",
			"GIT_EDITOR":          "false",
			"LC_ALL":              "C.UTF-8",
			// The last resort for who commits: user.email of the repository
			// and of the cell's own configuration win.
			"EMAIL": "agent@sallyport.invalid",
		},
	}}, nil
}

// gitPaths are operands after "--", relative to the workspace.
func gitPaths(p Place, asked ...string) []string {
	var out []string
	for _, a := range asked {
		if a != "" {
			out = append(out, p.rel(a))
		}
	}
	return out
}

// refSchema describes a revision or range; it cannot look like an option.
const refSchema = `"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^-\\s\\x00-\\x1f][^\\s\\x00-\\x1f]*$"`

func gitAnswer(res sandbox.Result, empty string) Answer {
	out := streams(res)
	if res.Exit == 0 && out == "" {
		out = empty
	}
	return commandAnswer(res, out)
}

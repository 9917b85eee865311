package tools

import "sallyport/sandbox"

// Git plans a git program for Sallyport's own reading of a repository, hardened
// as the git tools are: no hook, pager, fsmonitor or transport of the
// repository's configuration runs. It writes nothing.
func Git(root string, args ...string) (sandbox.Action, error) {
	act, err := gitExec(Place{Root: root}, args...)
	act.Workspace = root
	return act, err
}

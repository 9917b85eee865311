# Git. What git commands do to history, to remotes and to themselves.
package sallyport.rules

# METADATA
# title: Change in the repository
# custom:
#   id: git.change
#   tier: L2
#   reason: it changes the work tree, the index or the history
#   remedy: ""
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub in {
		"add", "commit", "checkout", "switch", "merge", "rebase", "reset", "restore", "rm", "mv", "stash",
		"cherry-pick", "revert", "tag", "branch", "clean", "apply", "am", "init", "notes", "worktree", "bisect",
		"sparse-checkout", "read-tree", "update-index", "write-tree", "commit-tree", "gc", "prune", "repack",
		"pack-refs", "mergetool", "maintenance", "rerere", "replace", "bundle", "archive", "format-patch",
		"symbolic-ref", "reflog", "fsck", "lfs", "flow", "unpack-objects", "fast-import", "subtree",
	}
	not git_listing
}

# Sub-commands that list when nothing but listing flags is given.
git_listing if {
	input.cmd.sub in {"branch", "tag", "stash", "worktree", "notes", "reflog", "bisect"}
	word({"list", "show"})
}

git_listing if {
	input.cmd.sub in {"branch", "tag", "reflog"}
	count(input.cmd.args) == 0
	every f in input.cmd.flags {
		f in {"-l", "--list", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--show-current", "--sort", "--format", "--contains", "--merged", "--no-merged", "--points-at", "-n", "--column"}
	}
}

# METADATA
# title: Fetch from a remote
# custom:
#   id: git.fetch
#   tier: L2
#   reason: it fetches from a remote
#   remedy: ""
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub in {"fetch", "pull", "clone", "ls-remote", "submodule", "remote-update", "fetch-pack"}
}

# METADATA
# title: Remotes of the repository
# custom:
#   id: git.remote
#   tier: L3
#   reason: it changes where the repository fetches from and pushes to
#   remedy: ask the person you work for to set the remote
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "remote"
	word({"add", "set-url", "rename", "remove", "rm", "set-head", "set-branches"})
}

# METADATA
# title: Push
# custom:
#   id: git.push
#   tier: L3
#   reason: it publishes commits
#   remedy: commit locally and leave the push to the person you work for
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub in {"push", "send-pack", "send-email", "http-push", "svn", "p4", "cvsexportcommit", "request-pull"}
}

git_forced if flag({"-f", "--force", "--force-with-lease", "--force-if-includes", "--mirror", "-d", "--delete", "--prune"})

git_forced if {
	some a in input.cmd.args
	startswith(a, "+")
}

git_forced if {
	some a in input.cmd.args
	startswith(a, ":")
}

# METADATA
# title: Forced push
# custom:
#   id: git.push-force
#   tier: L3
#   reason: it rewrites history that others may have fetched
#   remedy: push to a new branch and open a pull request
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "push"
	git_forced
}

# METADATA
# title: Forced push to a protected branch
# custom:
#   id: git.push-force-protected
#   tier: L3
#   verdict: deny
#   reason: it rewrites the history of a protected branch
#   remedy: push to a new branch and open a pull request
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "push"
	git_forced
	some branch in git_pushed
	some protected in data.sallyport.protected_branches
	glob.match(protected, ["/"], branch)
}

# The branches a push names; the current one when it names none.
git_pushed contains branch if {
	some i, a in input.cmd.args
	i > 0
	parts := split(trim_prefix(a, "+"), ":")
	branch := trim_prefix(parts[count(parts) - 1], "refs/heads/")
}

git_pushed contains input.workspace.branch if count(input.cmd.args) < 2

# METADATA
# title: History destroyed
# custom:
#   id: git.destroy-history
#   tier: L3
#   reason: it removes commits so that nothing can restore them
#   remedy: leave the history; make a new commit instead
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub in {"filter-branch", "filter-repo", "update-ref", "reflog", "gc", "prune"}
	git_destroys
}

git_destroys if input.cmd.sub in {"filter-branch", "filter-repo", "update-ref"}

git_destroys if {
	input.cmd.sub == "reflog"
	word({"expire", "delete"})
}

git_destroys if {
	input.cmd.sub in {"gc", "prune"}
	some a in input.cmd.argv
	regex.match(`^--(prune|expire)=(now|all)`, a)
}

git_config_command if {
	input.cmd.program == "git"
	input.cmd.sub == "config"
}

# METADATA
# title: Settings of git
# custom:
#   id: git.config
#   tier: L2
#   reason: it changes a harmless setting of git
#   remedy: ""
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "config"
	not git_reads_config
	git_harmless_config
}

# METADATA
# title: Settings of git that run programs or reach further
# custom:
#   id: git.config-write
#   tier: L3
#   reason: a setting of git can make later git commands run programs
#   remedy: pass the option to the one command that needs it, or ask
#   obligations: {write: direct}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "config"
	not git_reads_config
	not git_harmless_config
}

git_reads_config if flag({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--show-origin"})

git_reads_config if word({"get", "list"})

git_reads_config if {
	count(input.cmd.args) == 1
	not flag({"--unset", "--unset-all", "--remove-section", "--rename-section", "-e", "--edit", "--add", "--replace-all"})
}

git_harmless_config if {
	some a in input.cmd.args
	regex.match(`(?i)^(user\.(name|email|signingkey)|init\.defaultbranch|safe\.directory|advice\..+|color\..+|pull\.(rebase|ff)|push\.default|core\.(autocrlf|eol|filemode|quotepath|longpaths|ignorecase|abbrev)|fetch\.prune|merge\.(ff|conflictstyle)|commit\.gpgsign|tag\.gpgsign|rerere\.enabled|diff\.(algorithm|renames|colormoved)|log\..+|column\..+|branch\.[^.]+\.(remote|merge|rebase)|merge\.[^.]+\.name|diff\.[^.]+\.(cachetextconv|binary|xfuncname))$`, a)
}

# Cheap looks before the dear ones.
git_option_near if strings.any_prefix_match(input.cmd.argv, ["--u", "--r", "--e", "--o", "--U", "--R", "--E", "--O", "ext::", "EXT::"])

git_option_near if {
	some a in input.cmd.args
	contains(a, "=ext::")
}

git_setting_near if strings.any_prefix_match(input.cmd.argv, ["-c", "--c", "--C"])

# METADATA
# title: Git option that runs a program
# custom:
#   id: git.option-runs
#   tier: L3
#   reason: an option makes git run another program
#   remedy: leave the option out
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	git_option_near
	some a in input.cmd.argv
	regex.match(`(?i)^(--upload-p[a-z]*(=.*)?|--receive-p[a-z]*(=.*)?|--exec(=.*|-path=.+)|--ext-diff|--open-files-in-pager(=.*)?|ext::.*|.*=ext::.*)$`, a)
}

# METADATA
# title: Git run with a setting that runs a program
# custom:
#   id: git.setting-runs
#   tier: L3
#   reason: a setting given to this command makes git run another program
#   remedy: leave the setting out
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	git_setting_near
	some a in input.cmd.argv
	regex.match(`(?i)^(-c|--config-env=?|--config=?)?(core\.(fsmonitor|sshcommand|pager|editor|hookspath|askpass|gitproxy|alternaterefscommand)|alias\..+|credential\..*helper|diff\..*(command|textconv|external)|filter\..+|merge\..+\.driver|gpg\..*program|sequence\.editor|uploadpack\..+|protocol\..+|http\..*proxy|pager\..+|(diff|merge)tool\..+|interactive\.difffilter|url\..+\.(insteadof|pushinsteadof)|remote\..+\.(uploadpack|receivepack|proxy|vcs)|include(if\..+)?\.path|submodule\..+\.update|init\.templatedir|web\.browser|man\..+|browser\..+)(=.*)?$`, a)
	not regex.match(`=(false|0|no|off|never|cat|/dev/null)?$`, a) # turns something off
	input.cmd.sub != "config"
}

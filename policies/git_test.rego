package sallyport.rules_test

git_cases := {
	"status": {"unit": cmd(["git", "status"], {}), "fires": set()},
	"commit": {"unit": cmd(["git", "commit", "-m", "x"], {}), "fires": {"git.change"}},
	"branches listed": {"unit": cmd(["git", "branch", "-a"], {}), "fires": set()},
	"branch removed": {"unit": cmd(["git", "branch", "-D", "x"], {}), "fires": {"git.change"}},
	"stash listed": {"unit": cmd(["git", "stash", "list"], {}), "fires": set()},
	"fetch": {"unit": cmd(["git", "fetch", "origin"], {}), "fires": {"git.fetch"}},
	"remote listed": {"unit": cmd(["git", "remote", "-v"], {}), "fires": set()},
	"remote set": {"unit": cmd(["git", "remote", "add", "x", "y"], {}), "fires": {"git.remote"}},
	"push": {"unit": cmd(["git", "push", "origin", "work"], {}), "fires": {"git.push"}},
	"forced push": {"unit": cmd(["git", "push", "--force", "origin", "work"], {}), "fires": {"git.push", "git.push-force"}},
	"forced by plus": {"unit": cmd(["git", "push", "origin", "+work"], {}), "fires": {"git.push", "git.push-force"}},
	"removal by colon": {"unit": cmd(["git", "push", "origin", ":work"], {}), "fires": {"git.push", "git.push-force"}},
	"forced push to main": {"unit": cmd(["git", "push", "-f", "origin", "main"], {}), "fires": {"git.push", "git.push-force", "git.push-force-protected"}},
	"forced push to a release": {"unit": cmd(["git", "push", "-f", "origin", "HEAD:refs/heads/release/2"], {}), "fires": {"git.push", "git.push-force", "git.push-force-protected"}},
	"forced push of the current branch": {
		"unit": object.union(cmd(["git", "push", "-f"], {}), {"workspace": {"branch": "main"}}),
		"fires": {"git.push", "git.push-force", "git.push-force-protected"},
	},
	"history rewritten": {"unit": cmd(["git", "filter-branch"], {}), "fires": {"git.destroy-history"}},
	"reflog expired": {"unit": cmd(["git", "reflog", "expire", "--all"], {}), "fires": {"git.change", "git.destroy-history"}},
	"pruned at once": {"unit": cmd(["git", "gc", "--prune=now"], {}), "fires": {"git.change", "git.destroy-history"}},
	"config read": {"unit": cmd(["git", "config", "--get", "core.pager"], {}), "fires": set()},
	"config read by name": {"unit": cmd(["git", "config", "user.name"], {}), "fires": set()},
	"config listed": {"unit": cmd(["git", "config", "list"], {}), "fires": set()},
	"user name": {"unit": cmd(["git", "config", "user.name", "Ann"], {}), "fires": {"git.config"}},
	"alias": {"unit": cmd(["git", "config", "alias.x", "!sh"], {}), "fires": {"git.config-write"}},
	"hooks path": {"unit": cmd(["git", "config", "core.hooksPath", "x"], {}), "fires": {"git.config-write"}},
	"upload-pack abbreviated": {"unit": cmd(["git", "fetch", "--upload-pa=x"], {}), "fires": {"git.fetch", "git.option-runs"}},
	"ext transport": {"unit": cmd(["git", "fetch", "ext::sh -c x"], {}), "fires": {"git.fetch", "git.option-runs"}},
	"setting that runs": {"unit": cmd(["git", "-c", "core.fsmonitor=x", "status"], {"sub": "status"}), "fires": {"git.setting-runs"}},
	"setting that does not": {"unit": cmd(["git", "-c", "color.ui=never", "status"], {"sub": "status"}), "fires": set()},
}

test_git[name] if {
	some name, c in git_cases
	ids(c.unit) == c.fires
}

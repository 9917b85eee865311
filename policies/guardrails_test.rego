package sallyport.rules_test

script(rule, severity) := {
	"has": has("script"), "plain": false,
	"script": {"path": "x.sh", "sha256": "", "author": "", "findings": [{"rule": rule, "severity": severity, "path": "x.sh", "line": 2, "text": ""}]},
}

guardrails_cases := {
	"a tool writes a workflow": {"unit": file_call("write_file", "write", ".github/workflows/x.yml", "workspace", "ci"), "fires": {"filesystem.write", "guardrails.write"}},
	"a tool writes a build file": {"unit": file_call("write_file", "write", "web/package.json", "workspace", "autorun"), "fires": {"filesystem.write", "guardrails.build-file"}},
	"a tool writes an editor's task": {"unit": file_call("write_file", "write", ".vscode/tasks.json", "workspace", "autorun"), "fires": {"filesystem.write", "guardrails.write"}},
	"a command writes a build file": {"unit": touching(["touch", "Makefile"], [touch("write", "Makefile", "workspace", "autorun")], [], {}), "fires": {"filesystem.command-write", "guardrails.build-file-command"}},
	"a tool reads a workflow": {"unit": file_call("read_file", "read", ".github/workflows/x.yml", "workspace", "ci"), "fires": {"tools.read", "filesystem.read"}},
	"a command writes a hook": {"unit": touching(["touch", ".git/hooks/x"], [touch("write", ".git/hooks/x", "workspace", "hook")], [], {}), "fires": {"filesystem.command-write", "guardrails.write-command"}},
	"a mode on a workflow": {"unit": touching(["chmod", "+x", "ci.sh"], [touch("write", "ci.sh", "workspace", "ci")], [], {}), "fires": {"filesystem.command-write"}},
	"a mode on a hook": {"unit": touching(["chmod", "+x", ".git/hooks/x"], [touch("write", ".git/hooks/x", "workspace", "hook")], [], {}), "fires": {"filesystem.command-write", "guardrails.write-command"}},
	"git config": {"unit": touching(["git", "config", "user.name", "Ann"], [touch("write", ".git/config", "workspace", "hook")], [], {}), "fires": {"filesystem.command-write", "git.config"}},
	"a tool touches sallyport": {"unit": file_call("read_file", "read", "/s", "outside", "self"), "fires": {"tools.read", "filesystem.outside", "guardrails.self"}},
	"a command touches sallyport": {"unit": touching(["cat", "/s"], [], [touch("read", "/s", "outside", "self")], {}), "fires": {"guardrails.self-command"}},
	"code that cannot be told": {"unit": cmd(["sh"], {"opaque": {"name": false, "args": true, "reason": "runs its input as commands"}}), "fires": {"guardrails.opaque-code"}},
	"a name that cannot be told": {"unit": cmd(["x"], {"opaque": {"name": true, "args": false, "reason": ""}}), "fires": {"guardrails.opaque-name"}},
	"text that cannot be understood": {
		"unit": plain_call({"opaque": {"name": false, "args": false, "reason": "it does not parse"}, "has": object.union(no_call_has, {"opaque": true})}),
		"fires": {"guardrails.opaque-text"},
	},
	"a look-alike": {"unit": cmd(["ls"], {"lookalike": true, "plain": false}), "fires": {"guardrails.lookalike"}},
	"GIT_SSH_COMMAND": {"unit": cmd(["git", "status"], {"assigns": {"GIT_SSH_COMMAND": "sh"}, "has": has("assigns"), "plain": false}), "fires": {"guardrails.variable"}},
	"EDITOR=evil": {"unit": cmd(["git", "commit"], {"assigns": {"EDITOR": "sh -c id"}, "has": has("assigns"), "plain": false}), "fires": {"guardrails.variable", "git.change"}},
	"EDITOR=vim": {"unit": cmd(["git", "commit"], {"assigns": {"EDITOR": "vim"}, "has": has("assigns"), "plain": false}), "fires": {"git.change"}},
	"openssl makes a key": {"unit": touching(["openssl", "genrsa", "-out", "ca.key"], [touch("write", "ca.key", "workspace", "secret")], [], {}), "fires": {"filesystem.command-write"}},
	"openssl overwrites an environment": {"unit": touching(["openssl", "rand", "-out", ".env"], [touch("write", ".env", "workspace", "secret")], [], {}), "fires": {"filesystem.command-write", "guardrails.write-command"}},
	"a key is copied over": {"unit": touching(["cp", "x", "ca.key"], [touch("write", "ca.key", "workspace", "secret")], [], {}), "fires": {"filesystem.command-write", "guardrails.write-command"}},
	"PAGER=cat": {"unit": cmd(["git", "status"], {"assigns": {"PAGER": "cat"}, "has": has("assigns"), "plain": false}), "fires": set()},
	"export LD_PRELOAD": {"unit": cmd(["export", "LD_PRELOAD=x.so"], {}), "fires": {"guardrails.export"}},
	"export GOFLAGS": {"unit": cmd(["export", "GOFLAGS=-v"], {}), "fires": set()},
	"a dangerous pattern": {"unit": cmd(["rm"], {"patterns": ["danger.rm-rf-root"], "has": has("patterns"), "plain": false}), "fires": {"guardrails.pattern"}},
	"dangerous text written": {"unit": content_call("danger.rm-rf-root", "critical"), "fires": {"guardrails.content"}},
	"harmless text written": {"unit": content_call("code.spawn", "medium"), "fires": set()},
	"hidden characters written": {"unit": content_call("unicode.bidi", "high"), "fires": {"guardrails.content", "guardrails.unicode"}},
	"a script that does harm": {"unit": cmd(["bash", "x.sh"], script("danger.rm-rf-root", "critical")), "fires": {"guardrails.script"}},
	"a script that spawns": {"unit": cmd(["python3", "x.py"], script("code.spawn", "medium")), "fires": set()},
	"code that decodes and runs": {
		"unit": cmd(["python3", "-c", "exec(base64.b64decode('eA=='))"], script("code.eval", "medium")),
		"fires": {"guardrails.hidden-code"},
	},
}

test_guardrails[name] if {
	some name, c in guardrails_cases
	ids(c.unit) == c.fires
}

test_pattern_says_its_own if {
	some h in hits(guardrails_cases["a dangerous pattern"].unit)
	h.id == "guardrails.pattern"
	h.verdict == "deny"
	h.reason == "it removes the file system or a home directory"
}

test_script_is_judged_as_the_command if {
	some h in hits(guardrails_cases["a script that does harm"].unit)
	h.id == "guardrails.script"
	h.verdict == "deny"
}

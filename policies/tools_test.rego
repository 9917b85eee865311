package sallyport.rules_test

tools_cases := {
	"a reading tool": {"unit": file_call("read_file", "read", "main.go", "workspace", ""), "fires": {"tools.read", "filesystem.read"}},
	"a command on a throw-away copy": {"unit": plain_call({"call": {"write": "discard"}}), "fires": {"tools.run-discard"}},
	"a command that keeps its writes": {"unit": plain_call({"call": {"write": "transaction"}}), "fires": {"tools.run-write"}},
	"a tool of another agent": {"unit": plain_call({"call": {"granted": false}}), "fires": {"tools.not-yours"}},
	"an unknown tool": {"unit": plain_call({"call": {"tool": "launch", "kind": ""}}), "fires": set()},
}

test_tools[name] if {
	some name, c in tools_cases
	ids(c.unit) == c.fires
}

starts(unit) := {h.id | some h in hits(unit)} & starting

start_cases := {
	"ls": {"unit": cmd(["ls", "-l"], {}), "fires": {"tools.command-read"}},
	"git diff": {"unit": cmd(["git", "diff"], {}), "fires": {"tools.command-read"}},
	"git diff into a file": {"unit": cmd(["git", "diff", "--output"], {}), "fires": {"tools.command"}},
	"ls with a variable": {"unit": cmd(["ls"], {"plain": false}), "fires": {"tools.command"}},
	"go test": {"unit": cmd(["go", "test"], {}), "fires": {"tools.command-build"}},
	"a program nobody knows": {"unit": cmd(["frobnicate"], {}), "fires": {"tools.command"}},
	"a name that cannot be told": {"unit": cmd(["x"], {"opaque": {"name": true, "args": false, "reason": ""}}), "fires": set()},
	"a call that runs": {"unit": plain_call({}), "fires": {"tools.run"}},
}

test_starting_tier[name] if {
	some name, c in start_cases
	starts(c.unit) == c.fires
}

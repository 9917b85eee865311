# How the tests of the packs build inputs. A case is {unit, fires}: the input of
# one evaluation, and the ids of all rules that must fire on it, no more and no
# less, but for the tier a command starts from.
package sallyport.rules_test

starting := {"tools.command", "tools.command-build", "tools.command-read", "tools.run"}

ids(unit) := {h.id | some h in hits(unit)} - starting

hits(unit) := found if found := data.sallyport.rules.hit with input as unit

base := {
	"version": 1, "now": "2026-01-02T03:04:05Z", "phase": "call",
	"call": {
		"tool": "run_command", "kind": "run", "agent": "claude-code", "user": "ann", "client": "", "session": "s",
		"max_tier": "L3", "granted": true, "exec": true, "write": "none",
	},
	"workspace": {"root": "/w", "branch": "work", "commit": "c0ffee", "worktree": false, "preset": "strict"},
	"files": [], "content": [], "net": [],
	"session": {"calls": 0, "repeats": 0, "failures": 0, "changed_files": 0, "reads_secret": false},
}

# A command given by its words; more is merged over it.
cmd(argv, more) := object.union(base, {"unit": "cmd", "cmd": object.union(plain_cmd(argv), more)})

# The same with paths it writes or reads: {op, path, scope, guard}.
touching(argv, writes, reads, more) := cmd(argv, object.union(more, {
	"writes": writes, "reads": reads, "plain": count(writes) == 0,
	"has": object.union(no_has, {"writes": count(writes) > 0, "outside": count([t | some t in reads; t.scope == "outside"]) > 0, "guards": count([t | some t in array.concat(writes, reads); t.guard != ""]) > 0}),
}))

touch(op, path, scope, guard) := {"op": op, "path": path, "scope": scope, "guard": guard}

no_has := {"writes": false, "guards": false, "outside": false, "redirects": false, "assigns": false, "patterns": false, "script": false, "via": false}

has(what) := object.union(no_has, {what: true})

plain_cmd(argv) := {
	"program": argv[0], "class": class_of(argv[0]), "path": concat("/", ["/usr/bin", argv[0]]),
	"argv": argv, "sub": sub_of(argv), "flags": flags_of(argv), "args": args_of(argv),
	"assigns": {}, "dir": "/w", "via": [], "feeds": "", "fed_by": "", "redirects": [],
	"opaque": {"name": false, "args": false, "reason": ""}, "lookalike": false, "targets": [], "patterns": [],
	"text": concat(" ", argv), "writes": [], "reads": [], "plain": true, "has": no_has,
}

class_of(program) := "disk" if startswith(program, "mkfs.")

class_of(program) := object.get(data.sallyport.programs, program, "") if not startswith(program, "mkfs.")

operands(argv) := [a | some i, a in argv; i > 0; not startswith(a, "-")]

# Programs that do not take their first operand as a sub-command.
single := {"chmod", "chown", "find", "curl", "wget", "grep", "cat", "rm", "kill", "dd", "python", "python3", "bash", "sh", "nc", "mkfs.ext4", "psql", "shred", "history", "export", "unset", "pkill"}

sub_of(argv) := operands(argv)[0] if {
	not argv[0] in single
	count(operands(argv)) > 0
} else := ""

args_of(argv) := operands(argv) if argv[0] in single

args_of(argv) := array.slice(operands(argv), 1, count(operands(argv))) if not argv[0] in single

flags_of(argv) := [a | some i, a in argv; i > 0; startswith(a, "-")]

# A call of a tool that names files.
file_call(tool, op, path, scope, guard) := object.union(base, {
	"unit": "call",
	"call": object.union(base.call, {"tool": tool, "kind": object.get(data.sallyport.tool_kinds, tool, ""), "exec": false}),
	"files": [{"op": op, "path": path, "scope": scope, "kind": "file", "guard": guard}],
	"has": object.union(no_call_has, {"files": true, "writes": op in {"write", "edit", "remove", "move"}, "guards": guard != ""}),
})

no_call_has := {"files": false, "writes": false, "guards": false, "content": false, "net": false, "opaque": false}

# A call with anything merged over it.
plain_call(more) := object.union(object.union(base, {"unit": "call", "has": no_call_has}), more)

net_call(endpoints) := plain_call({"net": endpoints, "has": object.union(no_call_has, {"net": true})})

content_call(rule, severity) := plain_call({
	"call": {"tool": "write_file", "kind": "edit", "exec": false},
	"content": [{"rule": rule, "severity": severity, "path": "x.sh", "line": 3, "text": ""}],
	"has": object.union(no_call_has, {"content": true}),
})

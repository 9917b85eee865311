# Vocabulary of the packs. No rule of this file decides anything.
#
# Rules begin with what the rule index can look up: input.unit, input.cmd.program,
# input.cmd.class, input.has.…, input.cmd.has.… . A rule that begins otherwise is
# evaluated for every command, at a microsecond each.
package sallyport.rules

write_ops := {"write", "edit", "move", "remove"}

read_ops := {"read", "list", "glob", "search"}

writes_in(scope) if {
	some w in input.cmd.writes
	w.scope == scope
}

flag(names) if {
	some f in input.cmd.flags
	f in names
}

# A word of the command after the program, whatever its position.
word(names) if input.cmd.sub in names

word(names) if {
	some a in input.cmd.args
	a in names
}

# The command asks only how it is used.
asks_help if {
	count(input.cmd.argv) == 2
	input.cmd.argv[1] in {"--help", "-h", "--version", "-V", "-v", "help", "version"}
}

reading if {
	input.cmd.class == "reader"
	input.cmd.plain == true
}

reading if {
	input.cmd.program == "git"
	input.cmd.plain == true
	input.cmd.sub in {
		"status", "diff", "log", "show", "blame", "rev-parse", "rev-list", "ls-files", "ls-tree",
		"describe", "grep", "shortlog", "cat-file", "show-ref", "for-each-ref", "merge-base",
		"name-rev", "whatchanged", "diff-tree", "diff-index", "check-ignore", "count-objects", "version", "help",
	}
	not flag({
		"--output", "-o", "--ext-diff", "--textconv", "-O", "--open-files-in-pager", "-c",
		"--config-env", "--exec-path", "--git-dir", "-p", "--paginate",
	})
}

// Package inspect sees what a call would do. It turns a policy.Call into
// policy.Facts and judges nothing: rules do that.
//
// # The way of a command's text
//
//	inspect.go     a call comes in; the facts go out
//	parse.go       text -> syntax tree, or a reason why not; the bounds
//	walk.go        the tree, statement by statement (loops.go, arith.go, input.go)
//	scope.go       what the shell knows at each point; forkmap.go copies it cheaply
//	expand.go      words -> literal arguments (params.go: ${…}); the rest is opaque
//	worlds.go      every value a variable may have
//	pure.go        what a substitution or a pipe's left side is known to print
//	written.go     files the call writes before it runs them
//	command.go     one simple command -> one policy.Cmd
//	builtins.go    commands that change the shell (functions.go, assign.go)
//	located.go     command names that a variable holds by custom or a command looks up
//	programs.go    the one table of programs: options, operands, what each does
//	flags.go       reads arguments by that table
//	follow.go      does what the table says: paths, endpoints, commands inside
//	wrappers.go    programs that run programs (containers.go, git.go, build.go, envruns.go)
//	special.go     programs the table cannot describe: find, tar, dd (operands.go: jq, cmake -E, bwrap, Vim's commands)
//	unlisted.go    programs the table does not know: what their arguments seem to read and run
//	script.go      files about to be run, walked like text
//	taskfiles.go   files that just, task, rake, ninja, tox … run without being told their name
//	code.go        Python, Node, Perl, Ruby …: their calls (literals.go); textcode.go: sed, awk, SQL
//	decode.go      base64, hex and gzip payloads
//	paths.go       where a path lies; guards.go: what class it is of
//	net.go         which endpoints a command names
//	content.go     what is written: dangerous.go, secrets.go, unicode.go
//
// # What the facts hold
//
// A command that runs another is a fact, and so is the other; Via names the way
// down, outermost first: "sudo", "xargs", "git -c core.pager", "$()", "eval",
// "function:f", "script:run.sh", "trap", "spawn" (a call in code), "decoded".
//
// Flags hold an option under every name its program knows it by, so that rm -R
// yields "--recursive", "-R" and "-r", and abbreviations yield the full name.
// For programs the table does not know, a cluster is kept and split as well.
//
// Homes are written as /home/agent whatever the cell's is; mktemp yields
// /tmp/tmp.XXXXXXXXXX. Globs stay as they are; what find narrows down by a test
// stands as START/**/NAME. /dev/null and its like count as temporary, and
// /dev/tcp as an endpoint. A path that is not known has Path "" and
// ScopeOutside.
//
// Where branches differ, a command is a fact once for every combination of the
// values its variables may have. A loop over literals is walked item by item.
//
// Opaque.Reason begins with "runs" when what is not known is itself a command:
// a text for a shell, code, or a file that the call writes and then runs. It is
// "ends processes known only when it runs" for a kill of what the text did not
// start itself.
//
// # Findings
//
// In Content and Script.Findings:
//
//	danger.*    rm-rf-root, git-push-force, chmod-777, raw-disk, pipe-to-shell,
//	            fork-bomb (also in Cmd.Patterns), opaque-command
//	code.*      spawn, remove, write, net, eval, load; with "-dynamic" when the
//	            arguments are made up at run time
//	secret.*    one per credential format; secret.assigned by name and entropy
//	unicode.*   bidi, invisible
//	script.*    written-here: the call writes the file it runs
//	content.*   unreadable, unscanned
//
// and the ids of the data's patterns.
//
// # Bounds
//
// Everything is bounded (parse.go); past a bound the facts are opaque and say
// which. Nothing is executed and nothing is resolved on this machine: the only
// input besides the call is Files. The same call makes the same facts.
package inspect

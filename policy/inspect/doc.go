// Package inspect sees what a call would do. It turns a policy.Call into
// policy.Facts and judges nothing: rules do that.
//
// The way of a command's text:
//
//	parse.go      text -> syntax tree, or a reason why not (bounds, control characters)
//	walk.go       the tree, statement by statement, with the state of the shell (scope.go)
//	expand.go     words -> literal arguments; what cannot be known is marked opaque
//	pure.go       what a substitution or a pipe's left side is known to print
//	command.go    one simple command -> one policy.Cmd; then what it runs in turn
//	builtins.go   cd, export, eval, source, trap: commands that change the shell's state
//	programs.go   the one table of programs: flags, operands, and what each does with them
//	flags.go      reads arguments by that table
//	wrappers.go   programs that run other programs: sudo, xargs, ssh, docker, git aliases
//	special.go    programs whose operands are code or need a look of their own: sed, tar, dd, find, git
//	code.go       code in other languages: Python, Node, Perl, Ruby, awk, make
//	script.go     files about to be run, read and walked like text
//	decode.go     base64, hex and gzip payloads
//	paths.go      where a path lies and what guards it
//	net.go        which endpoints a command names
//	content.go    what is written: secrets (secrets.go), dangers, invisible characters (unicode.go)
//
// Everything is bounded (limits in parse.go); past a bound the facts are opaque
// and say so. Nothing is executed and nothing is resolved on this machine: the
// only input besides the call is Files.
package inspect

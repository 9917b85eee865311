# Guardrails. Files that steer other programs, text that hides what it is, and the agent's own limits.
package sallyport.rules

guardrails_steering := {
	"ci": "it changes what the CI runs",
	"hook": "it changes what git runs",
	"shell_rc": "it changes what every shell runs",
	"secret": "it changes a file that holds secrets",
	"config": "it changes configuration",
	"agent": "it changes what limits or steers the agent itself",
	"autorun": "it changes a file that tools run unasked",
}

# METADATA
# title: Guarded file written
# custom:
#   id: guardrails.write
#   tier: L3
#   reason: it changes a guarded file
#   remedy: describe the change and ask the person you work for to make it
hit contains guarded if {
	input.has.guards == true
	some f in input.files
	not f.op in read_ops
	f.op != "exec"
	why := guardrails_steering[f.guard]
	not guardrails_build_file(f)
	guarded := object.union(rego.metadata.rule().custom, {"reason": sprintf("%s: %s", [f.path, why])})
}

# METADATA
# title: Guarded file written by a command
# custom:
#   id: guardrails.write-command
#   tier: L3
#   reason: the command changes a guarded file
#   remedy: describe the change and ask the person you work for to make it
#   obligations: {write: transaction}
hit contains guarded if {
	input.cmd.has.guards == true
	some w in input.cmd.writes
	why := guardrails_steering[w.guard]
	not guardrails_only_mode(w.guard)
	not guardrails_build_file(w)
	not guardrails_makes_key(w)
	not git_config_command
	guarded := object.union(rego.metadata.rule().custom, {"reason": sprintf("%s: %s", [w.path, why])})
}

# METADATA
# title: Build file written
# custom:
#   id: guardrails.build-file
#   tier: L2
#   verdict: ask
#   reason: it changes a file that builds and tests run
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.has.guards == true
	some f in input.files
	not f.op in read_ops
	guardrails_build_file(f)
}

# METADATA
# title: Build file written by a command
# custom:
#   id: guardrails.build-file-command
#   tier: L2
#   verdict: ask
#   reason: the command changes a file that builds and tests run
#   remedy: ""
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.has.guards == true
	some w in input.cmd.writes
	guardrails_build_file(w)
}

guardrails_build_file(file) if {
	file.guard == "autorun"
	some glob_ in data.sallyport.build_files
	glob.match(glob_, ["/"], file.path)
}

# A mode is not content: `chmod 600 key.pem` hardens, and `chmod +x` on a
# workflow changes nothing it does. A hook becomes one by its mode.
guardrails_only_mode(guard) if {
	input.cmd.program == "chmod"
	not guard in {"hook", "shell_rc", "self"}
}

# Making a key or a certificate in the workspace, for tests as a rule, gives
# nothing away; putting other content in its place is another matter.
guardrails_makes_key(file) if {
	file.guard == "secret"
	file.scope == "workspace"
	file.op != "remove"
	input.cmd.program in {"openssl", "mkcert", "step", "cfssl", "cfssljson", "certstrap", "minica", "certtool", "ssh-keygen", "keytool", "age-keygen"}
	regex.match(`\.(pem|key|p12|pfx|jks|keystore)$`, file.path)
}

# METADATA
# title: Sallyport's own files
# custom:
#   id: guardrails.self
#   tier: L3
#   verdict: deny
#   reason: it touches sallyport's own files
#   remedy: nothing an agent does needs them
hit contains rego.metadata.rule().custom if {
	input.has.guards == true
	some f in input.files
	f.guard == "self"
}

# METADATA
# title: Sallyport's own files, by a command
# custom:
#   id: guardrails.self-command
#   tier: L3
#   verdict: deny
#   reason: the command touches sallyport's own files
#   remedy: nothing an agent does needs them
hit contains rego.metadata.rule().custom if {
	input.cmd.has.guards == true
	some t in array.concat(input.cmd.writes, input.cmd.reads)
	t.guard == "self"
}

# METADATA
# title: Command name that cannot be told
# custom:
#   id: guardrails.opaque-name
#   tier: L3
#   reason: which program would run cannot be told from the text
#   remedy: write the program's name plainly
hit contains rego.metadata.rule().custom if input.cmd.opaque.name == true

# METADATA
# title: Code that cannot be told
# description: |
#   The command runs a text that only the run makes: cat f | sh,
#   python -c "$code". A script that is not there to be read is another
#   matter: the run will not find it either.
# custom:
#   id: guardrails.opaque-code
#   tier: L3
#   reason: it runs code that cannot be told from the text
#   remedy: write the commands plainly, or put them in a file and run that
hit contains rego.metadata.rule().custom if {
	regex.match(`^runs (its input as commands|code known only when it runs|a command that code makes up)$`, input.cmd.opaque.reason)
}

# METADATA
# title: Text that cannot be understood
# custom:
#   id: guardrails.opaque-text
#   tier: L3
#   reason: the command could not be understood
#   remedy: write it more plainly, or in smaller steps
hit contains opaque if {
	input.has.opaque == true
	why := input.opaque.reason
	opaque := object.union(rego.metadata.rule().custom, {"reason": sprintf("the command could not be understood: %s", [why])})
}

# METADATA
# title: Look-alike of a system program
# description: It never counts as a reader; what is forbidden to the program it looks like is forbidden to it.
# custom:
#   id: guardrails.lookalike
#   tier: L1
#   reason: a file of the workspace bears the name of a system program and is judged as an unknown one
#   remedy: ""
hit contains rego.metadata.rule().custom if input.cmd.lookalike == true

guardrails_steering_variables := {
	"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
	"PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS", "EDITOR", "VISUAL", "FCEDIT", "SYSTEMD_PAGER", "BAT_PAGER", "PSQL_PAGER", "CRASHPAGER", "FACTERLIB",
	"PERL5OPT", "PERL5DB", "RUBYOPT", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS_FILE", "GCONV_PATH",
}

guardrails_harmless_values := {"", "0", "false", "/bin/false", "/dev/null", "cat", "less", "more", "less -R", "less -FRX", "true", ":", "vi", "vim", "nvim", "nano", "emacs", "emacs -nw", "emacsclient", "code --wait", "code -w", "subl -w", "micro", "hx", "ed", "bat", "delta", "less -F -X", "/bin/true", "/bin/cat", "/usr/bin/vim", "/usr/bin/vi", "/usr/bin/nano", "/usr/bin/true"}

# METADATA
# title: Variable that makes programs run code
# custom:
#   id: guardrails.variable
#   tier: L3
#   reason: a variable makes other programs run code
#   remedy: leave the variable out
hit contains rego.metadata.rule().custom if {
	input.cmd.has.assigns == true
	some name, value in input.cmd.assigns
	name in guardrails_steering_variables
	not value in guardrails_harmless_values
}

# METADATA
# title: Variable that makes later programs run code
# custom:
#   id: guardrails.export
#   tier: L3
#   reason: a variable makes later programs run code
#   remedy: leave the variable out
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"export", "declare", "typeset", "readonly", "local"}
	some a in input.cmd.argv
	parts := split(a, "=")
	count(parts) > 1
	parts[0] in guardrails_steering_variables
	not parts[1] in guardrails_harmless_values
}

# METADATA
# title: Dangerous command
# custom:
#   id: guardrails.pattern
#   tier: L3
#   reason: the command matches a dangerous pattern
#   remedy: leave it out
hit contains matched if {
	input.cmd.has.patterns == true
	some id in input.cmd.patterns
	some p in data.sallyport.patterns
	p.id == id
	matched := object.union(rego.metadata.rule().custom, {"tier": p.tier, "verdict": p.verdict, "reason": p.reason, "remedy": p.remedy, "pattern": id})
}

# METADATA
# title: Dangerous text written
# custom:
#   id: guardrails.content
#   tier: L3
#   reason: the text written holds something dangerous
#   remedy: leave it out
hit contains found if {
	input.has.content == true
	some c in input.content
	c.severity in {"critical", "high"}
	not startswith(c.rule, "secret.")
	found := object.union(rego.metadata.rule().custom, {"reason": sprintf("line %d of %s: %s", [c.line, c.path, guardrails_explained(c.rule)])})
}

# METADATA
# title: Hidden characters
# custom:
#   id: guardrails.unicode
#   tier: L3
#   reason: the text holds invisible or direction-changing characters
#   remedy: write it in plain characters
hit contains rego.metadata.rule().custom if {
	input.has.content == true
	some c in input.content
	startswith(c.rule, "unicode.")
}

guardrails_explained(rule) := p.reason if {
	some p in data.sallyport.patterns
	p.id == rule
} else := rule

# METADATA
# title: Script that does harm
# custom:
#   id: guardrails.script
#   tier: L3
#   reason: the script about to run holds something dangerous
#   remedy: read the script and take that line out
hit contains found if {
	input.cmd.has.script == true
	some c in input.cmd.script.findings
	c.severity in {"critical", "high"}
	found := object.union(rego.metadata.rule().custom, object.union(
		{"reason": sprintf("line %d of %s: %s", [c.line, input.cmd.script.path, guardrails_explained(c.rule)])},
		guardrails_verdict_of(c.rule),
	))
}

# A script is judged as the equal command would be.
guardrails_verdict_of(rule) := {"verdict": p.verdict} if {
	some p in data.sallyport.patterns
	p.id == rule
} else := {}

# METADATA
# title: Code that hides what it runs
# custom:
#   id: guardrails.hidden-code
#   tier: L3
#   reason: it decodes text and runs it, so that nobody can read what will run
#   remedy: write what it should run plainly
hit contains rego.metadata.rule().custom if {
	input.cmd.has.script == true
	some c in input.cmd.script.findings
	c.rule in {"code.spawn", "code.eval", "code.load"}
	some a in input.cmd.argv
	regex.match(`(?i)(b64decode|base64|fromhex|unhexlify|decompress|marshal\.loads|rot.?13|\^\s*ord\(|chr\(|atob\(|from\([^)]*['"](hex|base64)|pack\(["']H|decode_base64|unpack)`, a)
}

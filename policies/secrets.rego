# Secrets. Reading secrets, writing them down, and sending them away.
package sallyport.rules

# METADATA
# title: Secret read by a tool
# custom:
#   id: secrets.read
#   tier: L3
#   reason: the file holds secrets
#   remedy: ask for the one value you need, or work with a template such as .env.example
#   obligations: {redact: true}
hit contains secret if {
	input.has.guards == true
	some f in input.files
	f.op in read_ops
	f.guard == "secret"
	secret := object.union(rego.metadata.rule().custom, {"reason": sprintf("%s holds secrets", [f.path])})
}

# METADATA
# title: Secret read by a command
# custom:
#   id: secrets.read-command
#   tier: L3
#   reason: the command reads a file that holds secrets
#   remedy: ask for the one value you need, or work with a template such as .env.example
#   obligations: {redact: true}
hit contains secret if {
	input.cmd.has.guards == true
	some f in input.cmd.reads
	f.guard == "secret"
	not secrets_signs(f)
	secret := object.union(rego.metadata.rule().custom, {"reason": sprintf("the command reads %s, which holds secrets", [f.path])})
}

# These commands of openssl use a key and never show it.
secrets_signs(file) if {
	input.cmd.program == "openssl"
	input.cmd.sub in {"req", "x509", "ca", "verify", "s_server"}
	file.scope == "workspace"
}

# METADATA
# title: Secret written down
# custom:
#   id: secrets.written
#   tier: L3
#   reason: the text written holds a secret
#   remedy: read the secret from the environment when the program runs
#   obligations: {redact: true}
hit contains rego.metadata.rule().custom if {
	input.has.content == true
	some c in input.content
	startswith(c.rule, "secret.")
}

# METADATA
# title: Dial out after a secret was read
# custom:
#   id: secrets.then-dial
#   tier: L3
#   reason: a secret was read earlier in this session, and this call talks to another machine
#   remedy: start a new session for work that needs the network
#   obligations: {approvers: 1, redact: true}
hit contains rego.metadata.rule().custom if {
	input.session.reads_secret == true
	secrets_dials
}

secrets_dials if {
	input.unit == "call"
	some n in input.net
	not n.host in {"localhost", "127.0.0.1", "::1"}
}

secrets_dials if input.cmd.class in {"dialler", "resolver"}

# METADATA
# title: Hunt for secrets
# custom:
#   id: secrets.hunt
#   tier: L3
#   reason: it looks for secrets outside the workspace
#   remedy: ask for the one value you need
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"find", "fd", "locate", "mdfind"}
	secrets_outside
	some a in input.cmd.argv
	regex.match(`(?i)(id_(rsa|dsa|ecdsa|ed25519)|\.pem$|\.key$|\.p12$|\.pfx$|\.ppk$|\.kdbx$|\.jks$|\.asc$|\.gpg$|credential|passw|shadow$|secret|token|\.aws|\.ssh|\.gnupg|\.oci\b|\.azure|gcloud|\.kube|\.docker|\.netrc|\.git-credentials|wallet|places\.sqlite|login data|cookies|\.mozilla|chrom(e|ium)|bookmarks|keychain|_history)`, a)
}

# METADATA
# title: Hunt for secrets in text
# custom:
#   id: secrets.hunt-text
#   tier: L3
#   reason: it searches the machine, not the workspace, for secrets
#   remedy: ask for the one value you need
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"grep", "egrep", "fgrep", "rg", "ag", "ack"}
	secrets_elsewhere
	some a in input.cmd.argv
	regex.match(`(?i)(passw(or)?d|secret|api[_-]?key|access[_-]?key|private key|token|credential|aws_)`, a)
	not startswith(a, "/")
}

secrets_elsewhere if secrets_outside

# The environment and the processes of the machine.
secrets_elsewhere if input.cmd.fed_by in {"env", "printenv", "set", "declare", "export", "ps"}

# A search beneath a path that is not the workspace's.
secrets_outside if {
	some r in input.cmd.reads
	r.scope in {"outside", "home"}
	not startswith(r.path, "/usr/")
}

secrets_outside if input.cmd.program in {"locate", "mdfind"}

# METADATA
# title: Store of secrets
# custom:
#   id: secrets.store
#   tier: L3
#   reason: it reads a store of passwords or keys
#   remedy: ask for the one value you need
#   obligations: {redact: true}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {
		"secret-tool", "security", "pass", "gopass", "kwallet-query", "keyctl", "bw", "op", "lpass", "keepassxc-cli", "kpcli",
		"gpg", "gpg2", "mimipenguin",
	}
	not asks_help
	secrets_opens
}

secrets_opens if not input.cmd.program in {"gpg", "gpg2", "security"}

secrets_opens if {
	input.cmd.program == "security"
	word({"dump-keychain", "find-generic-password", "find-internet-password", "find-key", "export", "dump-trust-settings"})
}

secrets_opens if flag({"--export-secret-keys", "--export-secret-subkeys", "--export-ssh-key"})

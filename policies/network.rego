# Network. Who a call would talk to, and what it would send or run.
package sallyport.rules

network_loopback(host) if host in {"localhost", "127.0.0.1", "::1", "0.0.0.0", "[::1]"}

network_loopback(host) if regex.match(`^127\.[0-9]+\.[0-9]+\.[0-9]+$`, host)

network_loopback(host) if endswith(host, ".localhost")

network_allowed(n) if {
	some a in data.sallyport.allowed_hosts
	a.host == n.host
	a.port in {0, n.port}
}

# METADATA
# title: Allowed host
# custom:
#   id: network.allowed
#   tier: L2
#   verdict: ask
#   reason: it talks to a host on the list of allowed hosts
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.has.net == true
	input.unit == "call"
	some n in input.net
	network_allowed(n)
}

# METADATA
# title: Other host
# custom:
#   id: network.other
#   tier: L3
#   reason: it talks to a host that is not on the list of allowed hosts
#   remedy: ask for the host to be added to allowed_hosts
hit contains other if {
	input.has.net == true
	input.unit == "call"
	some n in input.net
	not network_loopback(n.host)
	not network_allowed(n)
	other := object.union(rego.metadata.rule().custom, {"reason": sprintf("it talks to %s, which is not on the list of network_allowed hosts", [network_named(n.host)])})
}

network_named(host) := host if host != ""

network_named("") := "a host that cannot be told from the command"

# METADATA
# title: Loopback
# custom:
#   id: network.loopback
#   tier: L1
#   reason: it talks to this cell's own loopback
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.has.net == true
	input.unit == "call"
	some n in input.net
	network_loopback(n.host)
}

# METADATA
# title: Program that talks to other machines
# custom:
#   id: network.dial
#   tier: L3
#   reason: it talks to another machine
#   remedy: ask for the host to be added to allowed_hosts
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "dialler"
	not asks_help
	not network_known_endpoints
	not network_local_copy
}

# rsync between two folders of this machine.
network_local_copy if {
	input.cmd.program == "rsync"
	input.cmd.opaque.args == false
	every a in input.cmd.args {
		not contains(a, ":")
	}
	not flag({"-e", "--rsh", "--rsync-path", "--daemon", "--files-from", "--password-file"})
}

# Where the inspector could tell every endpoint, network.allowed and
# network.other judge by host.
network_known_endpoints if {
	count(input.net) > 0
	every n in input.net {
		network_known(n)
	}
	input.cmd.program in {"curl", "wget", "http", "https", "xh"}
}

# A port of this machine is asked whether it answers.
network_known_endpoints if {
	network_only_loopback
	input.cmd.program in {"nc", "ncat", "netcat"}
	flag({"-z"})
	not flag({"-l", "--listen", "-e", "--exec", "-c", "--sh-exec", "--lua-exec"})
}

network_known(n) if network_loopback(n.host)

network_known(n) if network_allowed(n)

# METADATA
# title: Upload
# custom:
#   id: network.upload
#   tier: L3
#   reason: it sends data to another machine
#   remedy: ask the person you work for to send it
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"curl", "wget", "http", "https", "xh"}
	flag(network_upload_flags)
	not network_only_loopback
}

network_only_loopback if {
	count(input.net) > 0
	every n in input.net {
		network_loopback(n.host)
	}
}

# METADATA
# title: Upload of a file from outside the workspace
# custom:
#   id: network.upload-outside
#   tier: L3
#   reason: it sends a file of this machine
#   remedy: send files of the workspace only
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "dialler"
	some r in input.cmd.reads
	r.op == "read"
	r.scope in {"outside", "device"}
	flag(network_upload_flags)
}

network_upload_flags := {
	"-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "-F", "--form", "--form-string",
	"-T", "--upload-file", "--post-data", "--post-file", "--body-data", "--body-file", "-Q", "--quote", "--mail-from", "--mail-rcpt",
}

network_interpreters := {
	"sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "python", "python2", "python3", "perl", "ruby", "node", "nodejs", "php", "deno",
	"bun", "lua", "tclsh", "pwsh", "powershell", "osascript", "source", ".", "eval", "psql", "mysql", "sqlite3", "xargs", "parallel",
}

# METADATA
# title: Download run at once
# custom:
#   id: network.pipe-to-interpreter
#   tier: L3
#   reason: it runs whatever a server answers
#   remedy: download to a file, read it, then run that file
hit contains rego.metadata.rule().custom if {
	input.cmd.fed_by in {"curl", "wget", "http", "https", "xh", "nc", "ncat", "netcat", "socat", "aria2c", "lynx", "w3m", "ssh", "ftp"}
	input.cmd.program in network_interpreters
}

# METADATA
# title: Decoded text run at once
# custom:
#   id: network.decode-to-interpreter
#   tier: L3
#   reason: it runs text that was encoded to hide what it is
#   remedy: write the plain text to a file, then run that file
hit contains rego.metadata.rule().custom if {
	input.cmd.fed_by in {"base64", "base32", "xxd", "openssl", "uudecode", "gunzip", "zcat", "gzip", "b64decode", "rev", "tr"}
	input.cmd.program in {"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "python", "python3", "perl", "ruby", "node", "php"}
	not input.cmd.script
}

# METADATA
# title: Listener that hands out a program
# custom:
#   id: network.reverse-shell
#   tier: L3
#   reason: it connects a program to the network
#   remedy: remove it; nothing in development needs it
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"nc", "ncat", "netcat", "socat"}
	some a in input.cmd.argv
	regex.match(`(?i)^(-[a-z]*[ec]|--(sh-)?exec.*|exec:.*|system:.*)$`, a)
}

# METADATA
# title: Socket opened by the shell
# custom:
#   id: network.dev-tcp
#   tier: L3
#   reason: it opens a connection through /dev/tcp or /dev/udp
#   remedy: use curl with a host on the list of allowed hosts
hit contains rego.metadata.rule().custom if {
	input.cmd.has.redirects == true
	some r in input.cmd.redirects
	regex.match(`^/dev/(tcp|udp)/`, r.path)
}

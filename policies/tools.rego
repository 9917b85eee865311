# Tools. The tier a call starts from, before anything it names is looked at.
package sallyport.rules

# METADATA
# title: Reading tool
# custom:
#   id: tools.read
#   tier: L0
#   reason: it reads and changes nothing
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.call.kind == "read"
	input.phase == "call"
	input.call.write in {"none", "discard"}
}

# METADATA
# title: Call that runs commands
# custom:
#   id: tools.run
#   tier: L0
#   reason: each of its commands is judged by itself
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.call.kind == "run"
	input.call.write == "none"
	input.phase == "call"
}

# METADATA
# title: Call that runs commands on a throw-away copy
# custom:
#   id: tools.run-discard
#   tier: L1
#   reason: what it writes vanishes when it ends
#   remedy: ""
#   obligations: {write: discard}
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.call.kind == "run"
	input.call.write == "discard"
	input.phase == "call"
}

# METADATA
# title: Call that asks to write the workspace
# custom:
#   id: tools.run-write
#   tier: L2
#   reason: the call asks to keep what its command writes in the workspace
#   remedy: call it without write if nothing needs to stay
hit contains object.union(rego.metadata.rule().custom, {"obligations": {"write": input.call.write}}) if {
	input.unit == "call"
	input.call.write in {"transaction", "direct"}
	input.phase == "call"
}

# METADATA
# title: Tool that is not this agent's
# custom:
#   id: tools.not-yours
#   tier: L3
#   verdict: deny
#   reason: this agent was not given this tool
#   remedy: ask whoever set up the agent's tools in the policy data (agents)
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.call.granted == false
}

# METADATA
# title: Command that only reads
# custom:
#   id: tools.command-read
#   tier: L0
#   reason: it reads and changes nothing
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.unit == "cmd"
	input.cmd.plain == true
	reading
}

# METADATA
# title: Ordinary local command
# description: Its cell has no network and cannot change the workspace.
# custom:
#   id: tools.command
#   tier: L1
#   reason: it runs locally, without network, and changes nothing in the workspace
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.unit == "cmd"
	input.cmd.opaque.name == false
	not input.cmd.class == "builder"
	not reading
}

# METADATA
# title: Build or test
# description: It may write beside the sources; the writes go to a throw-away copy.
# custom:
#   id: tools.command-build
#   tier: L1
#   reason: it builds or tests on a throw-away copy of the workspace
#   remedy: ask for write when its output must stay
#   obligations: {write: discard}
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "builder"
	input.cmd.opaque.name == false
}

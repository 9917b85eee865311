package sallyport.project

# METADATA
# title: Node is bounded
# custom:
#   id: project.node
#   tier: L1
#   obligations: {limits: {memory: 1073741824, wall: 60000000000}}
#   reason: node gets one gibibyte here
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"node", "npm"}
}

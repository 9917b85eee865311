package sallyport.administrator

# METADATA
# title: Production
# custom:
#   id: administrator.production
#   tier: L3
#   obligations: {approvers: 2}
#   reason: it touches production
#   remedy: try it on staging first
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "cloud"
	some a in input.cmd.argv
	contains(a, "prod")
}

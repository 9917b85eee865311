package sallyport.administrator

# METADATA
# title: Network scanner
# custom:
#   id: administrator.no-scans
#   tier: L3
#   verdict: deny
#   reason: scans of our network look like an attack
#   remedy: ask the network team
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"nmap", "masscan"}
}

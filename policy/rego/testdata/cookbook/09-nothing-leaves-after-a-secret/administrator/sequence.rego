package sallyport.administrator

# METADATA
# title: Nothing leaves after a secret
# custom:
#   id: administrator.sealed
#   tier: L3
#   verdict: deny
#   reason: a secret was read in this session, so nothing may leave it
#   remedy: start a new session
hit contains rego.metadata.rule().custom if {
	input.session.reads_secret == true
	input.cmd.class in {"dialler", "cloud", "resolver"}
}

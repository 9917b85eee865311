package sallyport.user

# METADATA
# title: Long command
# custom:
#   id: user.long
#   tier: L3
#   reason: nobody reads so long a command before saying yes
#   remedy: put it into a script
hit contains rego.metadata.rule().custom if {
	count(input.cmd.argv) > 60
}

package sallyport.user

# METADATA
# title: Push at the weekend
# custom:
#   id: user.weekend
#   tier: L3
#   verdict: deny
#   reason: nobody watches the pipeline at the weekend
#   remedy: push on Monday
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "git"
	input.cmd.sub == "push"
	time.weekday(time.parse_rfc3339_ns(input.now)) in {"Saturday", "Sunday"}
}

# Rules of this layer. They join the built-in ones, so they can only tighten.
# docs/policy.md lists what a rule sees.
package sallyport.LAYER

# METADATA
# title: Example, the release script
# custom:
#   id: LAYER.release-script
#   tier: L3
#   reason: it publishes a release
#   remedy: leave releases to the person you work for
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "release.sh"
}

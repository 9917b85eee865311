# Cloud. Clients of clouds and clusters, which act with your credentials.
package sallyport.rules

cloud_reading if asks_help

cloud_reading if {
	some a in array.concat([input.cmd.sub], input.cmd.args)
	regex.match(`^(get|describe|list|ls|show|view|explain|status|top|logs|log|version|versions|help|plan|validate|fmt|lint|template|diff|search|history|info|api-resources|api-versions|cluster-info|completion|init|console|graph|output|providers|du|cat|check|whoami|doctor|preview|test|build|docs|inspect|current-context|get-contexts|wait|eval|lookup|head|images|tags|regions|zones|account|billing|quota|usage|lint-.*)(-.*)?$`, a)
}

cloud_changing if {
	some a in array.concat([input.cmd.sub], input.cmd.args)
	regex.match(`^(apply|create|delete|destroy|deploy|remove|rm|mb|rb|cp|mv|sync|put|update|upgrade|install|uninstall|rollback|rollout|scale|patch|replace|edit|set|exec|run|drain|cordon|uncordon|taint|label|annotate|import|login|auth|attach|detach|start|stop|reboot|terminate|modify|revoke|authorize|publish|push|up|down|write|kv|state|unseal|seal|operator|token|config|configure|submit|promote|port-forward|proxy|debug|expose|autoscale|certificate|evict|adduser|reset|join|upload|download|copy|move|purge|link|secrets|secret)(-.*)?$`, a)
}

# METADATA
# title: Cloud client, reading
# custom:
#   id: cloud.read
#   tier: L2
#   reason: it reads from a cloud or cluster with your credentials
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "cloud"
	cloud_only_reading
}

# METADATA
# title: Cloud client, changing
# custom:
#   id: cloud.change
#   tier: L3
#   reason: it changes a cloud or cluster
#   remedy: leave it to the deployment process
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "cloud"
	not cloud_only_reading
}

cloud_only_reading if {
	cloud_reading
	not cloud_changing
}

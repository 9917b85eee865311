# Containers. Container engines; their socket is root on the host.
package sallyport.rules

containers_reading_words := {
	"ps", "images", "logs", "inspect", "version", "info", "top", "stats", "port", "history", "search", "diff", "events", "ls", "list",
	"config", "df", "show", "status", "help", "context", "manifest", "wait", "convert",
}

# METADATA
# title: Container engine, reading
# custom:
#   id: containers.read
#   tier: L2
#   reason: it asks the container engine, which is outside the cell
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "container"
	word(containers_reading_words)
}

containers_local_words := {"build", "buildx", "pull", "compose", "create", "run", "start", "stop", "restart", "tag", "save", "load", "exec", "cp", "pause", "unpause", "rename", "attach", "commit", "export", "import", "up", "down", "machine", "volume", "network", "image", "container", "init", "scan", "scout", "sbom", "delete", "rm", "rmi", "kill", "prune", "builder", "update", "profile", "addons", "service", "dashboard", "tunnel"}

# METADATA
# title: Containers built or run here
# custom:
#   id: containers.run
#   tier: L2
#   reason: it builds or runs containers on this machine
#   remedy: ""
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "container"
	not word(containers_reading_words)
	not containers_outward
	not asks_help
}

containers_outward if word({"push", "login", "logout", "swarm", "stack", "secret", "plugin", "trust", "node", "sign", "copy", "sync"})

containers_outward if flag({"--push"})

# METADATA
# title: Image published or registry account
# custom:
#   id: containers.publish
#   tier: L3
#   reason: it publishes an image, or changes accounts or a cluster
#   remedy: leave publishing to the release process
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "container"
	containers_outward
	not word(containers_local_words - {"build", "buildx", "compose"})
}

# METADATA
# title: Container that escapes its walls
# custom:
#   id: containers.privileged
#   tier: L3
#   reason: such a container is root on this machine
#   remedy: run it without privileges, host namespaces and host paths
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "container"
	containers_privileged
}

containers_privileged if {
	some a in input.cmd.argv
	regex.match(`^(--privileged(=true)?|--(pid|net|network|ipc|uts|userns|cgroupns)=host|--cap-add(=.*)?|--device(=.*)?|--security-opt(=.*)?|(-v|--volume=|--mount=)?.*(/var/run/docker\.sock|/run/docker\.sock|/run/containerd).*|(--volume=|-v)?/(etc|root|home|var|usr|boot|proc|sys|dev)?/?:.*|.*source=/(,.*)?)$`, a)
}

containers_privileged if {
	some i
	input.cmd.argv[i] in {"--pid", "--net", "--network", "--ipc", "--uts", "--userns"}
	input.cmd.argv[i + 1] == "host"
}

# METADATA
# title: Command run by a container engine
# custom:
#   id: containers.inside
#   tier: L2
#   reason: it runs inside a container, outside the cell
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.cmd.has.via == true
	some w in input.cmd.via
	data.sallyport.programs[w] == "container"
}

# METADATA
# title: Containers removed in bulk
# custom:
#   id: containers.prune
#   tier: L3
#   reason: it removes containers, images or volumes in bulk
#   remedy: name the one container to remove
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "container"
	word({"prune"})
	some a in input.cmd.argv
	regex.match(`^(-[a-z]*a[a-z]*|--all|--volumes)$`, a)
}

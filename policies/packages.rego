# Packages. Package managers that install, remove and publish.
package sallyport.rules

# Confirming an install opens the registries of its program.
packages_granted(custom) := object.union(custom, {"obligations": {"write": "transaction", "net": [e |
	some program in array.concat(input.cmd.via, [input.cmd.program])
	some e in data.sallyport.registries[program]
]}})

# METADATA
# title: Package manager of the system or of a language
# custom:
#   id: packages.install
#   tier: L2
#   reason: it installs packages, whose code comes from elsewhere
#   remedy: ask for the package to be part of the project's image
#   obligations: {write: transaction}
hit contains packages_granted(rego.metadata.rule().custom) if {
	input.cmd.class == "installer"
	not packages_reads
}

packages_reads if asks_help

packages_reads if word({"list", "show", "search", "info", "freeze", "check", "query", "policy", "madison", "depends", "rdepends", "outdated", "why", "config", "which", "current", "view", "provides", "history", "help", "version"})

packages_reads if {
	input.cmd.program in {"dpkg", "rpm"}
	flag({"-l", "-L", "-s", "-S", "-q", "-V", "--list", "--listfiles", "--status", "--search", "--query", "--verify", "--print-architecture", "--get-selections"})
}

packages_language_installs := {
	"npm": {"install", "i", "ci", "add", "update", "up", "upgrade", "uninstall", "remove", "rm", "un", "dedupe", "audit", "link", "rebuild", "init", "create", "install-test", "prune", "version", "pkg"},
	"pnpm": {"install", "i", "add", "update", "up", "remove", "rm", "import", "link", "dlx", "create", "fetch", "rebuild", "prune", "deploy", "approve-builds"},
	"yarn": {"install", "add", "upgrade", "up", "remove", "import", "link", "dlx", "create", "set", "plugin", "dedupe"},
	"bun": {"install", "i", "add", "update", "remove", "link", "x", "create", "pm"},
	"poetry": {"install", "add", "update", "lock", "remove", "sync", "self", "init", "new"},
	"uv": {"sync", "add", "lock", "remove", "pip", "tool", "venv", "init", "python", "self"},
	"go": {"get", "install", "mod", "work", "generate", "fix", "fmt"},
	"cargo": {"install", "add", "update", "fetch", "remove", "uninstall", "generate-lockfile", "init", "new", "vendor", "fix", "fmt"},
	"bundle": {"install", "update", "add", "remove", "lock", "package"},
	"composer": {"install", "update", "require", "remove", "create-project", "global"},
	"dotnet": {"add", "restore", "tool", "remove", "new", "workload"},
	"mix": {"deps.get", "deps.update", "archive.install", "local.hex", "local.rebar"},
	"deno": {"install", "add", "cache", "fmt", "upgrade"},
	"swift": {"package"},
	"flutter": {"pub", "create", "upgrade"},
	"dart": {"pub"},
	"stack": {"setup", "update"},
	"cabal": {"update", "install"},
	"playwright": {"install", "install-deps"},
	"rebar3": {"get-deps", "upgrade"},
}

# METADATA
# title: Dependencies of the project
# custom:
#   id: packages.project
#   tier: L2
#   reason: it changes the project's dependencies or sources
#   remedy: ""
#   obligations: {write: transaction}
hit contains packages_granted(rego.metadata.rule().custom) if {
	input.cmd.class == "builder"
	input.cmd.sub in packages_language_installs[input.cmd.program]
	not asks_help
	not packages_listing
}

packages_listing if word({"list", "tree", "verify", "why", "graph", "ls"})

# `yarn` and `bundle` alone install.
# METADATA
# title: Bare install
# custom:
#   id: packages.bare
#   tier: L2
#   reason: without a sub-command it installs the project's dependencies
#   remedy: ""
#   obligations: {write: transaction}
hit contains packages_granted(rego.metadata.rule().custom) if {
	input.cmd.program in {"yarn", "bundle"}
	input.cmd.sub == ""
	not asks_help
}

# METADATA
# title: Module installed by an interpreter
# custom:
#   id: packages.python-module
#   tier: L2
#   reason: it installs packages, whose code comes from elsewhere
#   remedy: ask for the package to be part of the project's image
#   obligations: {write: transaction}
hit contains packages_granted(rego.metadata.rule().custom) if {
	input.cmd.program in {"python", "python2", "python3"}
	some i
	input.cmd.argv[i] == "-m"
	input.cmd.argv[i + 1] in {"pip", "ensurepip", "venv", "virtualenv", "pipx", "easy_install"}
}

# METADATA
# title: Package fetched and run at once
# custom:
#   id: packages.run
#   tier: L2
#   reason: it may fetch a package and run it at once
#   remedy: add the package to the project, then run it
#   obligations: {write: transaction}
hit contains packages_granted(rego.metadata.rule().custom) if {
	input.cmd.has.via == true
	some w in input.cmd.via
	w in {"npx", "uvx", "pipx", "bunx", "pnpx"}
}

# METADATA
# title: Formatter or fixer that rewrites sources
# custom:
#   id: packages.rewrite
#   tier: L2
#   reason: it rewrites source files
#   remedy: run it in its checking mode
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "builder"
	packages_rewrites
}

packages_rewrites if flag({"--write", "--fix", "--apply", "--in-place"})

packages_rewrites if {
	input.cmd.program in {"gofmt", "goimports", "gofumpt", "shfmt"}
	flag({"-w"})
}

packages_rewrites if {
	input.cmd.program in {"clang-format", "yapf", "autopep8"}
	flag({"-i"})
}

packages_rewrites if {
	input.cmd.program in {"black", "isort", "rustfmt"}
	not flag({"--check", "--diff", "--check-only", "-c", "--version", "--help"})
}

# METADATA
# title: Settings of a package manager
# custom:
#   id: packages.settings
#   tier: L2
#   reason: it changes where packages come from or what installing them runs
#   remedy: pass the option to the one command that needs it
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"npm", "pnpm", "yarn", "bun", "pip", "poetry", "bundle", "composer", "go", "cargo", "conda"}
	packages_sets
}

packages_sets if {
	input.cmd.sub == "config"
	some a in input.cmd.args
	a in {"set", "unset", "delete", "edit", "--global", "--local", "add", "--add"}
}

packages_sets if {
	input.cmd.program == "npm"
	input.cmd.sub == "set"
}

packages_sets if {
	input.cmd.program == "go"
	input.cmd.sub == "env"
	flag({"-w", "-u"})
}

# METADATA
# title: Package published
# custom:
#   id: packages.publish
#   tier: L3
#   reason: it publishes something for others to use
#   remedy: leave publishing to the release process
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {
		"npm", "pnpm", "yarn", "bun", "cargo", "gem", "poetry", "uv", "flit", "hatch", "twine", "goreleaser",
		"mvn", "gradle", "gradlew", "sbt", "dart", "mix", "cabal", "vsce", "ovsx", "lerna", "changeset",
		"semantic-release", "charmcraft", "snapcraft", "conda", "anaconda", "nuget", "luarocks", "pod", "wasmer",
		"wapm",
	}
	input.cmd.sub in packages_publishing[input.cmd.program]
	not flag({"--dry-run"})
	not asks_help
}

packages_publishing := {
	"npm": {"publish", "unpublish", "deprecate", "dist-tag", "access", "owner", "token", "login", "adduser", "logout", "team", "org"},
	"pnpm": {"publish"},
	"yarn": {"publish"},
	"bun": {"publish"},
	"cargo": {"publish", "yank", "owner", "login", "logout"},
	"gem": {"push", "yank", "owner", "signin"},
	"poetry": {"publish"},
	"uv": {"publish"},
	"flit": {"publish"},
	"hatch": {"publish"},
	"twine": {"upload", "register"},
	"goreleaser": {"release", "publish"},
	"mvn": {"deploy", "release:perform", "deploy:deploy-file"},
	"gradle": {"publish", "publishPlugins", "uploadArchives"},
	"gradlew": {"publish", "publishPlugins", "uploadArchives"},
	"sbt": {"publish", "publishSigned"},
	"dart": {"publish"},
	"mix": {"hex.publish"},
	"cabal": {"upload"},
	"vsce": {"publish", "unpublish", "login"},
	"ovsx": {"publish"},
	"lerna": {"publish"},
	"changeset": {"publish"},
	"semantic-release": {""},
	"charmcraft": {"upload", "release"},
	"snapcraft": {"upload", "push", "release", "login"},
	"conda": {"upload"},
	"anaconda": {"upload"},
	"nuget": {"push", "delete"},
	"luarocks": {"upload"},
	"pod": {"trunk"},
	"wasmer": {"publish"},
	"wapm": {"publish"},
}

# METADATA
# title: Published or changed at a code host
# custom:
#   id: packages.code-host
#   tier: L3
#   reason: it changes something at the code host
#   remedy: leave it to the person you work for
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"gh", "glab", "hub", "tea"}
	not packages_host_reads
	not asks_help
}

packages_host_reads if word({"view", "list", "status", "diff", "checks", "watch", "search", "browse", "show", "ci-status", "help", "version", "completion", "log", "ls"})

# METADATA
# title: Read from a code host
# custom:
#   id: packages.code-host-read
#   tier: L2
#   reason: it reads from the code host with your credentials
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"gh", "glab", "hub", "tea"}
	packages_host_reads
}

package sallyport.rules_test

packages_cases := {
	"apt install": {"unit": cmd(["apt-get", "install", "x"], {}), "fires": {"packages.install"}},
	"pip list": {"unit": cmd(["pip", "list"], {}), "fires": set()},
	"dpkg -l": {"unit": cmd(["dpkg", "-l"], {}), "fires": set()},
	"pip --version": {"unit": cmd(["pip", "--version"], {}), "fires": set()},
	"npm ci": {"unit": cmd(["npm", "ci"], {}), "fires": {"packages.project"}},
	"npm test": {"unit": cmd(["npm", "test"], {}), "fires": set()},
	"go mod tidy": {"unit": cmd(["go", "mod", "tidy"], {}), "fires": {"packages.project"}},
	"go mod verify": {"unit": cmd(["go", "mod", "verify"], {}), "fires": set()},
	"yarn alone": {"unit": cmd(["yarn"], {}), "fires": {"packages.bare"}},
	"python -m pip": {"unit": cmd(["python3", "-m", "pip", "install", "x"], {}), "fires": {"packages.python-module"}},
	"python -m pytest": {"unit": cmd(["python3", "-m", "pytest"], {}), "fires": set()},
	"npm config set": {"unit": cmd(["npm", "config", "set", "registry", "x"], {}), "fires": {"packages.settings"}},
	"npm config get": {"unit": cmd(["npm", "config", "get", "registry"], {}), "fires": set()},
	"npm set": {"unit": cmd(["npm", "set", "ignore-scripts", "false"], {}), "fires": {"packages.settings"}},
	"go env -w": {"unit": cmd(["go", "env", "-w", "GOFLAGS=-v"], {}), "fires": {"packages.settings"}},
	"go env": {"unit": cmd(["go", "env", "GOPATH"], {}), "fires": set()},
	"through npx": {"unit": cmd(["cowsay"], {"via": ["npx"], "has": has("via")}), "fires": {"packages.run"}},
	"prettier --write": {"unit": cmd(["prettier", "--write", "."], {}), "fires": {"packages.rewrite"}},
	"gofmt -w": {"unit": cmd(["gofmt", "-w", "."], {}), "fires": {"packages.rewrite"}},
	"gofmt -l": {"unit": cmd(["gofmt", "-l", "."], {}), "fires": set()},
	"clang-format -i": {"unit": cmd(["clang-format", "-i", "x.c"], {}), "fires": {"packages.rewrite"}},
	"black": {"unit": cmd(["black", "."], {}), "fires": {"packages.rewrite"}},
	"black --check": {"unit": cmd(["black", "--check", "."], {}), "fires": set()},
	"npm publish": {"unit": cmd(["npm", "publish"], {}), "fires": {"packages.publish"}},
	"npm publish, dry": {"unit": cmd(["npm", "publish", "--dry-run"], {}), "fires": set()},
	"twine upload": {"unit": cmd(["twine", "upload", "dist"], {}), "fires": {"packages.publish"}},
	"gh release create": {"unit": cmd(["gh", "release", "create", "v1"], {}), "fires": {"packages.code-host"}},
	"gh pr view": {"unit": cmd(["gh", "pr", "view"], {}), "fires": {"packages.code-host-read"}},
}

test_packages[name] if {
	some name, c in packages_cases
	ids(c.unit) == c.fires
}

test_install_opens_its_registry_only if {
	mirror := {"host": "npm.corp.example", "port": 443}
	found := hits(cmd(["npm", "ci"], {})) with data.sallyport.registries as {"npm": [mirror]}
	some h in found
	h.id == "packages.project"
	h.obligations.net == [mirror]
}

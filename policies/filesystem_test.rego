package sallyport.rules_test

w_main := touch("write", "main.go", "workspace", "")

filesystem_cases := {
	"a tool writes": {"unit": file_call("write_file", "write", "main.go", "workspace", ""), "fires": {"filesystem.write"}},
	"a tool edits": {"unit": file_call("edit_file", "edit", "main.go", "workspace", ""), "fires": {"filesystem.write"}},
	"a tool writes a temporary file": {"unit": file_call("write_file", "write", "/tmp/x", "temp", ""), "fires": {"filesystem.write-temp"}},
	"a tool reads outside": {"unit": file_call("read_file", "read", "/etc/hosts", "outside", ""), "fires": {"filesystem.outside", "tools.read"}},
	"a tool writes outside": {"unit": file_call("write_file", "write", "../x", "outside", ""), "fires": {"filesystem.outside"}},
	"a tool writes a protected path": {"unit": file_call("write_file", "write", "LICENSE", "workspace", ""), "fires": {"filesystem.write", "filesystem.protected"}},
	"a run changed a file": {
		"unit": object.union(file_call("run_command", "write", "main.go", "workspace", ""), {"phase": "effects"}),
		"fires": {"filesystem.effect"},
	},
	"a command writes": {"unit": touching(["touch", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write"}},
	"a command writes somewhere": {"unit": touching(["touch", "$x"], [touch("write", "", "unknown", "")], [], {}), "fires": {"filesystem.command-write"}},
	"a command writes the cell's home": {"unit": touching(["touch", "~/x"], [touch("write", "/home/agent/x", "home", "")], [], {}), "fires": set()},
	"a command writes outside": {"unit": touching(["touch", "/srv/x"], [touch("write", "/srv/x", "outside", "")], [], {}), "fires": {"filesystem.command-outside"}},
	"a command writes a device": {"unit": touching(["tee", "/dev/lp0"], [touch("write", "/dev/lp0", "device", "")], [], {}), "fires": {"filesystem.command-device"}},
	"a command writes a protected path": {"unit": touching(["touch", "LICENSE"], [touch("write", "LICENSE", "workspace", "")], [], {}), "fires": {"filesystem.command-write", "filesystem.protected-command"}},
	"a command removes the workspace": {"unit": touching(["rm", "-r", "."], [touch("remove", ".", "workspace", "")], [], {}), "fires": {"filesystem.command-write", "filesystem.wipe-workspace"}},
	"find removes what it filtered": {"unit": touching(["find", ".", "-name", "*.o", "-delete"], [touch("remove", ".", "workspace", "")], [], {}), "fires": {"filesystem.command-write"}},
	"find removes everything": {"unit": touching(["find", ".", "-delete"], [touch("remove", ".", "workspace", "")], [], {}), "fires": {"filesystem.command-write", "filesystem.wipe-workspace"}},
	"find hands on": {"unit": touching(["rm", "."], [touch("remove", ".", "workspace", "")], [], {"via": ["find"]}), "fires": {"filesystem.command-write"}},
	"a command reads accounts": {"unit": touching(["cat", "/etc/passwd"], [], [touch("read", "/etc/passwd", "outside", "")], {}), "fires": {"filesystem.sensitive"}},
	"a command lists logs": {"unit": touching(["ls", "/var/log"], [], [touch("read", "/var/log", "outside", "")], {}), "fires": {"filesystem.sensitive"}},
	"a command reads a log deep down": {"unit": touching(["cat", "/var/log/apt/x"], [], [touch("read", "/var/log/apt/x", "outside", "")], {}), "fires": {"filesystem.sensitive"}},
	"a command reads which system this is": {"unit": touching(["cat", "/etc/os-release"], [], [touch("read", "/etc/os-release", "outside", "")], {}), "fires": set()},
	"a command reads a disk": {"unit": touching(["dd", "if=/dev/sda"], [], [touch("read", "/dev/sda", "device", "")], {}), "fires": {"filesystem.read-device"}},
	"a command looks at a device": {"unit": touching(["cat", "/dev/kvm"], [], [touch("read", "/dev/kvm", "device", "")], {}), "fires": set()},
	"shred": {"unit": cmd(["shred", "x"], {}), "fires": {"filesystem.erase"}},
	"shred's help": {"unit": cmd(["shred", "--help"], {}), "fires": set()},
	"chmod 755": {"unit": touching(["chmod", "755", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write"}},
	"chmod +x": {"unit": touching(["chmod", "+x", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write"}},
	"chmod u+w": {"unit": touching(["chmod", "u+w", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write"}},
	"chmod 777": {"unit": touching(["chmod", "777", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.chmod-777"}},
	"chmod 0777": {"unit": touching(["chmod", "0777", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.chmod-777"}},
	"chmod a+rwx": {"unit": touching(["chmod", "a+rwx", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.chmod-777"}},
	"chmod o+w": {"unit": touching(["chmod", "o+w", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.chmod-777"}},
	"chmod 777 of the system": {
		"unit": touching(["chmod", "777", "/etc"], [touch("write", "/etc", "outside", "")], [], {}),
		"fires": {"filesystem.command-outside", "filesystem.chmod-777", "filesystem.chmod-777-outside"},
	},
	"chmod 666 of a disk": {
		"unit": touching(["chmod", "666", "/dev/sda"], [touch("write", "/dev/sda", "device", "")], [], {}),
		"fires": {"filesystem.command-device", "filesystem.chmod-777", "filesystem.chmod-777-outside"},
	},
	"chmod 666 of /dev/kvm": {
		"unit": touching(["chmod", "666", "/dev/kvm"], [touch("write", "/dev/kvm", "device", "")], [], {}),
		"fires": {"filesystem.command-device", "filesystem.chmod-777"},
	},
	"chmod 777 of root": {
		"unit": touching(["chmod", "777", "/"], [touch("write", "/", "outside", "")], [], {}),
		"fires": {"filesystem.command-outside", "filesystem.chmod-777", "filesystem.chmod-777-outside"},
	},
	"chmod u+s": {"unit": touching(["chmod", "u+s", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.setuid"}},
	"chmod 4755": {"unit": touching(["chmod", "4755", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "filesystem.setuid"}},
}

test_filesystem[name] if {
	some name, c in filesystem_cases
	ids(c.unit) == c.fires
}

test_hidden_path if {
	unit := file_call("read_file", "read", "private/x", "workspace", "")
	"filesystem.hidden" in ids(unit) with data.sallyport.hidden_paths as ["private/**"]
	not "filesystem.hidden" in ids(unit) with data.sallyport.hidden_paths as ["public/**"]
}

# Files. What tools and commands read and write, by where it lies.
package sallyport.rules

# METADATA
# title: Read in the workspace
# custom:
#   id: filesystem.read
#   tier: L0
#   reason: it reads files of the workspace
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.has.files == true
	input.call.exec == false
	some f in input.files
	f.op in read_ops
	f.scope in {"workspace", "temp"}
}

# METADATA
# title: Path outside the workspace
# custom:
#   id: filesystem.outside
#   tier: L3
#   verdict: deny
#   reason: the path lies outside the workspace
#   remedy: name a path beneath the workspace
hit contains outside if {
	input.has.files == true
	input.call.exec == false
	some f in input.files
	not f.scope in {"workspace", "temp"}
	outside := object.union(rego.metadata.rule().custom, {"reason": sprintf("%s lies outside the workspace", [f.path])})
}

# METADATA
# title: Change in the workspace
# custom:
#   id: filesystem.write
#   tier: L2
#   reason: it changes files of the workspace
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.has.writes == true
	input.call.exec == false
	input.phase == "call"
	some f in input.files
	f.scope == "workspace"
	not f.op in read_ops
}

# METADATA
# title: Temporary file
# custom:
#   id: filesystem.write-temp
#   tier: L1
#   reason: it writes a temporary file
#   remedy: ""
hit contains rego.metadata.rule().custom if {
	input.has.writes == true
	some f in input.files
	f.scope == "temp"
	not f.op in read_ops
}

# METADATA
# title: What a run changed
# custom:
#   id: filesystem.effect
#   tier: L2
#   reason: the run changed files of the workspace
#   remedy: ""
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.unit == "call"
	input.phase == "effects"
}

# METADATA
# title: Protected path
# custom:
#   id: filesystem.protected
#   tier: L3
#   reason: the path is on the list of protected paths
#   remedy: leave it, or ask the person you work for to change it
hit contains rego.metadata.rule().custom if {
	input.has.writes == true
	some f in input.files
	not f.op in read_ops
	filesystem_protected(f.path)
}

# METADATA
# title: Protected path, by a command
# custom:
#   id: filesystem.protected-command
#   tier: L3
#   reason: the command writes a path on the list of protected paths
#   remedy: leave it, or ask the person you work for to change it
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.has.writes == true
	some w in input.cmd.writes
	filesystem_protected(w.path)
}

# METADATA
# title: Hidden path
# custom:
#   id: filesystem.hidden
#   tier: L3
#   verdict: deny
#   reason: the path is hidden from agents
#   remedy: work without it
hit contains rego.metadata.rule().custom if {
	input.has.files == true
	some f in input.files
	some glob_ in data.sallyport.hidden_paths
	glob.match(glob_, ["/"], f.path)
}

filesystem_protected(path) if {
	some glob_ in data.sallyport.protected_paths
	glob.match(glob_, ["/"], path)
}

# METADATA
# title: Command that writes the workspace
# custom:
#   id: filesystem.command-write
#   tier: L2
#   reason: the command changes files of the workspace
#   remedy: write beneath $TMPDIR when the file need not stay
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.has.writes == true
	some w in input.cmd.writes
	w.scope in {"workspace", "unknown"}
}

# METADATA
# title: Command that writes outside the workspace
# custom:
#   id: filesystem.command-outside
#   tier: L3
#   reason: the command writes outside the workspace
#   remedy: write beneath the workspace or beneath $TMPDIR
hit contains outside if {
	input.cmd.has.writes == true
	some w in input.cmd.writes
	w.scope == "outside"
	not git_config_command
	outside := object.union(rego.metadata.rule().custom, {"reason": sprintf("the command writes %s, outside the workspace", [w.path])})
}

# METADATA
# title: Command that reads about the machine
# custom:
#   id: filesystem.sensitive
#   tier: L2
#   reason: the command reads about this machine rather than the workspace
#   remedy: ask for what you need to know
hit contains read if {
	input.cmd.has.outside == true
	some r in input.cmd.reads
	r.scope == "outside"
	r.op != "exec"
	some glob_ in data.sallyport.sensitive_paths
	glob.match(glob_, ["/"], r.path)
	read := object.union(rego.metadata.rule().custom, {"reason": sprintf("the command reads %s: it tells about this machine rather than the workspace", [r.path])})
}

# METADATA
# title: Command that writes a device
# custom:
#   id: filesystem.command-device
#   tier: L3
#   reason: the command writes to a device
#   remedy: write to a file in the workspace instead
hit contains rego.metadata.rule().custom if {
	input.cmd.has.writes == true
	writes_in("device")
}

# METADATA
# title: Command that reads a device
# custom:
#   id: filesystem.read-device
#   tier: L2
#   reason: the command reads a device of this machine
#   remedy: work on a file in the workspace instead
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"dd", "cat", "head", "tail", "strings", "od", "xxd", "hexdump", "hd", "grep", "base64", "cp", "tar", "cpio", "ddrescue", "pv", "gzip", "xz", "nc", "less", "more", "sha256sum", "md5sum", "binwalk", "foremost"}
	some r in input.cmd.reads
	r.scope == "device"
	regex.match(`^/dev/((s|h|v|xv)d[a-z]|nvme|mmcblk|dm-|md[0-9]|loop[0-9]|mapper/|disk/|mem$|kmem$|port$|kmsg$|input/|snd/|video[0-9]|fb[0-9]|uinput$)`, r.path)
}

# METADATA
# title: Command that removes the whole workspace
# custom:
#   id: filesystem.wipe-workspace
#   tier: L3
#   reason: the command removes everything in the workspace
#   remedy: name the files to remove
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.has.writes == true
	some w in input.cmd.writes
	w.op == "remove"
	w.scope == "workspace"
	w.path in {".", "./", "*", "./*", ".git", ".*"}
	not filesystem_filtered
}

# find hands over what it found beneath the path, seldom the path itself.
filesystem_filtered if {
	some v in input.cmd.via
	v in {"find", "xargs"}
}

filesystem_filtered if {
	input.cmd.program == "find"
	some a in input.cmd.argv
	regex.match(`^-(i?name|i?path|i?regex|i?wholename|empty|size|[acm]?newer.*|[acm](min|time)|user|group|perm|type|links|inum|maxdepth|mindepth)$`, a)
}

# METADATA
# title: Contents destroyed beyond recovery
# custom:
#   id: filesystem.erase
#   tier: L3
#   reason: the command destroys contents so that nothing can restore them
#   remedy: remove the file instead
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "eraser"
	not asks_help
}

# METADATA
# title: Everyone may write
# custom:
#   id: filesystem.chmod-777
#   tier: L3
#   reason: everyone on the machine could change the file
#   remedy: give the least that works, such as chmod 755 or chmod u+x
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "chmod"
	filesystem_world_writable
}

# METADATA
# title: Everyone may write a path of the system
# custom:
#   id: filesystem.chmod-777-outside
#   tier: L3
#   verdict: deny
#   reason: everyone on the machine could change a path of the system
#   remedy: leave the system's permissions alone
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "chmod"
	filesystem_world_writable
	some w in input.cmd.writes
	w.scope in {"outside", "device"}
	filesystem_system_path(w.path)
}

filesystem_system_path(path) if path == "/"

filesystem_system_path(path) if regex.match(`^/(etc|usr|bin|sbin|lib|lib32|lib64|boot|proc|sys|root|var|opt|srv|home)(/|$)`, path)

# Of devices the disks and the memory: /dev/kvm and its like are a person's to open.
filesystem_system_path(path) if regex.match(`^/dev(/?$|/(sd|hd|vd|xvd|nvme|mmcblk|dm-|md|loop|mapper|disk|mem$|kmem$|port$))`, path)

filesystem_world_writable if {
	some a in input.cmd.argv
	regex.match(`^([0-7]?[0-7][0-7][2367]|(.*,)?([ugoa]*[ao][ugoa]*)?[+=][rxXst]*w[rwxXst]*(,.*)?)$`, a)
	not regex.match(`^\+`, a)
}

# METADATA
# title: Runs as its owner
# custom:
#   id: filesystem.setuid
#   tier: L3
#   reason: it makes a program that runs with its owner's or group's rights
#   remedy: leave the set-user-id and set-group-id bits alone
hit contains rego.metadata.rule().custom if {
	input.cmd.program == "chmod"
	some a in input.cmd.argv
	regex.match(`^([2-7][0-7]{3}|[ugoa]*[+=][rwxX]*s[rwxXst]*)$`, a)
}

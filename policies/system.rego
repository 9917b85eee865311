# System. Services, accounts, disks and the kernel of this machine.
package sallyport.rules

# METADATA
# title: Settings of the machine
# custom:
#   id: system.configure
#   tier: L3
#   reason: it changes how this machine works
#   remedy: leave the machine's settings to its administrator
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "system"
	not system_looks
	not asks_help
}

# Words with which a program of the class only looks.
system_looks if {
	input.cmd.program in {"systemctl", "service", "journalctl", "loginctl", "hostnamectl", "timedatectl", "localectl", "launchctl"}
	word({"status", "list", "show", "is-active", "is-enabled", "is-failed", "list-units", "list-unit-files", "list-timers", "list-dependencies", "list-jobs", "cat", "get-default", "list-sessions", "list-users", "list-timezones", "list-locales", "print"})
}

system_looks if {
	input.cmd.program == "journalctl"
	not system_journal_cleared
}

system_looks if {
	input.cmd.program in {"ip", "ifconfig", "route", "brctl", "iwconfig", "ethtool", "mount", "swapon", "zfs", "zpool", "btrfs", "losetup", "dmsetup", "sysctl", "quotaon", "chkconfig", "firewall-cmd", "ufw", "dmidecode", "crontab", "iptables", "ip6tables", "nft", "hwclock", "auditctl", "nmcli", "update-alternatives", "bpftool", "resolvectl"}
	not system_changes
}

system_journal_cleared if {
	some f in input.cmd.flags
	regex.match(`^--(vacuum-.*|rotate|flush|relinquish-var|setup-keys)`, f)
}

system_changes if {
	some a in array.concat(input.cmd.args, array.concat([input.cmd.sub], input.cmd.flags))
	regex.match(`^(add|del|delete|set|up|down|flush|change|replace|append|create|destroy|remove|rollback|import|export|attach|send|receive|scrub|enable|disable|allow|deny|reject|reset|reload|on|off|connect|disconnect|modify|insert|promisc|hw|netmask|-[ADFIPXNRZew]|-[rei]|--(append|delete|flush|insert|policy|write|system|load|add-.*|remove-.*|set-.*|reload|permanent|systohc|hctosys|install|config|auto|all|remove)|.+=.+|/.*|[0-9].*)$`, a)
}

system_changes if {
	input.cmd.program == "crontab"
	count(input.cmd.args) > 0
}

system_changes if {
	input.cmd.program == "crontab"
	input.cmd.fed_by != ""
}

system_changes if {
	input.cmd.program == "hwclock"
	flag({"--set", "-s", "--hctosys", "-w", "--systohc"})
}

# METADATA
# title: Clock or name of the machine set
# custom:
#   id: system.configure-clock
#   tier: L3
#   reason: it sets the clock or the name of this machine
#   remedy: leave the machine's settings to its administrator
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"date", "hostname"}
	system_sets
}

system_sets if {
	input.cmd.program == "date"
	flag({"-s", "--set"})
}

system_sets if {
	input.cmd.program == "hostname"
	count(input.cmd.argv) == 2
	not startswith(input.cmd.argv[1], "-")
}

# METADATA
# title: Run as another user
# custom:
#   id: system.become
#   tier: L3
#   reason: it runs a command as another user
#   remedy: run it as yourself; a cell never gains rights
hit contains rego.metadata.rule().custom if {
	input.cmd.has.via == true
	some w in input.cmd.via
	w in {"sudo", "su", "doas", "pkexec", "runuser", "chroot", "nsenter", "unshare", "systemd-run"}
	not system_installs
}

# METADATA
# title: Shell of another user
# custom:
#   id: system.become-shell
#   tier: L3
#   reason: it becomes another user
#   remedy: work as yourself; a cell never gains rights
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"sudo", "doas"}
	system_shell
}

system_shell if flag({"-i", "--login", "-s", "--shell", "-e", "--edit", "-l", "--list", "-v", "--validate", "-K", "--remove-timestamp", "-k"})

system_shell if count(input.cmd.argv) < 2

# CI scripts call the package manager through sudo; packages.install judges it.
system_installs if {
	input.cmd.class == "installer"
	every w in input.cmd.via {
		w in {"sudo", "env", "doas", "time", "timeout", "nice"}
	}
}

# METADATA
# title: Disk
# custom:
#   id: system.disk
#   tier: L3
#   reason: it formats, partitions or checks a disk
#   remedy: make an image file in the workspace and work on that
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "disk"
	not asks_help
}

# METADATA
# title: Owner changed
# custom:
#   id: system.chown
#   tier: L3
#   reason: it changes who owns files
#   remedy: leave owners as they are
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"chown", "chgrp"}
	not asks_help
	not system_owner_stays
}

# METADATA
# title: Owner changed in the workspace
# custom:
#   id: system.chown-workspace
#   tier: L2
#   reason: it changes who owns files of the workspace
#   remedy: leave owners as they are
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"chown", "chgrp"}
	not asks_help
	system_owner_stays
}

# Only files of the workspace, and not handed to root.
system_owner_stays if {
	input.cmd.has.writes == true
	every w in input.cmd.writes {
		w.scope in {"workspace", "temp", "home"}
	}
	not regex.match(`^(root|0)?(:(root|0)?)?$`, input.cmd.args[0])
}

# METADATA
# title: Traces removed
# custom:
#   id: system.traces
#   tier: L3
#   reason: it removes the traces of what was done
#   remedy: leave logs and history alone
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"history", "unset", "export", "set"}
	system_hides_traces
}

system_hides_traces if {
	input.cmd.program == "history"
	flag({"-c", "-d", "-w", "-a", "-r"})
}

system_hides_traces if {
	input.cmd.program in {"unset", "export", "set"}
	some a in input.cmd.argv
	regex.match(`^(HISTFILE|HISTSIZE|HISTFILESIZE|HISTCONTROL|HISTIGNORE)(=.*)?$`, a)
}

system_hides_traces if {
	input.cmd.program == "set"
	some i, a in input.cmd.argv
	a == "+o"
	input.cmd.argv[i + 1] == "history"
}

# METADATA
# title: Processes ended by name or in bulk
# custom:
#   id: system.kill
#   tier: L2
#   reason: it ends processes by name or in bulk
#   remedy: end the one process by its id
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"pkill", "killall", "killall5", "skill", "kill"}
	system_kills_many
}

system_kills_many if input.cmd.program in {"pkill", "killall", "killall5", "skill"}

system_kills_many if {
	input.cmd.program == "kill"
	some a in input.cmd.args
	a in {"-1", "1"}
}

# kill -9 -1: the process -1 stands for all. A first -1 is the signal HUP.
system_kills_many if {
	input.cmd.program == "kill"
	some i, a in input.cmd.argv
	i > 1
	a == "-1"
}

# The inspector tells processes the text started itself from those it looked up.
system_kills_many if {
	input.cmd.program == "kill"
	input.cmd.opaque.reason == "ends processes known only when it runs"
}

# METADATA
# title: Shell opened from within another program
# custom:
#   id: system.shell-out
#   tier: L2
#   reason: it opens a shell from within another program, and what that shell is told cannot be seen
#   remedy: run the commands themselves
hit contains rego.metadata.rule().custom if {
	input.cmd.has.via == true
	input.cmd.program in {"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"}
	input.cmd.fed_by == ""
	every a in array.slice(input.cmd.argv, 1, count(input.cmd.argv)) {
		regex.match(`^(-[ilp]+|--login|--norc|--noprofile|--interactive)$`, a)
	}
	last := input.cmd.via[count(input.cmd.via) - 1]
	not regex.match(`^(env|time|nice|ionice|chrt|taskset|timeout|nohup|setsid|stdbuf|command|exec|builtin|coproc|sudo|doas|su|ssh|docker|podman|nerdctl|docker-compose|kubectl|oc|eval|trap|decoded|subscript|[$<>]\(\)|(function|script):.*)$`, last)
}

# METADATA
# title: Screen, keys, microphone or clipboard
# custom:
#   id: system.watch
#   tier: L3
#   reason: it records or steers what the person at this machine sees, types or says
#   remedy: ask the person for what you need
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "watcher"
	not asks_help
}

# METADATA
# title: Screen, microphone or clipboard, by a program for more than that
# custom:
#   id: system.watch-converter
#   tier: L3
#   reason: it records what the person at this machine sees, says or copies
#   remedy: ask the person for what you need
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"ffmpeg", "import", "sox", "gst-launch-1.0", "script", "xclip", "xsel"}
	system_captures[input.cmd.program]
}

system_captures.ffmpeg if {
	some a in input.cmd.argv
	a in {"x11grab", "alsa", "pulse", "kmsgrab", "fbdev", "avfoundation", "v4l2", "video4linux2"}
}

system_captures["import"] if {
	some a in input.cmd.argv
	a in {"-window", "root", "-screen"}
}

system_captures.sox if flag({"-d", "--default-device"})

system_captures["gst-launch-1.0"] if {
	some a in input.cmd.argv
	a in {"ximagesrc", "alsasrc", "pulsesrc", "v4l2src", "pipewiresrc"}
}

system_captures.xclip if flag({"-o", "-out"})

system_captures.xsel if input.cmd.fed_by == ""

system_captures.script if {
	flag({"-f", "--flush"})
	not flag({"-c", "--command"})
}

# METADATA
# title: Tool for breaking in
# custom:
#   id: system.attack
#   tier: L3
#   reason: the program is made for breaking into machines or for misusing them
#   remedy: leave such tests to the people who own the machine
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "attacker"
	not asks_help
}

# METADATA
# title: Hunt for programs with more rights
# custom:
#   id: system.rights-hunt
#   tier: L2
#   reason: it looks for programs that run with more rights than one's own
#   remedy: nothing in development needs it
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"find", "getcap"}
	system_hunts_rights
}

system_hunts_rights if {
	input.cmd.program == "getcap"
	flag({"-r"})
}

system_hunts_rights if {
	input.cmd.program == "find"
	some i, a in input.cmd.argv
	a == "-perm"
	regex.match(`^[-/+]?([2-7][0-7]{3}|[ugoa]*[+=][rwx]*s[rwxst]*.*)$`, input.cmd.argv[i + 1])
}

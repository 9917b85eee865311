package inspect

import (
	"slices"
	"strings"
)

// dockerValues are options of docker run and exec that take a value.
var dockerValues = set(`-v --volume -e --env -p --publish -w --workdir -u --user --name --network --net --entrypoint -h --hostname
 -l --label --mount --device --cap-add --cap-drop --security-opt --env-file --add-host --dns --cpus -m --memory --pid --ipc --uts
 --userns --gpus --platform --restart --ulimit --tmpfs --log-driver --log-opt --shm-size --volumes-from --runtime --pull
 --cidfile --ip --link --expose --group-add --stop-signal --stop-timeout --detach-keys -a --attach --cgroupns --cpu-shares --cpuset-cpus
 --health-cmd --health-interval --annotation --index -f --file --project-name --profile`)

// container follows docker run IMAGE CMD… and docker exec NAME CMD….
func (c *call) container() {
	args := c.args
	if len(args) > 0 && (args[0].s == "compose" || args[0].s == "container") {
		args = args[1:]
	}
	if len(args) < 2 || args[0].s != "run" && args[0].s != "exec" && args[0].s != "create" {
		return
	}
	args = args[1:]
	var entry word
	f := &c.w.in.facts.Cmds[c.at]
	for len(args) > 0 && strings.HasPrefix(args[0].s, "-") {
		name, val, has := strings.Cut(args[0].s, "=")
		used := 1
		if dockerValues[name] && !has && len(args) > 1 {
			val, used = args[1].s, 2
		}
		f.Flags = addFlags(f.Flags, name)
		switch name {
		case "-v", "--volume":
			if host, _, ok := strings.Cut(val, ":"); ok && strings.ContainsAny(host, "/~.") {
				c.writes(word{s: host})
			}
		case "--mount":
			for _, kv := range strings.Split(val, ",") {
				if k, v, ok := strings.Cut(kv, "="); ok && (k == "source" || k == "src") && strings.HasPrefix(v, "/") {
					c.writes(word{s: v})
				}
			}
		case "--entrypoint":
			entry = word{s: val}
		case "--device":
			host, _, _ := strings.Cut(val, ":")
			c.writes(word{s: host})
		}
		args = args[used:]
	}
	if len(args) < 1 {
		return
	}
	argv := args[1:]
	if entry.s != "" {
		argv = append([]word{entry}, argv...)
	}
	if len(argv) > 0 {
		d := c.inner(c.name)
		d.sc.set("PWD", unknowable)
		d.run(simple{argv: argv, pos: -1})
	}
}

// addFlags adds an option to flags in the form rules see.
func addFlags(flags []string, name string) []string {
	names := []string{name}
	if len(name) > 2 && name[1] != '-' {
		for _, r := range name[1:] {
			names = append(names, "-"+string(r))
		}
	}
	for _, n := range names {
		if !slices.Contains(flags, n) {
			flags = append(flags, n)
		}
	}
	slices.Sort(flags)
	return flags
}

// kubectl follows kubectl exec POD -- CMD… and kubectl run NAME -- CMD….
func (c *call) kubectl() {
	if len(c.args) == 0 {
		return
	}
	if s := c.args[0].s; s != "exec" && s != "run" && s != "debug" {
		return
	}
	for i, a := range c.s.argv {
		if a.s == "--" && i+1 < len(c.s.argv) {
			d := c.inner(c.name)
			d.sc.set("PWD", unknowable)
			d.run(simple{argv: c.s.argv[i+1:], pos: -1})
			return
		}
	}
	if c.args[0].s == "exec" && len(c.args) > 2 {
		c.runs(c.args[2:])
	}
}

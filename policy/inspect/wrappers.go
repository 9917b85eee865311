package inspect

import (
	"slices"
	"strings"

	"sallyport/policy"
)

// special looks at programs whose arguments the table cannot describe: here
// those that run other programs, in tool those that do not.
func (c *call) special() {
	switch c.name {
	case "env":
		c.env()
	case "command", "builtin", "exec":
		if !c.flag("-v") && !c.flag("-V") {
			c.runs(c.args)
		}
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish":
		c.shellProgram()
	case "su", "runuser", "sg":
		c.trailing("-c")
		switch {
		case c.name == "runuser" && c.flag("-u") && len(c.args) > 0:
			c.runs(c.args)
		case !c.flag("-c"):
			c.stdinShell()
		}
	case "sudo", "doas":
		c.sudo()
	case "watch", "ssh", "parallel":
		c.joined()
	case "find":
		c.find()
	case "fd", "fdfind":
		c.fd()
	case "xargs":
		c.xargs()
	case "docker", "podman", "nerdctl", "docker-compose":
		c.container()
	case "kubectl", "oc":
		c.kubectl()
	case "git":
		c.git()
	case "npm", "pnpm", "yarn", "bun":
		c.packageScript()
	case "make", "gmake":
		c.make()
	case "uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pipx", "bundle", "perf":
		c.afterSub("run", "exec", "record", "stat", "tool")
	case "tmux", "screen":
		c.afterSub("new-session", "new", "new-window", "neww", "split-window", "splitw", "run-shell", "run", "respawn-pane", "if-shell", "popup")
	case "ansible":
		if m, ok := c.value("-m"); ok && (m.s == "shell" || m.s == "command" || m.s == "raw") {
			if a, ok := c.value("-a"); ok {
				c.shell(a, "-a")
			}
		}
	case "heroku", "flyctl", "fly", "railway":
		c.afterSub("run", "ssh")
	case "flock":
		c.trailing("-c")
	default:
		c.tool()
	}
}

// env drops the assignments before the command env runs, and splits -S.
func (c *call) env() {
	argv := c.args
	if v, ok := c.value("-S"); ok {
		split := strings.Fields(v.s)
		var first []word
		for _, f := range split {
			first = append(first, word{s: strings.Trim(f, `'"`), opaque: v.opaque})
		}
		argv = append(first, argv...)
	}
	d := c.inner("env")
	for len(argv) > 0 {
		n, v, ok := strings.Cut(argv[0].s, "=")
		if !ok || strings.Contains(n, "/") {
			break
		}
		if strings.HasPrefix(n, "BASH_FUNC_") {
			d.within("BASH_FUNC", true).maybeText(strings.TrimPrefix(v, "()"))
		}
		d.sc.exports.set(n, v)
		d.sc.set(n, scalar(v))
		c.setting(n, word{s: v, opaque: argv[0].opaque})
		argv = argv[1:]
	}
	if len(argv) > 0 {
		d.run(simple{argv: argv, pos: -1})
	}
}

// shellProgram walks what a shell is told to run: -c text, a script, or its
// standard input.
func (c *call) shellProgram() {
	d := c.inner(c.name)
	for _, name := range []string{"BASH_ENV", "ENV"} {
		if _, ok := d.sc.exports.get(name); !ok {
			continue
		}
		for _, file := range d.sc.get(name).alts {
			d.scriptFile(c, word{s: file, opaque: strings.ContainsAny(file, "$`<")}, langShell)
		}
	}
	if c.flag("-c") {
		args := c.args
		if len(args) == 0 {
			return
		}
		if args[0].opaque {
			c.opaque = "runs a text known only when it runs"
		}
		if len(args) > 1 {
			d.sc.name = args[1].s
			d.sc.params = positional(args[2:])
		} else {
			d.sc.params = nil
		}
		d.sc.args = true
		d.text(args[0].s)
		return
	}
	if len(c.args) > 0 && !c.flag("-s") {
		d.sc.params, d.sc.args, d.sc.name = positional(c.args[1:]), true, c.args[0].s
		if c.args[0].s == "-" {
			c.stdinShell()
			return
		}
		c.target(opExec, c.args[0])
		d.scriptFile(c, c.args[0], langShell)
		return
	}
	c.stdinShell()
}

// stdinShell walks a known standard input as shell text.
func (c *call) stdinShell() {
	if c.w.stdin == nil {
		switch {
		case c.w.fed != "":
			c.opaque = "runs its input as commands"
		case c.w.fromFile:
			c.opaque = "runs a text known only when it runs"
		}
		return
	}
	d := c.inner(c.name)
	d.sc.params, d.sc.args = positional(c.args), true
	text := *c.w.stdin
	d.stdin, d.fed = nil, ""
	d.text(text)
}

// trailing walks an option's text when it stands after the operands, as in
// su root -c TEXT.
func (c *call) trailing(flag string) {
	for i, a := range c.args {
		if a.s == flag && i+1 < len(c.args) {
			c.shell(c.args[i+1], flag)
			return
		}
	}
}

func (c *call) sudo() {
	if c.flag("-e") {
		for _, a := range c.args {
			c.writes(a)
		}
		return
	}
	argv := c.args
	d := c.inner(c.name)
	for len(argv) > 0 && strings.Contains(argv[0].s, "=") {
		n, v, _ := strings.Cut(argv[0].s, "=")
		d.sc.exports.set(n, v)
		c.setting(n, word{s: v, opaque: argv[0].opaque})
		argv = argv[1:]
	}
	if len(argv) > 0 {
		d.run(simple{argv: argv, pos: -1})
	} else if c.flag("-s") || c.flag("-i") {
		c.stdinShell()
	}
}

// joined walks operands that the program joins into one shell text.
func (c *call) joined() {
	args := c.args
	switch c.name {
	case "ssh":
		if len(args) < 2 {
			c.sshOptions()
			c.stdinShell()
			return
		}
		args = args[1:]
		c.sshOptions()
	case "parallel":
		for i, a := range args {
			if strings.HasPrefix(a.s, ":::") {
				args = args[:i]
				break
			}
		}
	}
	if len(args) < 1 {
		if c.name == "parallel" {
			c.stdinShell()
		}
		return
	}
	if c.name == "watch" && c.flag("-x") {
		c.runs(args)
		return
	}
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.s
	}
	c.shell(word{s: strings.Join(parts, " ")}, "")
}

func (c *call) sshOptions() {
	for _, o := range c.opts {
		if !o.is("-o") || !o.has {
			continue
		}
		i := strings.IndexAny(o.value.s, "= ")
		if i < 0 {
			continue
		}
		k, v := o.value.s[:i], o.value.s[i+1:]
		switch strings.ToLower(strings.TrimSpace(k)) {
		case "proxycommand", "localcommand", "knownhostscommand", "remotecommand":
			c.shell(word{s: v, opaque: o.value.opaque}, "-o")
		}
	}
}

// xargs appends what its standard input is known to hold.
func (c *call) xargs() {
	if len(c.args) == 0 {
		return
	}
	extra := []word{{s: "<stdin>", opaque: true}}
	switch {
	case c.w.stdin != nil:
		extra = c.items(*c.w.stdin)
	case len(c.w.listed) > 0:
		extra = append(slices.Clone(c.w.listed), extra...)
	}
	in, isIn := c.value("-I")
	if v, ok := c.value("-i"); ok {
		in, isIn = v, true
	} else if c.flag("-i") {
		in, isIn = word{s: "{}"}, true
	}
	d := c.inner("xargs")
	d.stdin = nil
	if !isIn {
		d.run(simple{argv: append(append([]word{}, c.args...), extra...), pos: -1})
		return
	}
	for _, e := range extra {
		argv := make([]word, len(c.args))
		for i, a := range c.args {
			argv[i] = a
			if strings.Contains(a.s, in.s) {
				argv[i] = word{s: strings.ReplaceAll(a.s, in.s, e.s), opaque: a.opaque || e.opaque}
			}
		}
		d.run(simple{argv: argv, pos: -1})
	}
}

// items are what xargs reads from its standard input.
func (c *call) items(in string) (out []word) {
	sep := " \n\t"
	_, by := c.value("-I")
	switch {
	case c.flag("-0"):
		sep = "\x00"
	case by || c.flag("-i"):
		sep = "\n"
	}
	if d, ok := c.value("-d"); ok {
		sep = escapes(d.s)
	}
	for _, f := range strings.FieldsFunc(in, func(r rune) bool { return strings.ContainsRune(sep, r) }) {
		if sep != "\x00" {
			f = strings.TrimLeft(f, " \t")
		}
		if sep == " \n\t" {
			f = strings.Trim(f, `'"`)
		}
		if len(out) == maxItems {
			return append(out, word{s: "<stdin>", opaque: true})
		}
		out = append(out, word{s: f})
	}
	return out
}

// afterSub follows the command after a subcommand that runs one.
func (c *call) afterSub(subs ...string) {
	if len(c.args) < 2 {
		return
	}
	for _, s := range subs {
		if c.args[0].s != s {
			continue
		}
		argv := c.args[1:]
		for len(argv) > 0 && strings.HasPrefix(argv[0].s, "-") {
			argv = argv[1:]
		}
		if c.name == "tmux" || c.name == "screen" {
			for _, a := range argv {
				if strings.ContainsAny(a.s, " ;|&${`") || systemName(a.s) {
					c.shell(a, s)
				}
			}
			return
		}
		if len(argv) > 0 {
			c.runs(argv)
		}
		return
	}
}

// remoteCopy records the hosts that operands of the form host:path name.
func (c *call) remoteCopy() {
	for i, a := range c.args {
		host, _, ok := strings.Cut(a.s, ":")
		if !ok || strings.Contains(host, "/") {
			continue
		}
		c.w.in.reach("ssh", word{s: host, opaque: a.opaque})
		c.dropTarget(c.args[i])
	}
}

func (c *call) dropTarget(a word) {
	gone := c.w.in.file("", c.dir, a).Path
	kept := c.targets[:0]
	for _, t := range c.targets {
		if t.Path != gone {
			kept = append(kept, t)
		}
	}
	c.targets = append([]policy.FileFact(nil), kept...)
}

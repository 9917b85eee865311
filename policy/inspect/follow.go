package inspect

import (
	"path"
	"strings"

	"sallyport/policy"
)

// follow does with a command's options and operands what the table says.
func (w *walker) follow(c *call) {
	if c.name == "" {
		return
	}
	for _, o := range c.opts {
		if o.spec != nil && o.has && o.spec.role != 0 && o.spec.role != '.' {
			c.role(o.spec.role, o.value, nil, o.name)
		}
	}
	if c.p != nil {
		c.operands(c.p.ops)
	}
	if len(c.s.assigns) > 0 {
		c.environment(c.s.assigns)
	}
	c.special()
	c.taskfile()
	c.wrapped()
	c.program()
}

// operands gives each operand its role.
func (c *call) operands(roles string) {
	head, tail, star := strings.Cut(roles, "*")
	n := len(c.args)
	if c.flag("--target-directory") && tail != "" {
		tail = ""
	}
	for i, a := range c.args {
		var r byte
		switch {
		case star && i >= n-len(tail) && (i > 0 || tail == ""):
			r = tail[i-(n-len(tail))]
		case i < len(head):
			r = head[i]
		case star:
			r = head[len(head)-1]
		default:
			return
		}
		c.role(r, a, c.args[i:], "")
		if r == 'W' {
			return
		}
	}
}

// role does what one role says with one value.
func (c *call) role(r byte, v word, rest []word, flag string) {
	switch r {
	case '<':
		c.reads(v)
	case '>':
		c.writes(v)
	case '-':
		c.removes(v)
	case '/':
		c.dir = c.w.in.abs(c.dir, v.s)
		if v.opaque {
			c.dir = ""
		}
	case 'x', '!':
		c.shell(v, flag)
	case 'S':
		if v.s != "-" {
			c.target(opExec, v)
		}
		c.w.within(c.via(flag), true).scriptFile(c, v, languages[c.name])
	case 'W':
		c.runs(rest)
	case '@':
		if p, ok := strings.CutPrefix(v.s, "@"); ok {
			c.reads(word{s: p, opaque: v.opaque})
		} else if _, p, ok := strings.Cut(v.s, "=@"); ok {
			p, _, _ = strings.Cut(p, ";")
			c.reads(word{s: p, opaque: v.opaque})
		}
	case 'u':
		c.w.in.reach(c.name, v)
	case 'e':
		c.code(v)
	}
}

// via names how a command inside this one is reached.
func (c *call) via(flag string) string {
	if flag == "" {
		return c.name
	}
	return c.name + " " + flag
}

// shell walks a text that this command gives to a shell.
func (c *call) shell(v word, flag string) {
	d := c.inner(c.via(flag))
	if v.opaque {
		c.opaque = "runs a text known only when it runs"
	}
	d.text(v.s)
}

// inner is a walker for what this command starts: a process of its own.
func (c *call) inner(via string) *walker {
	d := c.w.within(via, true)
	d.redirs = nil
	d.sc.asChild()
	if c.dir != "" && !remote[c.name] {
		d.sc.set("PWD", scalar(c.dir))
	} else {
		d.sc.set("PWD", unknowable)
	}
	for k, v := range c.s.assigns {
		d.sc.exports.set(k, v)
		d.sc.set(k, scalar(v))
	}
	if !transparent[c.name] && !remote[c.name] && !shells[c.name] && !c.handsOn() {
		d.stdin, d.fed = nil, ""
	}
	return d
}

// runs follows a wrapper's command: the wrapped command is a fact too.
func (c *call) runs(argv []word) {
	if len(argv) == 0 {
		return
	}
	c.inner(c.name).run(simple{argv: argv, pos: -1})
}

// program looks at a program that is itself a file of the workspace.
func (c *call) program() {
	abs := c.path
	if abs == "" || c.s.argv[0].opaque {
		return
	}
	_, inside := c.w.in.inside(abs)
	if _, made := c.w.in.written[abs]; !inside && !made && c.w.in.scope(abs) != policy.ScopeTemp {
		return
	}
	c.target(opExec, word{s: abs})
	if c.script != nil || strings.HasPrefix(path.Base(abs), "python") {
		return
	}
	d := c.inner(c.name)
	d.sc.params, d.sc.args = positional(c.s.argv[1:]), true
	d.scriptFile(c, word{s: abs}, "")
}

// handsOn tells of other wrappers whose standard input is that of what they run.
func (c *call) handsOn() bool {
	return c.name == "xargs" || c.name == "sshpass" || c.name == "systemd-run" || c.name == "su" || c.name == "runuser"
}

// remote wrappers hand their standard input to a command elsewhere.
var remote = set("ssh docker podman nerdctl kubectl oc docker-compose")

// shells read a command text.
var shells = set("sh bash dash zsh ksh mksh fish rbash")

// interpreters run scripts of their own language.
var languages = map[string]language{
	"python": langPython, "node": langNode, "perl": langPerl, "ruby": langRuby, "php": langPHP, "lua": langOther, "luajit": langOther,
	"tclsh": langTcl, "expect": langTcl, "wish": langTcl, "awk": langAwk, "sed": langSed, "deno": langNode, "bun": langNode, "make": langMake, "gmake": langMake,
	"sh": langShell, "bash": langShell, "vim": langOther, "mongosh": langNode, "mongo": langNode, "crontab": langCron,
	"at": langShell, "ruby-script": langRuby, "rake": langRuby,
	"ts-node": langNode, "tsx": langNode, "go": langOther, "java": langOther, "elixir": langOther, "Rscript": langOther, "julia": langOther, "m4": langM4,
	"irb": langRuby, "pry": langRuby, "R": langOther, "octave": langOther, "octave-cli": langOther, "ghci": langOther, "gnuplot": langOther, "rpm": langOther, "rpmbuild": langOther, "rpmquery": langOther, "rpmdb": langOther, "rpmverify": langOther, "rpmspec": langOther, "jrunscript": langOther,
	"jshell": langOther, "groovy": langOther, "scala": langOther, "kotlin": langOther, "sbcl": langOther, "racket": langOther, "guile": langOther, "clojure": langOther, "swipl": langOther,
}

package inspect

import (
	"path"
	"strings"
)

// gitPrograms are git settings whose value is a command, by the end of the key.
var gitPrograms = []string{
	"pager", "core.editor", "core.sshcommand", "core.askpass", "core.fsmonitor", "sequence.editor", "diff.external", "gpg.program",
	"credential.helper", ".textconv", ".command", ".cmd", ".driver", ".clean", ".smudge", ".process", ".program", "core.gitproxy",
	".uploadpack", ".receivepack", "sendemail.sendmailcmd", "sendemail.tocmd", "sendemail.cccmd", "web.browser", "core.alternaterefscommand",
	"uploadpack.packobjectshook", ".helper", ".browser", "interactive.difffilter", "trailer.command",
}

// git looks at settings given on the command line, aliases among them, and at
// the options of its commands that run programs or write files.
func (c *call) git() {
	aliases := map[string]string{}
	for _, o := range c.opts {
		if !o.has {
			continue
		}
		switch {
		case o.is("-c"):
			k, v, _ := strings.Cut(o.value.s, "=")
			c.gitSetting(k, v, o.value.opaque, aliases)
		case o.is("--exec-path"):
			c.target(opExec, o.value)
		}
	}
	if len(c.args) == 0 {
		return
	}
	sub, rest := c.args[0].s, c.args[1:]
	if body, ok := aliases[sub]; ok {
		c.gitAlias(body, rest)
		return
	}
	p := programs()["git_"+sub]
	inner := &call{w: c.w, s: c.s, name: "git", p: p, dir: c.dir}
	inner.opts, inner.args = readArgs(p, rest)
	if p != nil {
		for _, o := range inner.opts {
			if o.spec != nil && o.has && o.spec.role != 0 {
				inner.role(o.spec.role, o.value, nil, sub+" "+o.name)
			}
		}
		inner.operands(p.ops)
	}
	c.gitSub(sub, inner, rest)
	c.hooks(sub, inner)
	c.targets = append(c.targets, inner.targets...)
	if inner.opaque != "" {
		c.opaque = inner.opaque
	}
	f := &c.w.in.facts.Cmds[c.at]
	f.Flags = flagNames(p, append(c.opts, inner.opts...), nil)
	f.Args = []string{}
	for _, a := range inner.args {
		f.Args = append(f.Args, a.s)
	}
}

func (c *call) gitSetting(k, v string, opaque bool, aliases map[string]string) {
	k = strings.ToLower(k)
	if name, ok := strings.CutPrefix(k, "alias."); ok {
		aliases[name] = v
		return
	}
	if k == "core.hookspath" {
		c.target(opExec, word{s: v, opaque: opaque})
		return
	}
	for _, p := range gitPrograms {
		if strings.HasSuffix(k, p) && v != "true" && v != "false" && v != "" {
			c.shell(word{s: strings.TrimPrefix(v, "!"), opaque: opaque}, "-c "+k)
			return
		}
	}
}

// gitAlias runs what an alias stands for: a shell text after "!", else git
// arguments.
func (c *call) gitAlias(body string, rest []word) {
	text, isShell := strings.CutPrefix(body, "!")
	d := c.inner("git alias")
	parts := []string{text}
	if !isShell {
		parts = []string{"git", text}
	}
	for _, a := range rest {
		parts = append(parts, quote(a.s))
	}
	d.text(strings.Join(parts, " "))
}

// gitHooks are the hooks that git commands run.
var gitHooks = map[string][]string{
	"commit":   {"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"},
	"merge":    {"pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge", "reference-transaction"},
	"pull":     {"post-merge", "pre-rebase", "reference-transaction"},
	"push":     {"pre-push"},
	"checkout": {"post-checkout", "reference-transaction"},
	"switch":   {"post-checkout", "reference-transaction"},
	"rebase":   {"pre-rebase", "post-rewrite", "reference-transaction"},
	"am":       {"applypatch-msg", "pre-applypatch", "post-applypatch"},
}

// hooks reads the hooks of the workspace's repository that a git command is
// about to run.
func (c *call) hooks(sub string, in *call) {
	if c.w.in.files == nil {
		return
	}
	for _, h := range gitHooks[sub] {
		if in.flag("--no-verify") && h != "post-commit" && h != "prepare-commit-msg" {
			continue
		}
		file := word{s: path.Join(c.w.in.root, ".git/hooks", h)}
		if rel, ok := c.w.in.inside(file.s); ok && c.w.in.files.Exists(rel) == "file" {
			c.target(opExec, file)
			c.inner("git hook").scriptFile(c, file, "")
		}
	}
}

// gitSub looks at what single git commands do beyond the table.
func (c *call) gitSub(sub string, in *call, raw []word) {
	switch sub {
	case "clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule":
		for _, a := range in.args {
			if remoteURL(a.s) {
				c.w.in.reach("git", a)
			}
			if ext, ok := strings.CutPrefix(a.s, "ext::"); ok {
				c.shell(word{s: ext}, "ext::")
			}
		}
	case "config":
		if len(in.args) >= 2 {
			k, v := in.args[0].s, in.args[1].s
			if k == "set" && len(in.args) > 2 {
				k, v = in.args[1].s, in.args[2].s
			}
			aliases := map[string]string{}
			c.gitSetting(k, v, in.args[1].opaque, aliases)
			for _, body := range aliases {
				c.gitAlias(body, nil)
			}
			where := ".git/config"
			switch {
			case in.flag("--global"):
				where = home + "/.gitconfig"
			case in.flag("--system"):
				where = "/etc/gitconfig"
			}
			c.writes(word{s: where})
		}
	case "diff", "show", "log", "blame", "hash-object":
		for _, a := range in.args { // --no-index is implied by a path outside
			if absolute(a.s) || strings.HasPrefix(a.s, "../") {
				c.reads(a)
			}
		}
	case "bisect":
		if len(raw) > 1 && raw[0].s == "run" {
			c.runs(raw[1:])
		}
	}
	if sub == "submodule" && len(in.args) > 1 && in.args[0].s == "foreach" {
		var parts []string
		for _, a := range in.args[1:] {
			if !strings.HasPrefix(a.s, "--") {
				parts = append(parts, a.s)
			}
		}
		c.shell(word{s: strings.Join(parts, " ")}, "submodule foreach")
	}
}

func remoteURL(s string) bool {
	if strings.Contains(s, "://") {
		return true
	}
	host, _, ok := strings.Cut(s, ":")
	return ok && strings.Contains(host, "@") && !strings.Contains(host, "/")
}

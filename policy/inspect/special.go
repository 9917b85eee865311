package inspect

import (
	"path"
	"strings"

	"sallyport/sandbox"
)

// tool looks at programs whose operands or options are code, paths in a form of
// their own, or endpoints.
func (c *call) tool() {
	switch c.name {
	case "mdadm", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "partprobe", "blkdiscard", "hdparm", "nvme", "cryptsetup", "e2fsck", "fsck", "tune2fs", "resize2fs", "swapon", "swapoff", "losetup":
		c.disk()
	case "dd":
		c.dd()
	case "tar":
		c.tar()
	case "sed":
		c.sed()
	case "awk":
		c.awk()
	case "python", "perl", "ruby", "node", "php", "lua", "tclsh", "expect", "wish", "m4", "irb", "pry", "octave", "octave-cli", "R", "ghci", "jshell", "scala", "julia", "sbcl", "racket", "guile", "clojure", "swipl":
		c.interpreter()
		c.module()
	case "go", "deno", "java":
		c.source()
	case "nc":
		if len(c.args) > 1 {
			c.w.in.reach("nc", word{s: c.args[0].s + ":" + c.args[1].s, opaque: c.args[0].opaque || c.args[1].opaque})
		}
	case "socat":
		c.socat()
	case "ssh-keygen":
		c.sshKeygen()
	case "vim":
		c.vim()
	case "at", "batch":
		c.stdinShell()
	case "gdb", "lldb":
		c.debugger()
	case "crontab":
		if len(c.args) == 0 && c.w.stdin != nil {
			c.inner(c.name).cron(*c.w.stdin)
		}
	case "ed", "red", "dc", "bc":
		if c.w.stdin != nil {
			c.escapesToShell(*c.w.stdin)
		}
		for _, o := range c.opts {
			c.escapesToShell(o.value.s)
		}
	case "less", "more":
		for _, a := range c.args {
			if text, ok := strings.CutPrefix(a.s, "+!"); ok {
				c.shell(word{s: text, opaque: a.opaque}, "+!")
			}
		}
	case "history":
		c.history()
	case "scp", "rsync", "sftp":
		c.remoteCopy()
	case "curl", "wget":
		c.download()
	case "kill":
		c.killed()
	default:
		c.operand()
	}
}

// source follows the file that go run, deno run and java are given as a program.
func (c *call) source() {
	args := c.args
	switch c.name {
	case "go", "deno":
		if len(args) < 2 {
			return
		}
		if args[0].s == "eval" {
			c.inline(args[1].s, languages[c.name])
		}
		if args[0].s != "run" {
			return
		}
		args = args[1:]
	case "java":
		if len(args) == 0 {
			return
		}
		args = args[:1]
	}
	for _, a := range args {
		if ext := path.Ext(a.s); ext == ".go" || ext == ".java" || c.name == "deno" && !strings.Contains(a.s, "://") {
			c.role('S', a, nil, "")
		}
		if c.name != "go" {
			return
		}
	}
}

// module follows python -m NAME to a module of the folder, and the lines of
// IPython that escape to a shell.
func (c *call) module() {
	if path.Base(c.s.argv[0].s) == "ipython" {
		for _, o := range c.opts {
			c.escapesToShell(o.value.s)
		}
	}
	name, ok := c.value("-m")
	if !ok || c.name != "python" || name.opaque || c.script != nil {
		return
	}
	base := strings.ReplaceAll(name.s, ".", "/")
	for _, file := range []string{base + ".py", base + "/__main__.py"} {
		if content, ok := c.w.in.held(c.w.in.abs(c.dir, file)); ok && content != nil {
			c.role('S', word{s: file}, nil, "")
			return
		}
	}
}

// disk takes the devices a partition tool names as written, unless it is only
// asked to list.
func (c *call) disk() {
	lists := false
	for _, f := range []string{"-l", "--list", "-p", "--print", "-Q", "-D", "-E", "-I", "-i", "-v", "--show", "-s", "-a", "-j", "-n"} {
		lists = lists || c.flag(f)
	}
	for _, a := range c.args {
		switch a.s {
		case "print", "list", "status", "luksDump", "isLuks", "id-ctrl", "id-ns", "smart-log", "unit":
			lists = true
		}
	}
	for _, f := range []string{"-C", "-Z", "-z", "--zero-superblock", "-f", "-d", "-o", "-w"} {
		lists = lists && !c.flag(f)
	}
	for _, a := range c.args {
		switch {
		case !strings.Contains(a.s, "/") && !a.opaque:
		case lists:
			c.reads(a)
		default:
			c.writes(a)
		}
	}
}

// find follows -exec and its kin, and -delete, once for every starting point.
func (c *call) find() {
	args := c.s.argv[1:]
	var roots []word
	for i := 0; i < len(args); i++ {
		a := args[i].s
		if a == "-H" || a == "-L" || a == "-P" || strings.HasPrefix(a, "-O") && i < 3 {
			continue
		}
		if a == "-D" {
			i++
			continue
		}
		if strings.HasPrefix(a, "-") || a == "(" || a == "!" || a == `\(` || a == "," {
			args = args[i:]
			break
		}
		roots = append(roots, args[i])
		if i == len(args)-1 {
			args = nil
		}
	}
	if len(roots) == 0 {
		roots = []word{{s: "."}}
	}
	for _, r := range roots {
		c.reads(r)
	}
	found := filtered(args, roots)
	c.w.in.found = found
	for _, r := range found {
		c.reads(r)
	}
	for i := 0; i < len(args); i++ {
		switch args[i].s {
		case "-delete":
			for _, r := range found {
				c.removes(r)
			}
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(args) {
				c.writes(args[i+1])
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(args) && args[end].s != ";" && args[end].s != "+" {
				end++
			}
			c.findExec(args[i+1:end], found)
			i = end
		}
	}
}

// filtered are the paths that {} may stand for: the starting points, or where
// tests narrow them down, what lies beneath.
func filtered(tests, roots []word) []word {
	beneath := ""
	for i, t := range tests {
		arg := ""
		if i+1 < len(tests) {
			arg = tests[i+1].s
		}
		switch strings.TrimPrefix(t.s, "-") {
		case "name", "iname":
			if strings.Trim(arg, "*?") != "" && !strings.Contains(arg, "/") {
				beneath = "/**/" + arg
			}
		case "path", "ipath", "wholename", "iwholename":
			beneath = max(beneath, "/**")
			if base := path.Base(arg); strings.Trim(base, "*?./") != "" && beneath == "/**" {
				beneath += "/" + base
			}
		case "regex", "iregex", "lname", "samefile", "inum":
			beneath = max(beneath, "/**")
		case "size", "mtime", "atime", "ctime", "mmin", "amin", "cmin", "newer", "user", "group", "uid", "gid", "perm", "empty", "links",
			"executable", "nouser", "nogroup", "fstype", "mindepth":
			beneath = max(beneath, "/**")
		case "newermt", "anewer", "cnewer":
			beneath = max(beneath, "/**")
		case "o", "or", ",", "not":
			if t.s == "-o" || t.s == "-or" || t.s == "," {
				beneath = min(beneath, "/**")
			}
		}
	}
	if beneath == "" {
		return roots
	}
	out := make([]word, len(roots))
	for i, r := range roots {
		out[i] = word{s: strings.TrimRight(r.s, "/") + beneath, opaque: r.opaque}
	}
	return out
}

// findExec runs a -exec command with each starting point in the place of {}.
func (c *call) findExec(argv, roots []word) {
	if len(argv) == 0 {
		return
	}
	for _, r := range roots {
		filled := make([]word, len(argv))
		for i, a := range argv {
			filled[i] = a
			if strings.Contains(a.s, "{}") {
				filled[i] = word{s: strings.ReplaceAll(a.s, "{}", r.s), opaque: a.opaque || r.opaque}
			}
		}
		c.inner("find").run(simple{argv: filled, pos: -1})
	}
}

func (c *call) fd() {
	for i, a := range c.s.argv {
		switch a.s {
		case "-x", "--exec", "-X", "--exec-batch":
			if i+1 < len(c.s.argv) {
				c.runs(c.s.argv[i+1:])
			}
			return
		}
	}
}

func (c *call) dd() {
	for _, a := range c.args {
		switch k, v, _ := strings.Cut(a.s, "="); k {
		case "of":
			c.writes(word{s: v, opaque: a.opaque})
		case "if":
			c.reads(word{s: v, opaque: a.opaque})
		}
	}
}

// tar turns its archive operand into a read or a write, and follows
// --checkpoint-action and --to-command.
func (c *call) tar() {
	creating := c.flag("-c") || c.flag("-r") || c.flag("-u") || c.flag("-A")
	for _, o := range c.opts {
		if !o.has {
			continue
		}
		switch {
		case o.is("--checkpoint-action"):
			if cmd, ok := strings.CutPrefix(o.value.s, "exec="); ok {
				c.shell(word{s: cmd, opaque: o.value.opaque}, "--checkpoint-action")
			}
		case o.is("-f") && creating:
			c.writes(o.value)
		}
	}
	switch {
	case creating:
		for _, a := range c.args {
			c.reads(a)
			if c.flag("--remove-files") {
				c.removes(a)
			}
		}
	case c.flag("-x") && !c.flag("-O"):
		c.writes(word{s: "."})
	}
}

func (c *call) socat() {
	for _, a := range c.args {
		kind, rest, _ := strings.Cut(a.s, ":")
		switch strings.ToUpper(kind) {
		case "EXEC", "SYSTEM", "SHELL":
			text, _, _ := strings.Cut(rest, ",")
			c.shell(word{s: strings.Trim(text, `'"`), opaque: a.opaque}, kind)
		case "TCP", "TCP4", "TCP6", "TCP-CONNECT", "TCP4-CONNECT", "OPENSSL", "UDP", "UDP-CONNECT", "SSL", "OPENSSL-CONNECT", "UDP4", "UDP4-SENDTO":
			host, _, _ := strings.Cut(rest, ",")
			c.w.in.reach("socat", word{s: host, opaque: a.opaque})
		case "OPEN", "FILE", "CREATE", "GOPEN":
			file, _, _ := strings.Cut(rest, ",")
			c.writes(word{s: file, opaque: a.opaque})
		}
	}
}

func (c *call) sshKeygen() {
	for i, a := range c.s.argv {
		if a.s == "-D" && i+1 < len(c.s.argv) {
			c.target(opExec, c.s.argv[i+1])
		}
	}
}

// vim looks at ex commands for shell escapes and writes.
func (c *call) vim() {
	var texts []string
	for _, o := range c.opts {
		if o.has && (o.is("-c") || o.is("--cmd")) {
			texts = append(texts, o.value.s)
		}
	}
	for _, a := range c.args {
		if strings.HasPrefix(a.s, "+") {
			texts = append(texts, a.s[1:])
		}
	}
	for _, t := range texts {
		c.ex(t)
	}
}

func (c *call) history() {
	for i, a := range c.s.argv {
		if (a.s == "-w" || a.s == "-a") && i+1 < len(c.s.argv) {
			c.writes(c.s.argv[i+1])
		}
	}
}

// download records where curl -O and wget put what they fetch.
func (c *call) download() {
	save := c.name == "wget" && !c.flag("-O") && !c.flag("--spider") || c.flag("--remote-name")
	for _, o := range c.opts {
		if o.has && (o.is("-T") || o.is("--post-file") || o.is("--body-file")) {
			c.reads(o.value)
		}
	}
	if !save {
		return
	}
	dir := "."
	if v, ok := c.value("-P"); ok {
		dir = v.s
	}
	if v, ok := c.value("--output-dir"); ok {
		dir = v.s
	}
	for _, a := range c.args {
		base := path.Base(strings.SplitN(a.s, "?", 2)[0])
		c.target(string(sandbox.OpWrite), word{s: path.Join(dir, base), opaque: a.opaque})
	}
}

// debugger walks the shell escapes among a debugger's commands.
func (c *call) debugger() {
	for _, o := range c.opts {
		if !o.has || o.spec == nil || o.spec.role != '.' {
			continue
		}
		text := strings.TrimSpace(o.value.s)
		for _, esc := range []string{"!", "shell ", "make ", "platform shell ", "process launch --shell ", "pipe "} {
			if rest, ok := strings.CutPrefix(text, esc); ok {
				c.shell(word{s: rest, opaque: o.value.opaque}, "-ex")
			}
		}
		for _, lang := range []string{"python ", "py ", "script "} {
			if rest, ok := strings.CutPrefix(text, lang); ok {
				c.inline(rest, langPython)
			}
		}
	}
}

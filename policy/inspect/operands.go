package inspect

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// operand looks at programs whose operands are neither all paths nor all a
// command: each has a grammar of its own.
func (c *call) operand() {
	argv := c.s.argv[1:]
	switch c.name {
	case "jq", "gojq", "jaq", "yq":
		c.jq(argv)
	case "cmake":
		if i := slices.IndexFunc(argv, func(a word) bool { return a.s == "-E" }); i >= 0 && i+1 < len(argv) {
			c.cmakeTool(argv[i+1].s, argv[i+2:])
		}
	case "bwrap":
		c.runs(afterBwrap(argv))
	case "capsh":
		if i := slices.IndexFunc(argv, func(a word) bool { return a.s == "--" || a.s == "==" }); i >= 0 {
			c.runs(append([]word{{s: "bash"}}, argv[i+1:]...))
		}
	case "setarch", "linux32", "linux64":
		// The architecture may stand before the options.
		for len(c.args) > 0 && strings.HasPrefix(c.args[0].s, "-") || c.name == "setarch" && len(c.args) > 1 && archs[c.args[0].s] {
			c.args = c.args[1:]
		}
		c.runs(c.args)
	case "start-stop-daemon":
		for _, name := range []string{"-x", "-a"} {
			if v, ok := c.value(name); ok {
				c.runs(append([]word{v}, c.args...))
			}
		}
	case "getent":
		if len(argv) > 0 && slices.Contains([]string{"passwd", "group", "shadow", "gshadow"}, argv[0].s) {
			c.reads(word{s: "/etc/" + argv[0].s})
		}
	case "finger":
		for _, a := range c.args {
			if _, host, ok := strings.Cut(a.s, "@"); ok || a.opaque {
				c.w.in.reach("finger", word{s: host, opaque: a.opaque})
			}
		}
	case "7z", "7za", "7zr", "7zz":
		c.sevenZip()
	case "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as":
		for _, a := range argv {
			if file, ok := strings.CutPrefix(a.s, "@"); ok {
				c.reads(word{s: file, opaque: a.opaque})
			}
		}
	case "cpio", "pax":
		switch {
		case c.flag("-p") || c.flag("-r") && c.flag("-w"):
			for _, a := range c.args {
				c.writes(a)
			}
		case c.flag("-i"):
			c.writes(word{s: "."})
		}
		if c.w.stdin != nil {
			for i, l := range strings.Split(*c.w.stdin, "\n") {
				if l = strings.TrimSpace(l); l != "" && i < maxItems {
					c.reads(word{s: l})
				}
			}
		}
	}
}

var archs = set("i386 i486 i586 i686 x86_64 amd64 arm armv7l aarch64 ppc ppc64 ppc64le s390 s390x mips mips64 riscv64 sparc sparc64 linux32 linux64")

// jq reads its files; the first operand is its program. yq may edit in place.
func (c *call) jq(argv []word) {
	program, inPlace := c.flag("-f"), c.flag("-i") || c.flag("-inplace") || c.flag("--inplace")
	for i := 0; i < len(argv); i++ {
		switch a := argv[i]; a.s {
		case "--arg", "--argjson":
			i += 2
		case "--slurpfile", "--rawfile":
			if i += 2; i < len(argv) {
				c.reads(argv[i])
			}
		case "-f", "--from-file":
			program = true
			if i++; i < len(argv) {
				c.reads(argv[i])
			}
		case "--indent", "-L", "-o", "--output-format", "-p", "--input-format", "-I":
			i++
		case "--args", "--jsonargs":
			return
		case "e", "ea", "eval", "eval-all":
			if c.name != "yq" || i > 0 {
				c.jqOperand(a, &program, inPlace)
			}
		default:
			if !strings.HasPrefix(a.s, "-") || len(a.s) < 2 {
				c.jqOperand(a, &program, inPlace)
			}
		}
	}
}

func (c *call) jqOperand(a word, program *bool, inPlace bool) {
	switch {
	case !*program:
		*program = true
		if absolute(a.s) && c.name == "yq" { // yq FILE: the program may be left out
			c.reads(a)
		}
	case inPlace:
		c.writes(a)
	default:
		c.reads(a)
	}
}

// absolute reports whether a text is a path that does not depend on the folder.
func absolute(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~/")
}

// cmakeTool is cmake -E: file tools and a wrapper under one name.
func (c *call) cmakeTool(sub string, args []word) {
	plain := args[:0:0]
	for _, a := range args {
		if !strings.HasPrefix(a.s, "-") {
			plain = append(plain, a)
		}
	}
	last := len(plain) - 1
	switch sub {
	case "env":
		for len(args) > 0 && (strings.HasPrefix(args[0].s, "-") || strings.Contains(args[0].s, "=")) {
			args = args[1:]
		}
		c.runs(args)
	case "time":
		c.runs(args)
	case "chdir":
		if len(args) > 1 {
			c.role('/', args[0], nil, "")
			c.runs(args[1:])
		}
	case "rm", "remove", "remove_directory":
		for _, a := range plain {
			c.removes(a)
		}
	case "touch", "touch_nocreate", "make_directory":
		for _, a := range plain {
			c.writes(a)
		}
	case "copy", "copy_if_different", "copy_if_newer", "copy_directory", "copy_directory_if_different", "create_symlink", "create_hardlink", "rename":
		for i, a := range plain {
			switch {
			case i == last:
				c.writes(a)
			case sub == "rename":
				c.removes(a)
			default:
				c.reads(a)
			}
		}
	case "tar":
		if len(args) > 1 && strings.Contains(args[0].s, "c") {
			c.writes(args[1])
		} else {
			c.writes(word{s: "."})
		}
	case "echo", "echo_append":
	default: // cat, compare_files, md5sum …
		for _, a := range plain {
			c.reads(a)
		}
	}
}

// sevenZip turns the archive and the files of 7z into reads and writes.
func (c *call) sevenZip() {
	if len(c.args) < 2 {
		for _, a := range c.args[min(len(c.args), 1):] {
			c.reads(a)
		}
		return
	}
	archive, files := c.args[1], c.args[2:]
	switch c.args[0].s {
	case "a", "u":
		c.writes(archive)
		for _, a := range files {
			c.reads(a)
		}
	case "d", "rn":
		c.writes(archive)
	case "x", "e":
		c.reads(archive)
		if !c.flag("-o") && !c.flag("-so") {
			c.writes(word{s: "."})
		}
	default:
		c.reads(archive)
	}
}

// bwrapTakes is how many values bwrap's options take; those not listed take one
// when they are known by none of these names.
var bwrapTakes = map[string]int{
	"--bind": 2, "--bind-try": 2, "--dev-bind": 2, "--dev-bind-try": 2, "--ro-bind": 2, "--ro-bind-try": 2, "--symlink": 2, "--setenv": 2,
	"--file": 2, "--bind-data": 2, "--ro-bind-data": 2, "--chmod": 2, "--bind-fd": 2, "--ro-bind-fd": 2,
	"--unshare-all": 0, "--unshare-user": 0, "--unshare-user-try": 0, "--unshare-ipc": 0, "--unshare-pid": 0, "--unshare-net": 0, "--unshare-uts": 0,
	"--unshare-cgroup": 0, "--unshare-cgroup-try": 0, "--share-net": 0, "--clearenv": 0, "--new-session": 0, "--die-with-parent": 0, "--as-pid-1": 0,
	"--disable-userns": 0, "--assert-userns-disabled": 0, "--help": 0, "--version": 0,
}

func afterBwrap(argv []word) []word {
	for i := 0; i < len(argv); i++ {
		a := argv[i].s
		if a == "--" {
			return argv[i+1:]
		}
		if !strings.HasPrefix(a, "--") {
			return argv[i:]
		}
		n, ok := bwrapTakes[a]
		if !ok {
			n = 1
		}
		i += n
	}
	return nil
}

// silentEx takes the s out of -es and -Es, where it has no value.
func silentEx(argv []word) []word {
	for i, a := range argv {
		if a.s == "-es" || a.s == "-Es" {
			argv = slices.Clone(argv)
			argv[i].s = "-e"
		}
	}
	return argv
}

// exLead is what may stand before an ex command: ranges and modifiers.
var exLead = regexp.MustCompile(`^(?:[:\s%$.,0-9+-]|'<|'>|(?:sil(?:ent)?!?|noa(?:utocmd)?|keepj(?:umps)?|lockm(?:arks)?|verb(?:ose)?|tab|vert(?:ical)?)\s)*`)

// exCommand is an ex command and the rest of its line.
var exCommand = regexp.MustCompile(`^([a-zA-Z]+)!?\s*(.*)$`)

// exTakes is what the rest of an ex command's line is: a language, or '!' a
// command, '>' and '<' a path, 'S' a script.
var exTakes = map[string]struct {
	lang language
	does byte
}{
	"lua": {lang: langOther}, "luado": {lang: langOther}, "py": {lang: langPython}, "pydo": {lang: langPython}, "python": {lang: langPython}, "py3": {lang: langPython},
	"python3": {lang: langPython}, "pyx": {lang: langPython}, "pythonx": {lang: langPython}, "perl": {lang: langPerl}, "perldo": {lang: langPerl},
	"ruby": {lang: langRuby}, "rubydo": {lang: langRuby}, "tcl": {lang: langTcl}, "tcldo": {lang: langTcl},
	"ter": {does: '!'}, "term": {does: '!'}, "terminal": {does: '!'},
	"w": {does: '>'}, "wr": {does: '>'}, "write": {does: '>'}, "wq": {does: '>'}, "x": {does: '>'}, "sav": {does: '>'}, "saveas": {does: '>'}, "up": {does: '>'}, "update": {does: '>'},
	"r": {does: '<'}, "re": {does: '<'}, "read": {does: '<'}, "e": {does: '<'}, "edit": {does: '<'}, "sp": {does: '<'}, "vs": {does: '<'}, "tabe": {does: '<'}, "tabedit": {does: '<'},
	"so": {does: 'S'}, "source": {does: 'S'}, "luafile": {does: 'S'}, "pyfile": {does: 'S'}, "ru": {does: 'S'}, "runtime": {does: 'S'},
}

// exCalls are Vim's functions that start a program, write or remove a file.
var exCalls = regexp.MustCompile(`\b(system|systemlist|job_start|jobstart|term_start|termopen|delete|writefile|libcall)\s*\(`)

// ex looks at one ex command line for what it runs and writes.
func (c *call) ex(text string) {
	for _, at := range exCalls.FindAllStringSubmatchIndex(text, maxItems) {
		a := (constants{}).argumentsOf("(", text[at[1]:])
		if len(a.lits) == 0 {
			continue
		}
		switch text[at[2]:at[3]] {
		case "delete":
			c.removes(word{s: a.lits[0]})
		case "writefile":
			c.writes(word{s: a.lits[len(a.lits)-1]})
		default:
			c.shell(word{s: a.lits[0]}, "system()")
		}
	}
	t := text[len(exLead.FindString(text)):]
	// :!cmd, :w !cmd, :r !cmd and :r!cmd run; :w! file and :q! only insist.
	if i := strings.IndexByte(t, '!'); i == 0 || i > 0 && i < 12 && (t[i-1] == ' ' || strings.HasPrefix("read", t[:i])) {
		c.shell(word{s: t[i+1:]}, "-c")
		return
	}
	m := exCommand.FindStringSubmatch(t)
	if m == nil {
		return
	}
	takes, rest := exTakes[m[1]], strings.TrimSpace(m[2])
	if rest == "" {
		return
	}
	if takes.lang != "" {
		c.inline(rest, takes.lang)
		return
	}
	file, _, _ := strings.Cut(strings.TrimLeft(rest, "> "), "|")
	file = strings.TrimSpace(file)
	switch takes.does {
	case '!':
		for strings.HasPrefix(rest, "++") {
			_, rest, _ = strings.Cut(rest, " ")
		}
		c.shell(word{s: rest}, "terminal")
	case '>', '<', 'S':
		c.role(takes.does, word{s: file}, nil, "")
	}
}

// ownChild is an argument of kill that names a process the shell itself started.
var ownChild = regexp.MustCompile(`^-?(?:\$\$|\$!|\$\(jobs -p\)|\$\{?([A-Za-z_][A-Za-z0-9_]*)(?:\[@\])?\}?)$`)

// killed tells apart the processes a text started from those it looked up.
func (c *call) killed() {
	if c.flag("-0") || c.flag("-l") {
		return
	}
	for _, a := range c.args {
		if !a.opaque {
			continue
		}
		if m := ownChild.FindStringSubmatch(a.s); m == nil || m[1] != "" && !c.w.sc.get(m[1]).own {
			c.opaque = "ends processes known only when it runs"
		}
	}
}

// fileIn is the path of an argument of an unlisted program: --key=/a, @/a,
// file:///a, -F/a.
func fileIn(arg string) (string, bool) {
	if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
		arg = value
	}
	arg = strings.TrimPrefix(strings.TrimPrefix(arg, "@"), "file://")
	if len(arg) > 3 && arg[0] == '-' && arg[1] != '-' && arg[2] == '/' {
		arg = arg[2:]
	}
	return arg, absolute(arg) && !strings.ContainsAny(arg, " \t\n*?") && path.Clean(arg) != "/"
}

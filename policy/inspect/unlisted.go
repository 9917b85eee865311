package inspect

import (
	"path"
	"regexp"
	"strings"
)

// hazards are programs whose name among the arguments of a program that the
// table does not know is taken for a command it runs: trickle rm -rf x.
var hazards = set(`rm dd shred wipefs mkfs mkfs.ext4 chmod chown sh bash zsh dash ksh sudo doas env python perl ruby node curl wget nc git docker kubectl mv`)

// readers are programs outside the table that only look a name up.
var readers = set("which whereis whatis apropos tldr cheat help info type hash command-not-found dpkg-query pgrep pidof alternatives update-alternatives")

// wrapped follows what a program outside the table seems to run: from the first
// argument that names a hazard on, and any argument that reads like a command
// line of one.
func (c *call) wrapped() {
	if c.p != nil || builtinNames[c.name] || readers[c.name] || shells[c.name] {
		return
	}
	argv := c.s.argv
	if c.w.stdin != nil {
		c.fragments(*c.w.stdin)
	}
	for i := 1; i < len(argv); i++ {
		if argv[i].opaque {
			continue
		}
		if p, ok := fileIn(argv[i].s); ok && c.name != "cd" {
			c.reads(word{s: p})
		}
		c.fragments(argv[i].s)
		if shellPath(argv[i].s) {
			c.runs(argv[i:])
			return
		}
		if i+1 < len(argv) && hazards[c.w.in.program(argv[i].s)] {
			c.runs(argv[i:])
			return
		}
		if _, value, ok := strings.Cut(argv[i].s, "="); ok && strings.HasPrefix(argv[i].s, "-") {
			c.commandLine(value)
			continue
		}
		c.commandLine(argv[i].s)
	}
}

func (c *call) commandLine(text string) {
	first, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	if ok && rest != "" && hazards[c.w.in.program(first)] {
		c.inner(c.name).maybeText(text)
	}
}

// quotedHazards are the programs that a quoted part of an argument is taken for a
// command of, besides the hazards.
var quotedHazards = set(`tee cp ln truncate systemctl crontab useradd usermod chpasswd insmod modprobe iptables scp ssh rsync socat telnet eval find xargs`)

// fragments walks the parts of a text in a language nobody here knows that read
// like a command line: (run "rm -rf x"), \write18{rm -rf x}, !rm -rf x. A part
// that is an absolute path counts as read.
func (c *call) fragments(text string) {
	if len(text) > maxText || !strings.ContainsAny(text, "\"'`{}()[]!,\n") {
		return
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\"'`{}()[];|,\n", r) })
	for _, p := range parts[:min(len(parts), maxItems)] {
		p = strings.Trim(p, "\\!: \t%")
		words := strings.Fields(p)
		for i := 0; i < len(words) && i < 2; i++ { // exec /bin/sh
			if shellPath(words[i]) {
				c.inner(c.name).maybeText(strings.Join(words[i:], " "))
				words = nil
			}
		}
		if words == nil {
			continue
		}
		if absolute(p) && !strings.ContainsAny(p, " \t*?") && len(p) > 2 {
			c.reads(word{s: p})
			continue
		}
		first, rest, ok := strings.Cut(p, " ")
		if ok && rest != "" && (hazards[c.w.in.program(first)] || quotedHazards[first]) {
			c.inner(c.name).maybeText(p)
		}
	}
}

// cron walks the commands of a crontab.
func (w *walker) cron(text string) {
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		fields := 5
		if strings.HasPrefix(l, "@") {
			fields = 1
		}
		if l == "" || l[0] == '#' || strings.Contains(strings.SplitN(l, " ", 2)[0], "=") {
			continue
		}
		for range fields {
			_, l, _ = strings.Cut(strings.TrimLeft(l, " \t"), " ")
		}
		w.within("cron", true).maybeText(l)
	}
}

// bang is a line of an editor or a calculator that escapes to a shell.
var bang = regexp.MustCompile(`(?m)^\s*(?:[0-9,$%.]*[rw]?\s*)!\s*([^\n]+)$`)

// escapesToShell walks the lines of a standard input that begin with "!".
func (c *call) escapesToShell(text string) {
	for _, m := range bang.FindAllStringSubmatch(text, maxItems) {
		c.inner(c.via("!")).maybeText(m[1])
	}
}

// tclRuns are the commands of Tcl and Expect that start a program.
var tclRuns = regexp.MustCompile(`(?:^|[;\[{\n"])\s*(?:exec|spawn|system|open\s+"?\|)\s*([^\n;\]]+)`)

func (w *walker) tcl(text string) {
	for _, m := range tclRuns.FindAllStringSubmatch(text, maxItems) {
		w.within("exec", true).maybeText(m[1])
	}
}

// shellPath reports whether a word is a shell by its whole path.
func shellPath(s string) bool {
	dir, base := path.Split(s)
	return (dir == "/bin/" || dir == "/usr/bin/" || dir == "/usr/local/bin/") && shells[base]
}

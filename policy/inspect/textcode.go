package inspect

import (
	"regexp"
	"strings"

	"sallyport/policy"
)

// sed looks at the programs of sed for e, w and s///e.
func (c *call) sed() {
	scripts := []word{}
	files := c.args
	for _, o := range c.opts {
		if o.is("-e") && o.has {
			scripts = append(scripts, o.value)
		}
	}
	if len(scripts) == 0 && !c.flag("-f") && len(c.args) > 0 {
		scripts, files = c.args[:1], c.args[1:]
		if c.flag("-i") && c.args[0].s == "" && !c.args[0].opaque && len(c.args) > 1 {
			// BSD: -i '' is "no backup". To GNU the empty text is the script,
			// which changes nothing.
			scripts, files = c.args[1:2], c.args[2:]
		}
	}
	c.targets = nil
	for _, f := range files {
		if c.flag("-i") {
			c.writes(f)
		} else {
			c.reads(f)
		}
	}
	for _, s := range scripts {
		c.sedProgram(s.s)
	}
}

var (
	sedExec  = regexp.MustCompile(`(?m)(?:^|[;{}\n]|[0-9$/!,\\])\s*e(?:\s+([^\n;}]+)|\s*$|\s*[;}])`)
	sedWrite = regexp.MustCompile(`(?m)(?:^|[;{}\n]|[0-9$/!,])\s*[wW]\s+([^\n;}]+)`)
	sedRead  = regexp.MustCompile(`(?m)(?:^|[;{}\n]|[0-9$/!,])\s*[rR]\s+([^\n;}]+)`)
)

func (c *call) sedProgram(text string) {
	for _, m := range sedExec.FindAllStringSubmatch(text, 20) {
		if m[1] != "" {
			c.shell(word{s: m[1]}, "e")
		} else {
			c.opaque = "runs its input as commands"
		}
	}
	for _, m := range sedWrite.FindAllStringSubmatch(text, 20) {
		c.writes(word{s: strings.TrimSpace(m[1])})
	}
	for _, m := range sedRead.FindAllStringSubmatch(text, 20) {
		c.reads(word{s: strings.TrimSpace(m[1])})
	}
	c.sedSubst(text)
}

// sedSubst finds the flags of s commands: e runs the result, w writes it.
func (c *call) sedSubst(text string) {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != 's' || i > 0 && !strings.ContainsRune(";{}\n 0123456789$/!,", rune(text[i-1])) {
			continue
		}
		d := text[i+1]
		if d == ' ' || d == '\n' || d == '\\' || d >= 'a' && d <= 'z' || d >= 'A' && d <= 'Z' || d >= '0' && d <= '9' {
			continue
		}
		parts, end := sedParts(text, i+2, d)
		if len(parts) < 2 {
			continue
		}
		flags := text[end:]
		if j := strings.IndexAny(flags, ";}\n"); j >= 0 {
			flags = flags[:j]
		}
		letters, file, wr := strings.Cut(flags, "w")
		if wr && strings.Trim(letters, "gpiIemM0123456789 ") == "" {
			c.writes(word{s: strings.TrimSpace(file)})
		}
		if strings.Trim(letters, "gpiIemM0123456789 ") == "" && strings.Contains(letters, "e") {
			c.shell(word{s: parts[1]}, "s///e")
		}
		i = end - 1
	}
}

func sedParts(text string, from int, d byte) (parts []string, end int) {
	start := from
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case d:
			parts = append(parts, text[start:i])
			start = i + 1
			if len(parts) == 2 {
				return parts, i + 1
			}
		}
	}
	return parts, len(text)
}

// awk looks at awk's program for commands and files.
func (c *call) awk() {
	programs := []word{}
	for _, o := range c.opts {
		if o.is("-e") && o.has {
			programs = append(programs, o.value)
		}
	}
	if len(programs) == 0 && !c.flag("-f") && !c.flag("-E") && len(c.args) > 0 {
		programs = c.args[:1:1]
	}
	for i := range programs {
		programs[i].s = c.awkVariables(programs[i].s)
	}
	for _, p := range programs {
		if p.opaque {
			c.opaque = "runs code known only when it runs"
		}
		c.awkProgram(p.s)
	}
}

// awkVariables puts what -v gives a variable in its place.
func (c *call) awkVariables(text string) string {
	for _, o := range c.opts {
		name, value, ok := strings.Cut(o.value.s, "=")
		if !o.is("-v") || !o.has || !ok || !awkName.MatchString(name) || strings.ContainsAny(value, `"\`) {
			continue
		}
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(text, `"`+value+`"`)
	}
	return text
}

var awkName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var (
	awkSystem = regexp.MustCompile(`\bsystem\s*\(`)
	awkPipe   = regexp.MustCompile(`\|&?\s*"((?:[^"\\]|\\.)*)"`)
	awkFrom   = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"\s*\|&?\s*getline`)
	awkFile   = regexp.MustCompile(`(?:print|printf)\b[^;}\n|]*>>?\s*"((?:[^"\\]|\\.)*)"`)
	awkRead   = regexp.MustCompile(`getline[^;}\n]*<\s*"((?:[^"\\]|\\.)*)"`)
	awkDyn    = regexp.MustCompile(`\|\s*(?:getline|[a-zA-Z_$(])|[a-zA-Z_0-9)$]\s*\|\s*getline`)
)

func (c *call) awkProgram(text string) {
	for _, at := range awkSystem.FindAllStringIndex(text, 20) {
		if a := (constants{}).argumentsOf("(", text[at[1]:]); len(a.lits) > 0 && !a.loose {
			c.shell(word{s: a.lits[0]}, "system")
		} else {
			c.opaque = "runs a text that awk makes up"
		}
	}
	for _, re := range []*regexp.Regexp{awkPipe, awkFrom} {
		for _, m := range re.FindAllStringSubmatch(text, 20) {
			c.shell(word{s: escapes(m[1])}, "|")
		}
	}
	for _, m := range awkFile.FindAllStringSubmatch(text, 20) {
		if p := m[1]; strings.HasPrefix(p, "/inet/") {
			c.w.in.net(policy.NetFact{})
		} else {
			c.writes(word{s: p})
		}
	}
	for _, m := range awkRead.FindAllStringSubmatch(text, 20) {
		c.reads(word{s: m[1]})
	}
	if strings.Contains(text, "/inet/") {
		c.w.in.net(policy.NetFact{})
	}
	if awkDyn.MatchString(awkPipe.ReplaceAllString(awkFrom.ReplaceAllString(text, ""), "")) {
		c.opaque = "runs a text that awk makes up"
	}
}

var sqlShell = regexp.MustCompile(`(?im)(?:\\!\s*|\\(?:copy|o|g)\b[^\n]*\|\s*|\bsystem\s+|\.(?:shell|system)\s+|\bprogram\s+')([^\n']+)`)

// sql looks for the shell escapes of database clients.
func (c *call) sql(text string) {
	for _, m := range sqlShell.FindAllStringSubmatch(text, 20) {
		c.shell(word{s: m[1]}, `\!`)
	}
}

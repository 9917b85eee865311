package inspect

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sallyport/policy"
)

// packageScript follows npm run NAME and its kin into package.json.
func (c *call) packageScript() {
	if len(c.args) == 0 {
		return
	}
	sub, rest := c.args[0].s, c.args[1:]
	var names []string
	if c.name == "bun" && (byName(sub) == langNode || sub == "run" && len(rest) > 0 && byName(rest[0].s) == langNode) {
		file := c.args[0]
		if sub == "run" {
			file = rest[0]
		}
		c.role('S', file, nil, "")
		return
	}
	switch sub {
	case "run", "run-script", "rum":
		if len(rest) == 0 {
			return
		}
		names = []string{rest[0].s}
	case "exec", "x", "dlx":
		if len(rest) > 0 {
			c.runs(rest)
		}
		return
	case "test", "t", "tst":
		names = []string{"test"}
	case "start", "stop", "restart", "publish", "pack", "version", "prepare":
		names = []string{sub}
	case "install", "i", "ci", "add", "update":
		names = []string{"preinstall", "install", "postinstall", "prepare"}
	default:
		if c.name == "npm" {
			return
		}
		names = []string{sub}
	}
	if sub == "run" || sub == "test" || sub == "start" {
		names = []string{"pre" + names[0], names[0], "post" + names[0]}
	}
	c.scripts(names)
}

// packageScripts are the scripts of a package.json, nil when it does not parse.
func packageScripts(b []byte) map[string]string {
	var pkg struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(b, &pkg) != nil {
		return nil
	}
	if pkg.Scripts == nil {
		return map[string]string{}
	}
	return pkg.Scripts
}

// document reads a file that steers what this command runs and makes it the
// command's script. ok is false when there is none or it cannot be known.
func (c *call) document(name string) (rel, text string, ok bool) {
	abs := c.w.in.abs(c.dir, name)
	rel, inside := c.w.in.inside(abs)
	if !inside {
		rel = abs
	}
	content, ok := c.w.in.held(abs)
	if !ok {
		return rel, "", false
	}
	_, made := c.w.in.written[abs]
	if content == nil {
		if made {
			c.ranUnknown(rel)
		} else {
			c.opaque = "runs a script that cannot be read: " + rel
		}
		return rel, "", false
	}
	c.script = &policy.Script{Path: rel, SHA256: digest([]byte(*content)), Findings: []policy.Finding{}}
	if c.w.in.opts.Author != nil && !made {
		c.script.Author = c.w.in.opts.Author(c.w.in.root, rel, c.script.SHA256)
	}
	return rel, *content, true
}

// scripts walks the named scripts of package.json.
func (c *call) scripts(names []string) {
	rel, text, ok := c.document("package.json")
	if !ok {
		return
	}
	all := packageScripts([]byte(text))
	if all == nil {
		c.opaque = "runs scripts of a package.json that does not parse"
		return
	}
	for _, n := range names {
		text, ok := all[n]
		via := "script:" + rel + "#" + n
		if !ok || slices.Contains(c.w.via, via) {
			continue
		}
		d := c.inner(c.name)
		d.via = append(d.via, via)
		d.text(text)
	}
}

// make reads the Makefile and walks the recipes of the goals.
func (c *call) make() {
	if v, ok := c.value("--eval"); ok {
		c.inner("make").recipes(v.s, nil, nil)
	}
	names := []string{"GNUmakefile", "makefile", "Makefile"}
	if v, ok := c.value("-f"); ok {
		names = []string{v.s}
	}
	for _, n := range names {
		rel, text, ok := c.document(n)
		if !ok {
			continue
		}
		c.script.Findings = append(c.script.Findings, c.w.in.dangers(text, rel)...)
		if slices.Contains(c.w.via, "script:"+rel) {
			return
		}
		var goals []string
		given := map[string]string{}
		d := c.inner("make")
		for _, a := range c.args {
			if k, v, ok := strings.Cut(a.s, "="); ok {
				given[k] = v
			} else {
				goals = append(goals, a.s)
			}
		}
		d.via = append(d.via, "script:"+rel)
		d.recipes(c.included(text, 0), goals, given)
		return
	}
}

// included puts the files that a Makefile includes in the place of the include.
func (c *call) included(text string, depth int) string {
	if depth > 8 || len(text) > maxScript || !strings.Contains(text, "include") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		files, ok := strings.CutPrefix(strings.TrimLeft(l, "-s"), "include ")
		if !ok {
			continue
		}
		for _, f := range strings.Fields(files) {
			if content, ok := c.w.in.held(c.w.in.abs(c.dir, f)); ok && content != nil {
				lines[i] = c.included(*content, depth+1)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// makeShell is what make runs while it reads: $(shell …) and NAME != ….
var makeShell = regexp.MustCompile(`(?m)\$[({]shell\s+((?:[^(){}\n]|\([^()\n]*\))*)[)}]|^[\w.-]+\s*!=\s*([^\n]+)$`)

// recipe is one rule of a Makefile, or one task of a task file.
type recipe struct {
	needs []string
	lines []string
}

// recipes walks the recipes that making goals runs; without goals every one,
// when the text is scanned on its own, or the first target's.
func (w *walker) recipes(text string, goals []string, given map[string]string) {
	vars := map[string]string{}
	rules, first := makeRules(text, vars)
	for _, m := range makeShell.FindAllStringSubmatch(text, maxItems) {
		w.within("$(shell)", true).recipeLine(makeVars(m[1]+m[2], vars, "", 0))
	}
	maps.Copy(vars, given)
	if len(goals) == 0 {
		if first == "" {
			return
		}
		goals = []string{first}
	}
	w.walkRules(rules, goals, vars)
}

// walkRules walks what making goals runs, and what they need.
func (w *walker) walkRules(rules map[string]recipe, goals []string, vars map[string]string) {
	seen := map[string]bool{}
	for len(goals) > 0 && len(seen) < 500 {
		g := goals[0]
		goals = goals[1:]
		if seen[g] {
			continue
		}
		seen[g] = true
		r, ok := rules[g]
		if !ok {
			r, ok = byPattern(rules, g)
		}
		if !ok {
			continue
		}
		goals = append(goals, r.needs...)
		for _, l := range r.lines {
			l = strings.TrimLeft(l, "@-+ \t")
			w.within("", true).recipeLine(makeVars(l, vars, g, 0))
		}
	}
}

// recipeLine walks one line of a recipe. Make's functions that were not
// resolved do not parse as shell; they make the line opaque, not the call.
func (w *walker) recipeLine(l string) {
	if strings.TrimSpace(l) == "" {
		return
	}
	w.maybeText(l)
}

func byPattern(rules map[string]recipe, goal string) (recipe, bool) {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if pre, suf, ok := strings.Cut(name, "%"); ok && strings.HasPrefix(goal, pre) && strings.HasSuffix(goal, suf) {
			return rules[name], true
		}
	}
	return recipe{}, false
}

// makeRules reads the rules and variables of a Makefile, as far as a line
// shows them.
func makeRules(text string, vars map[string]string) (map[string]recipe, string) {
	rules := map[string]recipe{}
	first := ""
	var names []string
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "\t") {
			for _, n := range names {
				r := rules[n]
				r.lines = append(r.lines, l[1:])
				rules[n] = r
			}
			continue
		}
		l, _, _ = strings.Cut(l, "#")
		trimmed := strings.TrimSpace(l)
		if trimmed == "" {
			continue
		}
		if k, v, ok := makeAssign(trimmed); ok {
			vars[k] = v
			continue
		}
		head, tail, ok := strings.Cut(trimmed, ":")
		if !ok {
			continue
		}
		needs, inline, _ := strings.Cut(strings.TrimPrefix(tail, ":"), ";")
		names = strings.Fields(makeVars(head, vars, "", 0))
		for _, n := range names {
			if first == "" && !strings.HasPrefix(n, ".") && !strings.Contains(n, "%") {
				first = n
			}
			r := rules[n]
			r.needs = append(r.needs, strings.Fields(makeVars(needs, vars, n, 0))...)
			if inline != "" {
				r.lines = append(r.lines, inline)
			}
			rules[n] = r
		}
	}
	return rules, first
}

func makeAssign(l string) (k, v string, ok bool) {
	i := strings.IndexByte(l, '=')
	if i <= 0 {
		return "", "", false
	}
	k = strings.TrimRight(l[:i], ":?+! \t")
	k = strings.TrimPrefix(strings.TrimPrefix(k, "export "), "override ")
	if k == "" || strings.ContainsAny(k, " \t:") {
		return "", "", false
	}
	return k, strings.TrimSpace(l[i+1:]), true
}

// makeVars puts in the values of variables and of the commonest automatic
// ones. $$ becomes the shell's $.
func makeVars(s string, vars map[string]string, goal string, depth int) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case '$':
			b.WriteByte('$')
		case '@':
			b.WriteString(goal)
		case '(', '{':
			end := strings.IndexByte(s[i:], map[byte]byte{'(': ')', '{': '}'}[c])
			if end < 0 {
				return b.String()
			}
			name := s[i+1 : i+end]
			i += end
			switch v, ok := vars[name]; {
			case ok && depth < 8 && b.Len() < maxText:
				b.WriteString(makeVars(v, vars, goal, depth+1))
			case name == "MAKE":
				b.WriteString("make")
			case name == "CURDIR":
				b.WriteString(".")
			case name == "RM":
				b.WriteString("rm -f")
			default:
				b.WriteString("${MAKE_" + strings.Map(nameRune, name) + "}")
			}
		default:
			b.WriteString("${MAKE_auto}")
		}
	}
	return b.String()
}

func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

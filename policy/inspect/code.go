package inspect

import (
	"regexp"
	"slices"
	"strings"

	"sallyport/policy"
	"sallyport/sandbox"
)

// language is how a script or an inline text is read.
type language string

const (
	langShell  language = "shell"
	langPython language = "python"
	langNode   language = "node"
	langPerl   language = "perl"
	langRuby   language = "ruby"
	langPHP    language = "php"
	langAwk    language = "awk"
	langSed    language = "sed"
	langMake   language = "make"
	langSQL    language = "sql"
	langCron   language = "cron"
	langOther  language = "other"
)

// call kinds of code in other languages.
const (
	doesSpawn  = 's' // its literal arguments are a command
	doesRemove = 'r' // its first literal is a path that goes
	doesWrite  = 'w' // its first literal is a path that is written
	doesRead   = 'o'
	doesNet    = 'n' // its first literal is a URL or host
	doesEval   = 'e' // runs a text as code
)

// codeRule finds one kind of call in code. The expression ends at the opening
// parenthesis or where the arguments begin.
type codeRule struct {
	id       string
	severity string
	does     byte
	re       *regexp.Regexp
}

func rule(id, severity string, does byte, re string) codeRule {
	return codeRule{id, severity, does, regexp.MustCompile(re)}
}

// codeRules hold for every language that is not shell: a name that means
// something in one of them does not mean something harmless in another.
var codeRules = []codeRule{
	rule("code.spawn", "medium", doesSpawn, `\b(?:os\.(?:system|popen|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)|subprocess\.(?:run|call|Popen|check_call|check_output|getoutput|getstatusoutput)|commands\.get(?:status)?output|pty\.spawn|asyncio\.create_subprocess_(?:shell|exec))\s*\(`),
	rule("code.spawn", "medium", doesSpawn, `(?:\bchild_process['"]?\)?\.|\bcp\.|\b)(?:exec|execSync|execFile|execFileSync|spawn|spawnSync|fork)\s*\(`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:Deno\.Command|Bun\.spawn(?:Sync)?|Bun\.\$|execa|execaSync|shell\.exec|shelljs\.exec|zx)\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:system|popen|shell_exec|passthru|proc_open|pcntl_exec|IO\.popen|Kernel\.(?:system|exec|spawn)|Open3\.\w+|PTY\.spawn|os\.execute|io\.popen)\b\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `(?:^|[;{(=\s])(?:exec|spawn)\s+['"]`),
	rule("code.spawn", "medium", doesSpawn, `(?:\bqx\s*[({/]|%x\s*[({\[])`),
	rule("code.remove", "high", doesRemove, `\b(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir|removedirs)|(?:fs|fsp|fs\.promises|promises)\.(?:rm|rmSync|rmdir|rmdirSync|unlink|unlinkSync)|(?:rimraf|rimrafSync|del|fse\.remove|removeSync|emptyDirSync)(?:\.sync)?|FileUtils\.(?:rm_rf|rm_r|rm|remove_dir|remove_entry\w*)|File\.(?:delete|unlink)|Dir\.(?:rmdir|delete|unlink)|rmtree|remove_tree|unlink|os\.remove)\s*\(?`),
	rule("code.write", "low", doesWrite, `\b(?:(?:fs|fsp|fs\.promises|promises)\.(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|chmod|chmodSync|truncate\w*|copyFile\w*|rename\w*|symlink\w*)|File\.(?:write|chmod)|IO\.write|file_put_contents|os\.(?:chmod|chown|rename|replace|symlink|truncate)|shutil\.(?:move|copy\w*|chown)|FileUtils\.(?:mv|cp|chmod\w*|ln_s|chown\w*))\s*\(?`),
	rule("code.net", "medium", doesNet, `\b(?:urllib\.request\.\w+|urllib2?\.urlopen|urlopen|urlretrieve|requests\.(?:get|post|put|delete|request|Session)|httpx\.\w+|aiohttp\.\w+|http\.client\.\w+|socket\.(?:socket|create_connection)|\.connect|smtplib\.\w+|ftplib\.\w+|paramiko\.\w+|https?\.(?:get|request)|fetch|axios(?:\.\w+)?|net\.(?:connect|createConnection|Socket)|dgram\.createSocket|dns\.(?:lookup|resolve\w*)|Net::HTTP\S*|URI\.open|TCPSocket\.(?:new|open)|IO::Socket\S*|LWP::\S+|fsockopen|curl_exec|curl_init)\s*\(?`),
	rule("code.eval", "medium", doesEval, `\b(?:eval|exec|compile|execfile|__import__|Function|vm\.runIn\w+|instance_eval|class_eval|marshal\.loads|pickle\.loads?|create_function|assert|loadstring)\s*\(`),
	rule("code.load", "medium", doesEval, `\b(?:ctypes\.(?:CDLL|cdll)\S*|LD_PRELOAD|process\.binding|dlopen)\b`),
}

// code reads inline code: python -c, perl -e, psql -c.
func (c *call) code(v word) {
	if v.opaque {
		c.opaque = "runs code known only when it runs"
	}
	switch c.name {
	case "sed", "awk":
		return // special looks at their programs
	case "psql", "mysql", "mariadb", "sqlite3", "mongo", "mongosh":
		c.sql(v.s)
		return
	}
	c.inline(v.s, languages[c.name])
}

// inline makes a script without a path of a text of code, and looks through it.
func (c *call) inline(text string, lang language) {
	if c.script == nil {
		c.script = &policy.Script{SHA256: digest([]byte(text)), Findings: []policy.Finding{}}
	}
	d := c.inner(c.via(""))
	c.script.Findings = append(c.script.Findings, d.code(c, text, "", lang)...)
}

// interpreter reads the standard input of an interpreter without a script.
func (c *call) interpreter() {
	stdin := len(c.args) == 0 || c.args[0].s == "-"
	for _, o := range c.opts {
		if o.spec != nil && (o.spec.role == 'e' || o.is("-m") && c.name == "python") {
			stdin = false
		}
	}
	if stdin && c.w.stdin != nil {
		c.inline(*c.w.stdin, languages[c.name])
	}
}

// foreign looks through code that is not shell, line by line, and follows the
// commands in its spawn calls.
func (w *walker) foreign(c *call, text, file string) (found []policy.Finding) {
	if len(text) > maxScript {
		w.in.opaque("code longer than can be looked at")
		text = text[:maxScript]
	}
	for _, r := range codeRules {
		for n, at := range r.re.FindAllStringIndex(text, 200) {
			if n == 199 {
				w.in.opaque("more calls in code than can be looked at")
			}
			found = append(found, policy.Finding{
				Rule: r.id, Severity: r.severity, Path: file, Line: 1 + strings.Count(text[:at[0]], "\n"), Text: excerpt(text[at[0]:]),
			})
			w.callIn(c, r, text[at[0]:at[1]], text[at[1]:])
		}
	}
	for _, m := range opened.FindAllStringSubmatch(text, 100) {
		mode := m[3] + m[4]
		if strings.ContainsAny(mode, "wa+x>") {
			c.writes(word{s: m[2]})
		} else {
			c.reads(word{s: m[2]})
		}
	}
	for _, u := range urls.FindAllString(text, 50) {
		w.in.reach("", word{s: u})
	}
	spawns := slices.ContainsFunc(found, func(f policy.Finding) bool { return f.Rule == "code.spawn" || f.Rule == "code.eval" })
	for _, p := range payloads(text) {
		found = append(found, w.in.dangers(p, file)...)
		if spawns {
			w.within("decoded", true).maybeText(p)
		} else {
			w.suspect(p)
		}
	}
	for _, m := range backticks.FindAllStringSubmatch(text, 50) {
		if lang := languages[c.name]; lang == langPerl || lang == langRuby || lang == langPHP {
			w.within("`", true).maybeText(m[1])
		}
	}
	return found
}

var (
	opened    = regexp.MustCompile(`\bopen\s*\(\s*(?:\w+\s*,\s*)?(['"])([^'"\n]+)['"]\s*(?:,\s*(?:mode\s*=\s*)?['"]([^'"]*)['"])?()`)
	urls      = regexp.MustCompile(`\b(?:https?|ftp|wss?)://[^\s'"` + "`" + `<>)\\]+`)
	backticks = regexp.MustCompile("`([^`\n]+)`")
)

// callIn does what one call in code does with its literal arguments.
func (w *walker) callIn(c *call, r codeRule, head, rest string) {
	lits, list, loose := literals(head, rest)
	switch r.does {
	case doesSpawn:
		if len(lits) == 0 {
			return
		}
		if list || len(lits) > 1 {
			argv := make([]word, len(lits))
			for i, l := range lits {
				argv[i] = word{s: l}
			}
			if strings.ContainsAny(lits[0], " ;|&") {
				w.within("spawn", true).maybeText(lits[0])
			} else {
				w.within("spawn", true).run(simple{argv: argv, pos: -1})
			}
			return
		}
		text := lits[0]
		if loose {
			text += " "
		}
		w.within("spawn", true).maybeText(text)
	case doesRemove:
		if len(lits) > 0 {
			c.removes(word{s: lits[0], opaque: loose})
		} else {
			c.target(string(sandbox.OpRemove), word{s: "$", opaque: true})
		}
	case doesWrite:
		for _, l := range lits[:min(len(lits), 2)] {
			if strings.Contains(l, "/") || strings.Contains(l, ".") {
				c.writes(word{s: l})
			}
		}
	case doesNet:
		if len(lits) > 0 && strings.Contains(lits[0], ".") {
			w.in.reach("", word{s: lits[0]})
		}
	}
}

// maybeText walks a text found in code: when it does not parse it is no shell
// text, and that is no alarm.
func (w *walker) maybeText(text string) {
	if f, reason := w.in.parse(text, maxText); reason == "" && w.depth <= maxDepth {
		c := *w
		c.src = text
		c.stmts(f.Stmts)
		return
	}
	w.in.scanLines(text, "")
}

// suspect walks a decoded payload when it reads like a command.
func (w *walker) suspect(text string) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if i := strings.LastIndexByte(first, '/'); i >= 0 {
		first = first[i+1:]
	}
	if systemName(first) && strings.Contains(text, " ") {
		w.within("decoded", true).maybeText(text)
	}
}

// literals are the string literals among a call's arguments, up to its closing
// parenthesis or the end of the statement. list tells that they stand in a
// list, loose that other expressions stand beside them.
func literals(head, rest string) (lits []string, list, loose bool) {
	depth := 1
	if !strings.HasSuffix(strings.TrimSpace(head), "(") {
		depth = 0
		if t := strings.TrimSpace(head); t != "" && (t[len(t)-1] == '\'' || t[len(t)-1] == '"') {
			rest = t[len(t)-1:] + rest
		}
	}
	joined := false
	for i := 0; i < len(rest) && i < maxText; i++ {
		switch c := rest[i]; c {
		case '(', '{':
			depth++
		case ')', '}':
			if depth--; depth <= 0 {
				return lits, list, loose
			}
		case '[':
			list = list || len(lits) <= 1
		case ';', '\n':
			if depth == 0 {
				return lits, list, loose
			}
		case '+', '.':
			joined = true
		case ',':
			joined = false
		case '#':
		case '\'', '"', '`':
			s, n := literal(rest[i:])
			if joined && len(lits) > 0 {
				lits[len(lits)-1] += s
			} else {
				lits = append(lits, s)
			}
			joined = false
			i += n - 1
		case 'q':
			if s, n := perlQuote(rest[i:]); n > 0 {
				lits = append(lits, s)
				i += n - 1
				continue
			}
			loose = loose || len(lits) == 0
		case '=', ' ', '\t', ']':
		default:
			loose = loose || len(lits) == 0
		}
	}
	return lits, list, loose
}

// literal reads one quoted literal and tells how many bytes it took. A triple
// quote is one literal.
func literal(s string) (string, int) {
	q := s[:1]
	if len(s) > 6 && s[1:2] == q && s[2:3] == q {
		if end := strings.Index(s[3:], s[:3]); end >= 0 {
			return s[3 : 3+end], end + 6
		}
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case q[0]:
			return escapes(strings.ReplaceAll(s[1:i], `\`+q, q)), i + 1
		}
	}
	return s[1:], len(s)
}

// perlQuote reads q{…} and qq{…} as one literal; n is 0 when there is none.
func perlQuote(s string) (lit string, n int) {
	at := 1
	if strings.HasPrefix(s, "qq") {
		at = 2
	}
	if at >= len(s) {
		return "", 0
	}
	closing := map[byte]byte{'{': '}', '(': ')', '[': ']', '<': '>', '/': '/', '|': '|', '!': '!'}[s[at]]
	if closing == 0 {
		return "", 0
	}
	end := strings.LastIndexByte(s, closing)
	if closing == s[at] {
		end = at + 1 + strings.IndexByte(s[at+1:], closing)
	}
	if end <= at {
		return "", 0
	}
	return s[at+1 : end], end + 1
}

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
	langTcl    language = "tcl"
	langJust   language = "just"
	langTask   language = "task"
	langNinja  language = "ninja"
	langTox    language = "tox"
	langCMake  language = "cmake"
	langM4     language = "m4"
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
	rule("code.spawn", "medium", doesSpawn, `\b(?:Deno\.(?:Command|run)|Bun\.spawn(?:Sync)?|Bun\.\$|execa|execaSync|shell\.exec|shelljs\.exec|zx)\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:system|popen|shell_exec|passthru|proc_open|pcntl_exec|IO\.popen|Kernel\.(?:system|exec|spawn)|Open3\.\w+|PTY\.spawn|os\.execute|io\.popen)\b\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `(?:^|[;{(=\s])(?:exec|spawn)\s+(?:['"]|qq?\b)`),
	rule("code.spawn", "medium", doesSpawn, `\((?:async-)?shell-command(?:-to-string)?\s+|\((?:call|start)-process\s+`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:exec\.Command(?:Context)?|Command::new|(?:new\s+)?ProcessBuilder|getRuntime\(\)\.exec|System\.(?:cmd|shell)|Process\.(?:run|start|spawn)|Port\.open|run_command)\s*\(`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:callCommand|callProcess|spawnCommand|spawnProcess|readProcess|readCreateProcess|rawSystem|system2|os\.capture)\b\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `\((?:ext:)?(?:run-shell-command|shell|system|run-program|term|ansi-term)\s+`),
	rule("code.spawn", "medium", doesSpawn, `\b(?:e?syscmd|commandLine|run-program|inferior-shell:run|uiop:run-program)\b\s*\(?`),
	rule("code.spawn", "medium", doesSpawn, `(?:^|[;{(=\s])sh\s+['"]`),
	rule("code.spawn", "medium", doesSpawn, `(?:\bqx\s*[({/]|%x\s*[({\[])`),
	rule("code.remove", "high", doesRemove, `\b(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir|removedirs)|(?:fs|fsp|promises)['"]?\)?\.(?:promises\.)?(?:rm|rmSync|rmdir|rmdirSync|unlink|unlinkSync)|(?:rimraf|rimrafSync|del|fse\.remove|removeSync|emptyDirSync)(?:\.sync)?|FileUtils\.(?:rm_rf|rm_r|rm|remove_dir|remove_entry\w*)|File\.(?:delete|unlink)|Dir\.(?:rmdir|delete|unlink)|rmtree|remove_tree|unlink|os\.remove)\b\s*\(?`),
	rule("code.remove", "high", doesRemove, `\((?:delete-file|delete-directory|delete-directory-recursively)\s+`),
	rule("code.write", "low", doesWrite, `\b(?:(?:fs|fsp|promises)['"]?\)?\.(?:promises\.)?(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|chmod|chmodSync|truncate\w*|copyFile\w*|rename\w*|symlink\w*)|File\.(?:write|chmod)|IO\.write|file_put_contents|os\.(?:chmod|chown|rename|replace|symlink|truncate)|shutil\.(?:move|copy\w*|chown)|FileUtils\.(?:mv|cp|chmod\w*|ln_s|chown\w*))\b\s*\(?`),
	rule("code.net", "medium", doesNet, `\b(?:urllib\.request\.\w+|urllib2?\.urlopen|urlopen|urlretrieve|requests\.(?:get|post|put|delete|request|Session)|httpx\.\w+|aiohttp\.\w+|http\.client\.\w+|socket\.(?:socket|create_connection)|\.connect|smtplib\.\w+|ftplib\.\w+|paramiko\.\w+|https?\.(?:get|request)|fetch|axios(?:\.\w+)?|net\.(?:connect|createConnection|Socket)|dgram\.createSocket|dns\.(?:lookup|resolve\w*)|Net::HTTP(?:::\w+|\.\w+)*|URI\.open|TCPSocket\.(?:new|open)|IO::Socket(?:::\w+)*(?:->new)?|LWP::\w+(?:->\w+)?|fsockopen|curl_exec|curl_init)\s*\(?`),
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
	switch {
	case !stdin:
	case c.w.stdin != nil:
		c.inline(*c.w.stdin, languages[c.name])
	case c.w.fromFile || c.w.fed != "":
		c.opaque = "runs code known only when it runs"
	}
}

// foreign looks through code that is not shell, line by line, and follows the
// commands in its spawn calls.
func (w *walker) foreign(c *call, text, file string) (found []policy.Finding) {
	if len(text) > maxScript {
		w.in.opaque("code longer than can be looked at")
		text = text[:maxScript]
	}
	names := constantsOf(text)
	for _, r := range codeRules {
		for n, at := range r.re.FindAllStringIndex(text, 200) {
			if n == 199 {
				w.in.opaque("more calls in code than can be looked at")
			}
			args := names.argumentsOf(text[at[0]:at[1]], text[at[1]:])
			found = append(found, policy.Finding{
				Rule: r.id, Severity: r.severity, Path: file, Line: 1 + strings.Count(text[:at[0]], "\n"), Text: excerpt(text[at[0]:]),
			})
			if r.does == doesRemove && w.removesOwn(c, args) {
				found[len(found)-1].Severity = "medium"
			}
			if dynamic := w.callIn(c, r, args); dynamic != "" {
				f := &found[len(found)-1]
				f.Rule += "-dynamic"
				if file == "" {
					f.Severity, c.opaque = "high", dynamic
				}
			}
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
	if file == "" {
		if languages[c.name] == langOther {
			c.fragments(text)
		}
		for _, m := range pathIn.FindAllStringSubmatch(text, maxItems) {
			c.reads(word{s: strings.Replace(m[1], "/.", "~/.", strings.Count(m[1][:2], "/."))})
		}
	}
	if file == "" {
		for _, m := range secretIn.FindAllStringSubmatch(text, maxItems) {
			c.reads(word{s: "~/" + m[1]})
		}
	}
	for _, m := range perlOpen.FindAllStringSubmatch(text, 100) {
		w.perlOpen(c, m[1]+m[2])
	}
	for _, u := range urls.FindAllString(text, 50) {
		w.in.reach("", word{s: u})
	}
	spawns := slices.ContainsFunc(found, func(f policy.Finding) bool { return f.Rule == "code.spawn" || f.Rule == "code.eval" })
	for _, p := range payloads(text) {
		found = append(found, w.in.dangers(p, file)...)
		if spawns {
			d := w.within("decoded", true)
			d.maybeText(p)
			if w.depth < 6 && slices.ContainsFunc(codeRules, func(r codeRule) bool { return r.re.MatchString(p) }) {
				found = append(found, d.foreign(c, p, file)...)
			}
		} else {
			w.suspect(p)
		}
	}
	for _, m := range backticks.FindAllStringSubmatch(text, 50) {
		if lang := languages[c.name]; lang == langPerl || lang == langRuby || lang == langPHP || c.name == "julia" {
			w.within("`", true).maybeText(m[1])
		}
	}
	return found
}

var (
	opened    = regexp.MustCompile(`\bopen\s*\(\s*(?:\w+\s*,\s*)?(['"])([^'"\n]+)['"]\s*(?:,\s*(?:mode\s*=\s*)?['"]([^'"]*)['"])?()`)
	perlOpen  = regexp.MustCompile(`\bopen\s*\(?\s*(?:my\s+)?[\w$]+\s*,\s*['"]\s*([<>+|]*-?\|?)\s*(?:['"]\s*,\s*['"])?([^'"\n]+)['"]`)
	pathIn    = regexp.MustCompile(`['"]((?:~|/)[^'"\s*?]+)['"]`)
	secretIn  = regexp.MustCompile(`['"](\.netrc|\.pgpass|\.git-credentials|\.bash_history|id_(?:rsa|dsa|ecdsa|ed25519))['"]`)
	urls      = regexp.MustCompile(`\b(?:https?|ftp|wss?)://[^\s'"` + "`" + `<>)\\]+`)
	backticks = regexp.MustCompile("`([^`\n]+)`")
)

// removesOwn reports whether a call removes one named path beneath the
// workspace, as the rules see from that path.
func (w *walker) removesOwn(c *call, a arguments) bool {
	if len(a.lits) == 0 || a.loose || strings.ContainsAny(a.lits[0], "*?$") {
		return false
	}
	abs := w.in.abs(c.dir, a.lits[0])
	rel, ok := w.in.inside(abs)
	return ok && rel != "." || w.in.scope(abs) == policy.ScopeTemp
}

// perlOpen does what open(F, "> path") and open(F, "cmd |") say.
func (w *walker) perlOpen(c *call, how string) {
	switch target := strings.TrimLeft(how, "<>+ "); {
	case strings.HasPrefix(how, "-|"), strings.HasPrefix(how, "|"):
		w.within("spawn", true).maybeText(strings.TrimLeft(how, "-| "))
	case strings.HasSuffix(how, "|"):
		w.within("spawn", true).maybeText(strings.TrimRight(how, "| "))
	case strings.Contains(how, ">"):
		c.writes(word{s: target})
	case strings.HasPrefix(how, "<"):
		c.reads(word{s: target})
	}
}

// callIn does what one call in code does with its literal arguments. It returns
// why the call cannot be known, "" when it can.
func (w *walker) callIn(c *call, r codeRule, a arguments) (dynamic string) {
	switch r.does {
	case doesSpawn:
		return w.spawned(a)
	case doesRemove:
		if len(a.lits) == 0 {
			c.target(string(sandbox.OpRemove), word{s: "$", opaque: true})
			return ""
		}
		c.removes(word{s: a.lits[0], opaque: a.loose})
	case doesWrite:
		for _, l := range a.lits[:min(len(a.lits), 2)] {
			if strings.ContainsAny(l, "/.") {
				c.writes(word{s: l})
			}
		}
	case doesNet:
		if len(a.lits) > 0 && strings.Contains(a.lits[0], ".") {
			w.in.reach("", word{s: a.lits[0]})
		}
	}
	return ""
}

// spawned follows the command a spawn call starts.
func (w *walker) spawned(a arguments) (dynamic string) {
	if len(a.lits) == 0 {
		if a.loose {
			return "runs a command that code makes up"
		}
		return ""
	}
	d := w.within("spawn", true)
	if (a.list || len(a.lits) > 1) && !strings.ContainsAny(a.lits[0], " ;|&$") {
		argv := make([]word, len(a.lits))
		for i, l := range a.lits {
			argv[i] = word{s: l}
		}
		d.run(simple{argv: argv, pos: -1})
	} else {
		d.maybeText(a.lits[0])
	}
	if a.loose && !a.list {
		return "runs a command that code makes up in part"
	}
	return ""
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

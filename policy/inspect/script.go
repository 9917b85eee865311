package inspect

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"

	"sallyport/policy"
)

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// scriptFile reads a file that is about to be run and looks through it. The
// language is told by the shebang when lang is "".
func (w *walker) scriptFile(c *call, v word, lang language) {
	if v.s == "-" && !v.opaque {
		v.s = "/dev/stdin"
	}
	if v.opaque || v.s == "" {
		c.opaque = "runs a script known only when it runs"
		return
	}
	abs := w.in.abs(w.sc.dir(), v.s)
	rel, inside := w.in.inside(abs)
	if !inside {
		rel = abs
	}
	content, made := w.standard(abs)
	if !made {
		content, made = w.in.written[abs]
	}
	if made && content == nil {
		c.ranUnknown(rel)
		return
	}
	if !made && (!inside || w.in.files == nil) {
		return
	}
	w.in.budget.scripts--
	if w.in.budget.scripts < 0 {
		w.in.opaque("more scripts than can be looked at")
		return
	}
	if !made {
		b, err := w.in.files.ReadFile(rel, maxScript)
		if err != nil {
			if w.in.files.Exists(rel) != "absent" {
				c.opaque = "runs a script that cannot be read: " + rel
			}
			return
		}
		content = known(string(b))
	}
	text := *content
	sum := digest([]byte(text))
	s := &policy.Script{Path: rel, SHA256: sum, Findings: []policy.Finding{}}
	if w.in.opts.Author != nil && !made {
		s.Author = w.in.opts.Author(w.in.root, rel, sum)
	}
	c.script = s
	if slices.Contains(w.running, sum) {
		return
	}
	if l := shebang(text); l != "" && (lang == "" || lang == langShell && l != langShell) {
		lang = l
	}
	if lang == "" {
		lang = byName(rel)
	}
	d := w.within("script:"+rel, false)
	d.running = append(slices.Clone(w.running), sum)
	s.Findings = append(s.Findings, d.code(c, text, rel, lang)...)
}

// shebang is the language a script's first line names, "" for none.
func shebang(text string) language {
	line, _, _ := strings.Cut(text, "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	for _, f := range strings.Fields(rest) {
		base := strings.TrimRight(path.Base(f), "0123456789.")
		if shells[base] {
			return langShell
		}
		if l := languages[base]; l != "" {
			return l
		}
	}
	return langOther
}

// byName is the language a file's name tells; a text without either is what
// bash takes it for.
func byName(p string) language {
	switch path.Ext(p) {
	case ".py":
		return langPython
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return langNode
	case ".pl", ".pm":
		return langPerl
	case ".rb":
		return langRuby
	case ".php":
		return langPHP
	case ".awk":
		return langAwk
	case ".sed":
		return langSed
	case ".mk":
		return langMake
	case ".sql":
		return langSQL
	case ".cmake":
		return langCMake
	case ".m4":
		return langM4
	case ".ninja":
		return langNinja
	case ".exs", ".ex", ".R", ".r", ".jl", ".jsh", ".groovy", ".scala", ".kts", ".kt", ".lisp", ".rkt", ".scm", ".clj":
		return langOther
	case ".go", ".rs", ".c", ".h", ".java", ".json", ".yaml", ".yml", ".toml", ".md", ".txt", ".html", ".css", ".lua":
		return langOther
	}
	switch path.Base(p) {
	case "Makefile", "makefile", "GNUmakefile":
		return langMake
	}
	return langShell
}

// makeFile is make's function that writes a file.
var makeFile = regexp.MustCompile(`\$[({]file\s*>>?\s*([^,)}\s]+)`)

// code looks through the text of a script in its language.
func (w *walker) code(c *call, text, file string, lang language) []policy.Finding {
	found := w.in.dangers(text, file)
	switch lang {
	case langShell:
		if strings.ContainsRune(text, 0) {
			return found // a binary
		}
		w.textWithin(strings.TrimPrefix(text, "\ufeff"), maxScript)
	case langMake:
		for _, m := range makeFile.FindAllStringSubmatch(text, maxItems) {
			c.writes(word{s: m[1]})
		}
		w.recipes(text, nil, nil)
	case langAwk:
		c.awkProgram(text)
	case langSed:
		c.sedProgram(text)
	case langCron:
		w.cron(text)
	case langTcl:
		w.tcl(text)
	case langJust:
		w.tasks(c, justTasks, text)
	case langTask:
		w.tasks(c, yamlTasks, text)
	case langNinja:
		w.ninja(text)
	case langTox:
		w.tox(text)
	case langCMake:
		w.cmake(text)
	case langM4:
		found = append(found, w.foreign(c, strings.NewReplacer("`", `"`, "'", `"`).Replace(text), file)...)
	case langSQL:
		c.sql(text)
	default:
		found = append(found, w.foreign(c, text, file)...)
	}
	return found
}

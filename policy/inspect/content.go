package inspect

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/policy"
	"sallyport/sandbox"
)

// maxContent is how much of one written file is scanned, in bytes.
const maxContent = 4 << 20

// maxFindings bounds what one call reports.
const maxFindings = 200

// operations records the paths of the file operations and scans what they write.
func (in *inspection) operations(c policy.Call) {
	for _, op := range c.Action.Files {
		in.operation(op)
	}
	if c.Phase == policy.PhaseEffects {
		for _, ch := range c.Changes {
			in.change(c, ch)
		}
	}
}

func (in *inspection) operation(op sandbox.FileOp) {
	in.facts.Files = append(in.facts.Files, in.fileFact(string(op.Op), op.Path))
	if op.To != "" {
		in.facts.Files = append(in.facts.Files, in.fileFact(string(op.Op), op.To))
	}
	if in.call.Phase == policy.PhaseEffects {
		return
	}
	switch {
	case op.Write != nil:
		in.content(op.Path, op.Write.Content)
	case op.Edit != nil:
		in.edit(op)
	}
}

// edit scans the file as it would be after the edit; when that cannot be read,
// the new text alone.
func (in *inspection) edit(op sandbox.FileOp) {
	if in.files != nil {
		if b, err := in.files.ReadFile(op.Path, maxContent); err == nil {
			old := string(b)
			n := 1
			if op.Edit.All {
				n = -1
			}
			if op.Edit.Old != "" && strings.Contains(old, op.Edit.Old) {
				in.content(op.Path, []byte(strings.Replace(old, op.Edit.Old, op.Edit.New, n)))
				return
			}
		}
	}
	in.content(op.Path, []byte(op.Edit.New))
}

// change scans what a run left behind.
func (in *inspection) change(c policy.Call, ch sandbox.Change) {
	op := string(sandbox.OpWrite)
	if ch.Kind == "removed" {
		op = string(sandbox.OpRemove)
	}
	f := in.fileFact(op, ch.Path)
	f.SHA256 = ch.After
	in.facts.Files = append(in.facts.Files, f)
	if op == string(sandbox.OpRemove) || c.Content == nil {
		return
	}
	b, err := c.Content(ch.Path)
	if err != nil {
		in.find(policy.Finding{Rule: "content.unreadable", Severity: "medium", Path: ch.Path, Text: excerpt(err.Error())})
		return
	}
	in.content(ch.Path, b)
}

func (in *inspection) fileFact(op, p string) policy.FileFact {
	f := in.file(op, in.root, word{s: p})
	if in.files == nil {
		return f
	}
	if rel, ok := in.inside(in.abs(in.root, p)); ok {
		f.Kind = in.files.Exists(rel)
		if f.Kind == "file" {
			if b, err := in.files.ReadFile(rel, maxContent); err == nil {
				f.SHA256 = digest(b)
			}
		}
	}
	return f
}

// content scans bytes that are written to a path.
func (in *inspection) content(p string, b []byte) {
	if len(b) > maxContent {
		in.find(policy.Finding{Rule: "content.unscanned", Severity: "medium", Path: p, Text: "only the first 4 MiB were scanned"})
		b = b[:maxContent]
	}
	for _, f := range secrets(string(b)) {
		f.Path = p
		in.find(f)
	}
	if !utf8.Valid(b) || strings.ContainsRune(string(b[:min(len(b), 8000)]), 0) {
		return // a binary
	}
	text := string(b)
	for _, f := range in.dangers(text, p) {
		in.find(f)
	}
	for _, f := range hiddenCharacters(text) {
		f.Path = p
		in.find(f)
	}
	if path.Base(p) == "package.json" {
		for _, s := range slices.Sorted(maps.Values(packageScripts(b))) {
			in.scriptContent(p, s, langShell)
		}
	} else if lang := scriptLanguage(p, text); lang != "" {
		in.scriptContent(p, text, lang)
	}
}

// scriptLanguage is the language of a file that could be run, "" for others.
func scriptLanguage(p, text string) language {
	if l := shebang(text); l != "" {
		return l
	}
	if l := byName(p); l != langShell && l != langOther {
		return l
	}
	switch base := path.Base(p); {
	case strings.HasSuffix(base, ".sh"), strings.HasSuffix(base, ".bash"), strings.HasSuffix(base, ".zsh"), strings.HasSuffix(base, ".command"),
		base == ".envrc", base == ".bashrc", base == ".profile", base == ".zshrc", base == ".bash_profile", strings.Contains(p, ".git/hooks/"):
		return langShell
	}
	return ""
}

// scriptContent looks at what a written script would do when it is run, and
// keeps of it what rules on content need: the dangers.
func (in *inspection) scriptContent(p, text string, lang language) {
	dry := &inspection{
		ctx: in.ctx, call: in.call, opts: in.opts, lists: in.lists, root: in.root, budget: newBudget(),
	}
	e := &sandbox.Exec{}
	w := &walker{in: dry, sc: dry.newScope(e)}
	w.sc.args = false
	c := &call{w: w, s: simple{argv: []word{{s: p}}}, name: "bash", dir: w.sc.dir()}
	for _, f := range w.code(c, text, p, lang) {
		if strings.HasPrefix(f.Rule, "danger.") {
			in.find(f)
		}
	}
	w.finish()
	for _, cmd := range append(dry.facts.Cmds, policy.Cmd{Targets: c.targets}) {
		for _, f := range dangerous(cmd) {
			f.Path = p
			f.Line = lineOf(text, cmd)
			in.find(f)
		}
	}
}

// lineOf is the first line that names a command's program.
func lineOf(text string, c policy.Cmd) int {
	i := strings.Index(text, c.Program)
	if i < 0 || c.Program == "" {
		return 0
	}
	return 1 + strings.Count(text[:i], "\n")
}

// find adds a finding once, to the bound.
func (in *inspection) find(f policy.Finding) {
	for _, o := range in.facts.Content {
		if o == f {
			return
		}
	}
	if len(in.facts.Content) < maxFindings {
		in.facts.Content = append(in.facts.Content, f)
	}
}

// dangers are the lines that the data's patterns for scripts and content match.
func (in *inspection) dangers(text, p string) (out []policy.Finding) {
	var may []pattern
	for _, pt := range in.lists.patterns {
		if pt.on("content", "script") && pt.all.MatchString(text) {
			may = append(may, pt)
		}
	}
	if len(may) == 0 {
		return nil
	}
	for n, l := range strings.Split(text, "\n") {
		if len(l) > maxText {
			l = l[:maxText]
		}
		for _, pt := range may {
			if pt.re.MatchString(l) {
				out = append(out, policy.Finding{Rule: pt.ID, Severity: pt.Severity, Path: p, Line: n + 1, Text: excerpt(l)})
			}
		}
		if len(out) > maxFindings {
			break
		}
	}
	return out
}

func (p pattern) on(kinds ...string) bool {
	for _, k := range kinds {
		for _, o := range p.On {
			if o == k {
				return true
			}
		}
	}
	return false
}

// scanLines applies the patterns to a text that could not be parsed.
func (in *inspection) scanLines(text, p string) {
	for _, f := range in.dangers(text, p) {
		in.find(f)
	}
}

// excerpt is the first line of a text, secrets masked, at most 120 bytes.
func excerpt(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 4000 {
		s = s[:4000]
	}
	s = strings.TrimSpace(mask(s))
	if strange(s) != "" {
		s = escaped(s)
	}
	if len(s) > 120 {
		s = s[:117]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "..."
	}
	return s
}

// hiddenCharacters are the invisible and bidirectional characters of a text,
// one finding a line.
func hiddenCharacters(text string) (out []policy.Finding) {
	ascii := true
	for i := range len(text) {
		if text[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return nil
	}
	for n, l := range strings.Split(text, "\n") {
		for i, r := range l {
			switch {
			case n == 0 && i == 0 && r == 0xFEFF: // a byte order mark
			case bidi(r):
				out = append(out, policy.Finding{Rule: "unicode.bidi", Severity: "high", Line: n + 1, Text: excerpt(l)})
			case r >= 0x80 && r != 0x00A0 && r != 0x3000 && r != 0x200D && invisible(r):
				out = append(out, policy.Finding{Rule: "unicode.invisible", Severity: "medium", Line: n + 1, Text: excerpt(l)})
			default:
				continue
			}
			break
		}
		if len(out) >= 50 {
			break
		}
	}
	return out
}

//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func searchOp(s Search) FileOp { return FileOp{Op: OpSearch, Path: ".", Search: &s} }

// lines words matches as grep -n does.
func lines(r FileResult) string {
	var b strings.Builder
	for _, m := range r.Matches {
		sep := ":"
		if m.Context {
			sep = "-"
		}
		switch {
		case m.Count > 0:
			fmt.Fprintf(&b, "%s:%d\n", m.Path, m.Count)
		case m.Line == 0:
			fmt.Fprintln(&b, m.Path)
		default:
			fmt.Fprintf(&b, "%s%s%d%s%s\n", m.Path, sep, m.Line, sep, m.Text)
		}
	}
	return b.String()
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{
		"a.go":         "package a\n\nfunc One() {\n\treturn 1\n}\n\nfunc Two() {}\n",
		"b.txt":        "one\r\ntwo\r\nthree\r\n",
		"bin":          "func \x00",
		"z/deep.go":    "// func in a comment\n",
		".gitignore":   "ignored/\n*.log\n!keep.log\n",
		"ignored/x.go": "func hidden\n",
		"x.log":        "func hidden\n",
		"keep.log":     "func kept\n",
		".git/config":  "func hidden\n",
		"no-newline":   "last func",
	})
	require.NoError(t, os.WriteFile(filepath.Join(w.Root(), "latin1"), []byte("caf\xe9 func\n"), 0o644))
	for _, tc := range []struct {
		name string
		s    Search
		want string
	}{
		{"content", Search{Pattern: `func \w+\(`, Mode: SearchContent}, "a.go:3:func One() {\na.go:7:func Two() {}\n"},
		{"files", Search{Pattern: `func`, Mode: SearchFiles}, "a.go\nkeep.log\nlatin1\nno-newline\nz/deep.go\n"},
		{"count", Search{Pattern: `func`, Mode: SearchCount}, "a.go:2\nkeep.log:1\nlatin1:1\nno-newline:1\nz/deep.go:1\n"},
		{"glob", Search{Pattern: `func`, Mode: SearchFiles, Glob: "*.go"}, "a.go\nz/deep.go\n"},
		{"glob with slash", Search{Pattern: `func`, Mode: SearchFiles, Glob: "z/*.go"}, "z/deep.go\n"},
		{"ignore case", Search{Pattern: `FUNC one`, Mode: SearchContent, IgnoreCase: true}, "a.go:3:func One() {\n"},
		{"context", Search{Pattern: `return`, Mode: SearchContent, Before: 1, After: 2}, "a.go-3-func One() {\na.go:4:\treturn 1\na.go-5-}\na.go-6-\n"},
		{"contexts touch", Search{Pattern: `^func`, Mode: SearchContent, Glob: "a.go", Before: 2, After: 2}, "a.go-1-package a\na.go-2-\na.go:3:func One() {\na.go-4-\treturn 1\na.go-5-}\na.go-6-\na.go:7:func Two() {}\n"},
		{"offset and limit", Search{Pattern: `func`, Mode: SearchFiles, Offset: 1, Limit: 2}, "keep.log\nlatin1\n"},
		{"end of a CRLF line", Search{Pattern: `two$`, Mode: SearchContent}, "b.txt:2:two\n"},
		{"a class does not cross lines", Search{Pattern: `one[^x]two`, Mode: SearchContent}, ""},
		{"multiline does", Search{Pattern: `one\s+two`, Mode: SearchContent, Multiline: true}, "b.txt:1:one\nb.txt:2:two\n"},
		{"multiline dot", Search{Pattern: `One.*return`, Mode: SearchContent, Multiline: true}, "a.go:3:func One() {\na.go:4:\treturn 1\n"},
		{"empty lines", Search{Pattern: `^$`, Mode: SearchContent, Glob: "a.go"}, "a.go:2:\na.go:6:\n"},
		{"matches nothing", Search{Pattern: `nope`, Mode: SearchContent}, ""},
	} {
		r, err := do(t, w, searchOp(tc.s))
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.want, lines(r), tc.name)
	}
	for _, bad := range []Search{{Pattern: "("}, {Pattern: "(?=x)"}, {Pattern: "x", Glob: "["}} {
		_, err := do(t, w, searchOp(bad))
		wantKind(t, err, KindInvalid)
	}
	r, err := do(t, w, FileOp{Op: OpSearch, Path: "ignored", Search: &Search{Pattern: "func", Mode: SearchFiles}})
	require.NoError(t, err)
	assert.Equal(t, "ignored/x.go\n", lines(r), "who names an ignored directory wants to see it")
	r, err = do(t, w, FileOp{Op: OpSearch, Path: "a.go", Search: &Search{Pattern: "Two", Mode: SearchContent}})
	require.NoError(t, err)
	assert.Equal(t, "a.go:7:func Two() {}\n", lines(r))
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"many": strings.Repeat("x\n", 3*countOnly), "long": strings.Repeat("x", 10_000) + "\n"})
	r, err := do(t, w, searchOp(Search{Pattern: "x", Mode: SearchContent, Limit: 5}))
	require.NoError(t, err)
	assert.Len(t, r.Matches, 5)
	assert.True(t, r.Cut)
	assert.GreaterOrEqual(t, r.Total, countOnly)
	assert.LessOrEqual(t, len(r.Matches[0].Text), maxMatchText+len("…"))
	big := filepath.Join(w.Root(), "big")
	require.NoError(t, os.WriteFile(big, nil, 0o644))
	require.NoError(t, os.Truncate(big, MaxSearchFile+1))
	r, err = do(t, w, searchOp(Search{Pattern: "x", Mode: SearchFiles}))
	require.NoError(t, err)
	require.Len(t, r.Skipped, 1)
	assert.Contains(t, r.Skipped[0], "big: it has")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_, err = w.Do(ctx, searchOp(Search{Pattern: "x"}), nil)
	wantKind(t, err, KindCanceled)
}

// TestSearchAgreesWithGrep compares with grep -rnE on random trees and patterns
// that mean the same to both.
func TestSearchAgreesWithGrep(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("grep"); err != nil {
		t.Skip("needs grep(1)")
	}
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"foo", "bar", "foobar", "", "a.b", "x=1;", "(y)", "Foo", "  pad", "tab\t", "é"}
	files := map[string]string{}
	for i := range 20 {
		var b strings.Builder
		for range r.IntN(40) {
			for range r.IntN(4) {
				b.WriteString(words[r.IntN(len(words))])
			}
			b.WriteByte('\n')
		}
		text := b.String()
		if r.IntN(4) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		files[fmt.Sprintf("d%d/f%02d", i%3, i)] = text
	}
	w, _ := workspace(t, files)
	names := slices.Sorted(maps.Keys(files))
	atoms := []string{"foo", "ba?r", "[a-z]+", "^", "$", "(x|y)", ".", "o{2}", "[^a-m ]", "a\\.b", "1;", "F", ""}
	for range 120 {
		var pat strings.Builder
		for range 1 + r.IntN(3) {
			pat.WriteString(atoms[r.IntN(len(atoms))])
		}
		p := pat.String()
		if p == "" {
			continue
		}
		s := Search{Pattern: p, Mode: SearchContent, IgnoreCase: r.IntN(3) == 0, Before: r.IntN(3), After: r.IntN(3), Limit: MaxSearchLimit}
		args := []string{"-rnE", "--no-group-separator", fmt.Sprintf("-B%d", s.Before), fmt.Sprintf("-A%d", s.After)}
		if s.IgnoreCase {
			args = append(args, "-i")
		}
		cmd := exec.Command("grep", append(append([]string{"-H"}, args...), append([]string{"-e", p}, names...)...)...)
		cmd.Dir, cmd.Env = w.Root(), append(os.Environ(), "LC_ALL=C.UTF-8")
		want, _ := cmd.Output()
		got, err := do(t, w, searchOp(s))
		require.NoError(t, err, p)
		require.Equal(t, string(want), lines(got), "%q %v", p, args)
	}
}

// TestIgnoreAgreesWithGit compares with git check-ignore on a hard set of
// patterns.
func TestIgnoreAgreesWithGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git(1)")
	}
	paths := []string{
		"a.log", "keep.log", "build/x", "build/keep/y", "src/build/z", "src/a/b/c.txt", "src/c.txt", "doc/one.md", "doc/sub/two.md",
		"foo{1}", "foo1", "we ird/f", "trail ", "#hash", "!bang", "star*", "sub/.env", ".env", "sub/deep/only", "deep/only", "x/y/z/end", "y/z/end",
		"abc/d", "abc/e/f", "qa", "qb", "q]", "back\\slash", "UPPER.TXT", "sub/anch", "anch", "node_modules/p/i.js", "sub/node_modules/p/i.js", "m/n/o", "m/o",
	}
	ignores := map[string]string{
		".gitignore":     "\ufeff*.log\n!keep.log\n# comment\n\n/build\n!build/keep\nsrc/**/c.txt\ndoc/*.md\nfoo{1}\nwe ird/\ntrail\\ \n\\#hash\n\\!bang\nstar\\*\n.env\n/anch\nnode_modules/\nabc/**\n**/z/end\nq[!a]\n*.txt\r\nback\\\\slash\nm/**/o\n",
		"sub/.gitignore": "!.env\ndeep/only\n/anch\n",
		"src/.gitignore": "*\n!*.txt\n!a\n!a/b\n",
	}
	files := map[string]string{}
	for _, p := range paths {
		files[p] = "x\n"
	}
	for p, text := range ignores {
		files[p] = text
	}
	w, _ := workspace(t, files)
	sameAsGit(t, w, "UPPER*\n")
}

// sameAsGit compares what a glob of everything meets with what git would add.
func sameAsGit(t *testing.T, w *Workspace, exclude string, context ...any) {
	t.Helper()
	if !w.Exists(".git") {
		out, err := exec.Command("git", "init", "-q", w.Root()).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.Root(), ".git/info/exclude"), []byte(exclude), 0o644))
	cmd := exec.Command("git", "-c", "core.excludesFile=/dev/null", "-C", w.Root(), "ls-files", "-z", "--others", "--exclude-standard")
	listed, err := cmd.Output()
	require.NoError(t, err)
	want := strings.FieldsFunc(string(listed), func(r rune) bool { return r == 0 })
	slices.Sort(want)
	r, err := do(t, w, FileOp{Op: OpGlob, Path: ".", Glob: &Glob{Pattern: "**", Limit: 1000}})
	require.NoError(t, err)
	got := []string{}
	for _, e := range r.Entries {
		got = append(got, e.Path)
	}
	slices.Sort(got)
	require.Equal(t, want, got, context...)
}

// TestIgnoreAgreesWithGitOnRandomPatterns puts patterns together from parts.
func TestIgnoreAgreesWithGitOnRandomPatterns(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git(1)")
	}
	files := map[string]string{"a/*": "x", "a/*a": "x", "**": "x"}
	for _, a := range []string{"a", "b", "ab"} {
		for _, b := range []string{"a", "b", "x.c", "y.c"} {
			files[a+"/"+b+".d/"+b] = "x"
			files[a+"/"+b] = "x"
		}
		files[a+".c"] = "x"
	}
	w, _ := workspace(t, files)
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"a", "b", "*", "**", "?", "/", "/", ".c", ".d", "[ab]", "[!a]", "x", "\\a", "*.c", "{a,b}", "\\*", "***"}
	for range 200 {
		var text strings.Builder
		for range 1 + r.IntN(4) {
			if r.IntN(4) == 0 {
				text.WriteByte('!')
			}
			var line string
			for range 1 + r.IntN(5) {
				line += parts[r.IntN(len(parts))]
			}
			// git cuts a literal beginning off before it matches, so that the
			// stars of "a**/b" mean what those of "**/b" mean; we do not.
			line = regexp.MustCompile(`([^/*])\*\*+`).ReplaceAllString(line, "$1*")
			text.WriteString(line + "\n")
		}
		at := []string{".gitignore", "a/.gitignore"}[r.IntN(2)]
		require.NoError(t, os.WriteFile(filepath.Join(w.Root(), at), []byte(text.String()), 0o644))
		sameAsGit(t, w, "", "%s: %q", at, text.String())
		require.NoError(t, os.Remove(filepath.Join(w.Root(), at)))
	}
}

func TestGlobAndList(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"old.go": "", "new.go": "", "sub/mid.go": "", "sub/x.txt": "", ".gitignore": "no.go\n", "no.go": ""})
	now := time.Now()
	for name, age := range map[string]time.Duration{"old.go": 3, "sub/mid.go": 2, "new.go": 1} {
		require.NoError(t, os.Chtimes(filepath.Join(w.Root(), name), now, now.Add(-age*time.Hour)))
	}
	names := func(r FileResult) string {
		var out []string
		for _, e := range r.Entries {
			out = append(out, e.Path)
		}
		return strings.Join(out, " ")
	}
	glob := func(p, pattern string, limit int) FileResult {
		r, err := do(t, w, FileOp{Op: OpGlob, Path: p, Glob: &Glob{Pattern: pattern, Limit: limit}})
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, "new.go sub/mid.go old.go", names(glob(".", "**/*.go", 0)))
	assert.Equal(t, "new.go sub/mid.go old.go", names(glob(".", "*.go", 0)))
	assert.Equal(t, "sub/mid.go", names(glob("sub", "*.{go,md}", 0)))
	r := glob(".", "*.go", 1)
	assert.Equal(t, []any{"new.go", 3, true}, []any{names(r), r.Total, r.Cut})
	list := func(l List) string {
		r, err := do(t, w, FileOp{Op: OpList, Path: ".", List: &l})
		require.NoError(t, err)
		return names(r)
	}
	assert.Equal(t, ".gitignore new.go old.go sub", list(List{}))
	assert.Equal(t, ".gitignore new.go old.go sub sub/mid.go sub/x.txt", list(List{Depth: 2}))
	assert.Equal(t, ".gitignore new.go no.go old.go sub", list(List{Hidden: true}))
	_, err := do(t, w, FileOp{Op: OpList, Path: "old.go"})
	wantKind(t, err, KindInvalid)
	_, err = do(t, w, FileOp{Op: OpGlob, Path: ".", Glob: &Glob{Pattern: "["}})
	wantKind(t, err, KindInvalid)
}

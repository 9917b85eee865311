//go:build linux

package sandbox

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRules are the patterns of the ignore files that hold in one directory,
// outermost first; the last that matches decides. The zero value ignores
// nothing. The pattern language is gitignore(5); doublestar does the matching,
// git itself is the oracle in the tests.
type ignoreRules struct {
	outer *ignoreRules
	dir   string // where the file lies, "." for the workspace
	rules []ignoreRule
}

type ignoreRule struct {
	pattern  string
	keep     bool // "!": what matches is not ignored
	dirOnly  bool
	anchored bool // matched against the path from dir, not the base name
	literal  bool // no wildcard: compared as it is
}

// dialect turns git's patterns into doublestar's: braces mean nothing to git,
// and its negated classes never match a slash. What is escaped stays.
var dialect = strings.NewReplacer(
	`\\`, `\\`, `\[`, `\[`, `\{`, `\{`, `\}`, `\}`,
	"{", `\{`, "}", `\}`,
	"[!]", "[!]", "[^]", "[^]", "[!", "[!/", "[^", "[!/",
)

// parseIgnore reads an ignore file found in dir.
func parseIgnore(outer *ignoreRules, dir string, text []byte) *ignoreRules {
	r := &ignoreRules{outer: outer, dir: dir}
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if rule, ok := parseIgnoreLine(strings.TrimSuffix(line, "\r")); ok {
			r.rules = append(r.rules, rule)
		}
	}
	return r
}

func parseIgnoreLine(line string) (r ignoreRule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if r.keep = strings.HasPrefix(line, "!"); r.keep {
		line = line[1:]
	}
	if r.dirOnly = strings.HasSuffix(line, "/"); r.dirOnly {
		line = line[:len(line)-1]
	}
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.literal = !strings.ContainsAny(line, `*?[\`)
	if !r.literal {
		line = dialect.Replace(stars(line))
	}
	if strings.HasSuffix(line, "/**") { // what is inside, not the directory itself
		line += "/*"
	}
	r.pattern = line
	return r, r.literal || doublestar.ValidatePattern(line)
}

// stars makes runs of stars what git takes them for: "**" where they are all of
// a path's component, else one.
func stars(line string) string {
	parts := strings.Split(line, "/")
	for i, part := range parts {
		if len(part) > 1 && strings.Trim(part, "*") == "" {
			parts[i] = "**"
			continue
		}
		var b strings.Builder
		for j := 0; j < len(part); j++ {
			switch {
			case part[j] == '\\' && j+1 < len(part):
				b.WriteString(part[j : j+2])
				j++
			case part[j] != '*' || j == 0 || part[j-1] != '*' || strings.HasSuffix(b.String(), `\*`):
				b.WriteByte(part[j])
			}
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, "/")
}

// ignores reports whether p, a path relative to the workspace whose directories
// are not ignored themselves, is left out.
func (r *ignoreRules) ignores(p string, isDir bool) bool {
	for ; r != nil; r = r.outer {
		rel := p
		if r.dir != "." {
			rel = p[len(r.dir)+1:]
		}
		base := path.Base(p)
		for i := len(r.rules) - 1; i >= 0; i-- {
			rule := &r.rules[i]
			if rule.dirOnly && !isDir {
				continue
			}
			name := base
			if rule.anchored {
				name = rel
			}
			if rule.matches(name) {
				return !rule.keep
			}
		}
	}
	return false
}

func (r *ignoreRule) matches(name string) bool {
	if r.literal {
		return r.pattern == name
	}
	ok, err := doublestar.Match(r.pattern, name)
	return ok && err == nil
}

package inspect

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport/policy"
)

// globs are the guards of one Data, indexed: a path is looked up by its base
// name, its extension and its directories, and only globs of other shapes are
// tried one after another.
type globs struct {
	base map[string][]glob // **/a/b: by "b"
	ext  map[string][]glob // **/*.pem: by ".pem"
	dir  map[string][]glob // **/a/b/**: by "a"
	rest []glob
}

type glob struct {
	pattern string // what is left to compare
	rank    int    // index in guardOrder
	needle  string // of those tried one after another: what every match holds
}

// guardOrder is which guard wins when several match.
var guardOrder = []policy.Guard{
	policy.GuardSelf, policy.GuardAgent, policy.GuardHook, policy.GuardSecret, policy.GuardCI, policy.GuardShellRC,
	policy.GuardAutorun, policy.GuardConfig,
}

func compileGuards(m map[policy.Guard][]string) globs {
	g := globs{base: map[string][]glob{}, ext: map[string][]glob{}, dir: map[string][]glob{}}
	for rank, guard := range guardOrder {
		for _, p := range m[guard] {
			g.add(p, rank)
		}
	}
	return g
}

func (g *globs) add(p string, rank int) {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		p = home + "/" + rest
	}
	literal := func(s string) bool { return s != "" && !strings.ContainsAny(s, `*?[{\`) }
	anywhere, deep := strings.CutPrefix(p, "**/")
	inner, tree := strings.CutSuffix(anywhere, "/**")
	switch {
	case deep && literal(anywhere):
		key := path.Base(anywhere)
		g.base[key] = append(g.base[key], glob{pattern: "/" + anywhere, rank: rank})
	case deep && tree && literal(inner):
		key, _, _ := strings.Cut(inner, "/")
		g.dir[key] = append(g.dir[key], glob{pattern: "/" + inner, rank: rank})
	case deep && strings.HasPrefix(anywhere, "*.") && literal(anywhere[1:]) && path.Ext(anywhere) == anywhere[1:]:
		g.ext[anywhere[1:]] = append(g.ext[anywhere[1:]], glob{rank: rank})
	case doublestar.ValidatePattern(p):
		g.rest = append(g.rest, glob{p, rank, needle(p)})
	}
}

// samples are the endings of files that show the form of a secret file and hold
// none: .env.example.
var samples = set(".example .sample .template .dist .tmpl .tpl")

// match is the strictest guard of a path, given relative to the workspace (or
// absolute when outside) and absolute.
func (g globs) match(rel, abs string) policy.Guard {
	best := len(guardOrder)
	sample := samples[path.Ext(abs)]
	take := func(rank int) {
		if !sample || guardOrder[rank] != policy.GuardSecret {
			best = min(best, rank)
		}
	}
	full := abs
	if rel != abs {
		full = "/" + rel
	}
	for _, x := range g.base[path.Base(full)] {
		if strings.HasSuffix(full, x.pattern) {
			take(x.rank)
		}
	}
	if base := path.Base(full); strings.IndexAny(base, "*?[") > 2 {
		for key, list := range g.base { // .env*, id_*: what it may stand for
			if ok, _ := path.Match(base, key); ok {
				for _, x := range list {
					if x.pattern == "/"+key {
						take(x.rank)
					}
				}
			}
		}
	}
	for _, x := range g.ext[path.Ext(full)] {
		take(x.rank)
	}
	for at := 0; at < len(full); {
		end := strings.IndexByte(full[at+1:], '/')
		if end < 0 {
			end = len(full) - at - 1
		}
		for _, x := range g.dir[full[at+1:at+1+end]] {
			if under(full[at:], x.pattern) {
				take(x.rank)
			}
		}
		at += 1 + end
	}
	for _, x := range g.rest {
		if x.rank < best && strings.Contains(abs, x.needle) && x.matches(rel, abs, full) {
			take(x.rank)
		}
	}
	if best == len(guardOrder) {
		return ""
	}
	return guardOrder[best]
}

func (x glob) matches(rel, abs, full string) bool {
	subject := rel
	switch {
	case strings.HasPrefix(x.pattern, "/"):
		subject = abs
	case strings.HasPrefix(x.pattern, "**/"):
		subject = full[1:]
	}
	if lit, ok := strings.CutSuffix(x.pattern, "/**"); ok && !strings.ContainsAny(lit, `*?[{\`) {
		return under(subject, lit)
	}
	ok, _ := doublestar.Match(x.pattern, subject)
	return ok
}

// needle is the longest text that every path a glob matches holds: it stands
// outside of braces, before any class, escape or byte that is no UTF-8 (globs
// compare runes), and without the slashes that ** may swallow.
func needle(pattern string) (best string) {
	if at := strings.IndexAny(pattern, "[\\\ufffd"); at >= 0 {
		pattern = pattern[:at]
	}
	for pattern != "" {
		run := pattern
		if at := strings.IndexAny(pattern, "*?{"); at >= 0 {
			run = pattern[:at]
		}
		if text := strings.Trim(run, "/"); len(text) > len(best) {
			best = text
		}
		pattern = pattern[len(run):]
		if !strings.HasPrefix(pattern, "{") {
			pattern = strings.TrimLeft(pattern, "*?")
			continue
		}
		inner, after, closed := strings.Cut(pattern[1:], "}")
		if !closed || strings.Contains(inner, "{") {
			break
		}
		pattern = after
	}
	return best
}

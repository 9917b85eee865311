package inspect

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// prefiltered is a regular expression behind a cheaper question: a text that
// holds none of its needles cannot match. Almost no command holds one, and
// looking for a substring costs a tenth of running the expression.
type prefiltered struct {
	re      *regexp.Regexp
	needles []string // empty: every text must be tried
}

func prefilter(re *regexp.Regexp) prefiltered {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return prefiltered{re: re}
	}
	return prefiltered{re, needles(tree.Simplify())}
}

func (p prefiltered) MatchString(text string) bool {
	if len(p.needles) == 0 {
		return p.re.MatchString(text)
	}
	for _, n := range p.needles {
		if strings.Contains(text, n) {
			return p.re.MatchString(text)
		}
	}
	return false
}

// needles are texts of which every match of re holds at least one; none when
// that cannot be told.
func needles(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		// A byte that is no UTF-8 matches the replacement character.
		if re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, utf8.RuneError) {
			return []string{string(re.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needles(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needles(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if n := needles(sub); rarer(n, best) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			n := needles(sub)
			if n == nil {
				return nil
			}
			all = append(all, n...)
		}
		return all
	}
	return nil
}

// rarer prefers the set whose shortest text is longest: it lets the fewest by.
func rarer(a, b []string) bool {
	shortest := func(set []string) int {
		n := 1 << 20
		for _, s := range set {
			n = min(n, len(s))
		}
		return n
	}
	return len(a) > 0 && (len(b) == 0 || shortest(a) > shortest(b))
}

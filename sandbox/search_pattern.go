package sandbox

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// linePattern finds the lines of a buffer that match an RE2 expression.
type linePattern struct {
	re        *regexp.Regexp
	multiline bool
	literal   []byte // every match holds it; empty when there is none
}

// compileSearch prepares a search. Without multiline the expression is bent so
// that it can run over a whole buffer and still never sees more than a line:
// no class holds "\n", ^ and $ (and \A and \z) mean the ends of a line, and $
// also stands before the CR of a CRLF.
func compileSearch(s Search) (*linePattern, error) {
	flags := syntax.Perl | syntax.OneLine
	if s.IgnoreCase {
		flags |= syntax.FoldCase
	}
	flags &^= syntax.OneLine // (?m): ^ and $ at lines
	if s.Multiline {
		flags |= syntax.DotNL
	}
	re, err := syntax.Parse(s.Pattern, flags)
	if err != nil {
		return nil, err
	}
	if !s.Multiline {
		re = withinLine(re)
	}
	compiled, err := regexp.Compile(re.String())
	if err != nil {
		return nil, err
	}
	return &linePattern{re: compiled, multiline: s.Multiline, literal: required(re.Simplify())}, nil
}

// withinLine rewrites an expression so that no match crosses a line end.
func withinLine(re *syntax.Regexp) *syntax.Regexp {
	for i, sub := range re.Sub {
		re.Sub[i] = withinLine(sub)
	}
	switch re.Op {
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText, syntax.OpEndLine:
		end := &syntax.Regexp{Op: syntax.OpEndLine}
		cr := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\r'}}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{{Op: syntax.OpQuest, Sub: []*syntax.Regexp{cr}}, end}}
	case syntax.OpCharClass:
		re.Rune = withoutNL(re.Rune)
		if len(re.Rune) == 0 {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
	}
	return re
}

// withoutNL takes "\n" out of the ranges of a class.
func withoutNL(ranges []rune) []rune {
	var out []rune
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > '\n' || hi < '\n' {
			out = append(out, lo, hi)
			continue
		}
		if lo < '\n' {
			out = append(out, lo, '\n'-1)
		}
		if hi > '\n' {
			out = append(out, '\n'+1, hi)
		}
	}
	return out
}

// required is the longest literal that every match of re holds. A literal that
// ignores case gives none.
func required(re *syntax.Regexp) []byte {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, '\uFFFD') {
			return []byte(string(re.Rune))
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []byte
		for _, sub := range re.Sub {
			if lit := required(sub); len(lit) > len(best) {
				best = lit
			}
		}
		return best
	}
	return nil
}

// hit is one match: the byte range of the whole lines it touches.
type hit struct{ start, end int }

// each calls yield for every matching line of b (with multiline: every match,
// widened to whole lines) until it returns false.
func (p *linePattern) each(b []byte, yield func(hit) bool) {
	if len(p.literal) > 0 && !bytes.Contains(b, p.literal) {
		return
	}
	for pos := 0; pos < len(b); {
		from := pos
		if len(p.literal) > 0 && !p.multiline { // the next line that can match
			i := bytes.Index(b[pos:], p.literal)
			if i < 0 {
				return
			}
			from = lineStart(b, pos+i)
			end := lineEnd(b, pos+i)
			if !p.re.Match(b[from:end]) {
				pos = end + 1
				continue
			}
			if !yield(hit{from, end}) {
				return
			}
			pos = end + 1
			continue
		}
		m := p.re.FindIndex(b[from:])
		if m == nil {
			return
		}
		h := hit{lineStart(b, from+m[0]), lineEnd(b, max(from+m[0], from+m[1]-1))}
		if h.start >= len(b) && len(b) > 0 && b[len(b)-1] == '\n' {
			return // an empty match after the last line is no line
		}
		if !yield(h) {
			return
		}
		pos = h.end + 1
	}
}

func lineStart(b []byte, i int) int { return bytes.LastIndexByte(b[:i], '\n') + 1 }

func lineEnd(b []byte, i int) int {
	if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(b)
}

// searchRemedy helps with a pattern that RE2 refuses.
func searchRemedy(pattern string) string {
	if strings.Contains(pattern, "(?=") || strings.Contains(pattern, "(?!") || strings.Contains(pattern, "(?<") || strings.Contains(pattern, `\1`) {
		return "look-around and back-references do not exist in RE2; search for a simpler pattern and filter"
	}
	return `escape characters that are meant literally: \( \[ \{ \. \* \+ \?`
}

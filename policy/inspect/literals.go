package inspect

import (
	"regexp"
	"strings"
)

// constants are the names that code gives a literal or a list of literals:
// cmd = "rm -rf /".
type constants map[string][]string

var (
	namesLiteral = regexp.MustCompile(`(?m)(?:^|[;{]|\b(?:const|let|var|my|our|local)\s)\s*[$@]?(\w+)\s*(?::\s*\w+\s*)?(?::=|=)\s*([rbuf]{0,2}['"` + "`" + `\[(])`)
	listItem     = regexp.MustCompile(`^\s*[rbuf]{0,2}(['"])`)
)

func constantsOf(text string) constants {
	c := constants{}
	for _, at := range namesLiteral.FindAllStringSubmatchIndex(text, 200) {
		name, from := text[at[2]:at[3]], at[5]-1
		switch text[from] {
		case '[', '(':
			if !listItem.MatchString(text[from+1:]) {
				continue
			}
			args := c.arguments(text[from+1:], 1)
			if len(args.lits) > 0 && !args.loose {
				c[name] = args.lits
			}
		default:
			s, _ := literal(text[from:])
			c[name] = []string{s}
		}
	}
	return c
}

// arguments are the literals among the arguments of a call.
type arguments struct {
	lits  []string
	list  bool // they stand in a list
	loose bool // the first argument is not, or not only, a literal
}

// argumentsOf reads the arguments that begin after head, which may end with the
// opening parenthesis or with the first quote.
func (c constants) argumentsOf(head, rest string) arguments {
	depth := 1
	if t := strings.TrimSpace(head); !strings.HasSuffix(t, "(") {
		depth = 0
		if t != "" && strings.ContainsRune(`'"q`, rune(t[len(t)-1])) {
			rest = t[len(t)-1:] + rest
		}
	}
	return c.arguments(rest, depth)
}

// arguments reads literals up to the parenthesis that closes depth, or for
// depth 0 to the end of the statement.
func (c constants) arguments(rest string, depth int) arguments {
	r := reader{names: c, rest: rest[:min(len(rest), maxText)]}
	for r.at < len(r.rest) {
		switch ch := r.rest[r.at]; {
		case ch == '(' || ch == '{':
			depth++
		case ch == ')' || ch == '}' || ch == ']' && depth == 1 && !r.list:
			if depth--; depth <= 0 {
				return r.arguments
			}
		case ch == '[':
			r.list = r.list || len(r.lits) <= 1
		case (ch == ';' || ch == '\n') && depth == 0:
			return r.arguments
		case ch == '+' || ch == '.':
			r.joined = true
		case ch == ',':
			r.joined, r.keyword = false, false
		case ch == '\'' || ch == '"' || ch == '`':
			s, n := literal(r.rest[r.at:])
			r.add(s)
			r.at += n - 1
		case nameByte(ch):
			r.name()
			continue
		}
		r.at++
	}
	return r.arguments
}

// reader goes through the arguments of one call.
type reader struct {
	arguments
	names   constants
	rest    string
	at      int
	joined  bool // what comes is appended to the literal before
	keyword bool // what comes is the value of a keyword argument
}

func (r *reader) add(s string) {
	switch {
	case r.keyword:
	case r.joined && len(r.lits) > 0:
		r.lits[len(r.lits)-1] += s
	default:
		r.lits = append(r.lits, s)
	}
	r.joined = false
}

func nameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// name reads one name and goes on behind it.
func (r *reader) name() {
	from := r.at
	for r.at < len(r.rest) && nameByte(r.rest[r.at]) {
		r.at++
	}
	word, after := strings.TrimLeft(r.rest[from:r.at], "$"), r.rest[r.at:]
	if word == "q" || word == "qq" || word == "qw" {
		if s, n := perlQuote(r.rest[from:]); n > 0 {
			r.add(s)
			r.at = from + n
			return
		}
	}
	next := strings.TrimLeft(after, " ")
	switch value := r.names[word]; {
	case len(word) <= 2 && strings.Trim(word, "rbufRBUF") == "" && after != "" && (after[0] == '\'' || after[0] == '"'):
		// the prefix of a string
	case strings.HasPrefix(next, "=") && !strings.HasPrefix(next, "==") && !strings.HasPrefix(next, "=>"):
		r.keyword = true
	case r.keyword:
	case len(value) > 0:
		r.list = r.list || len(value) > 1
		for _, s := range value {
			r.add(s)
		}
	default:
		r.loose = r.loose || len(r.lits) == 0
	}
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
	if strings.HasPrefix(s, "qq") || strings.HasPrefix(s, "qw") {
		at = 2
	}
	if at >= len(s) {
		return "", 0
	}
	closing := map[byte]byte{'{': '}', '(': ')', '[': ']', '<': '>', '/': '/', '|': '|', '!': '!'}[s[at]]
	if closing == 0 {
		return "", 0
	}
	depth := 0
	for i := at; i < len(s); i++ {
		switch {
		case s[i] == closing && (depth == 1 || closing == s[at] && i > at):
			return s[at+1 : i], i + 1
		case s[i] == closing:
			depth--
		case s[i] == s[at]:
			depth++
		}
	}
	return "", 0
}

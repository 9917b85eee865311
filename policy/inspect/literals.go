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
		if t != "" && (t[len(t)-1] == '\'' || t[len(t)-1] == '"') {
			rest = t[len(t)-1:] + rest
		}
	}
	return c.arguments(rest, depth)
}

// arguments reads literals up to the parenthesis that closes depth, or for
// depth 0 to the end of the statement.
func (c constants) arguments(rest string, depth int) (a arguments) {
	joined, keyword := false, false
	add := func(s string) {
		switch {
		case keyword:
		case joined && len(a.lits) > 0:
			a.lits[len(a.lits)-1] += s
		default:
			a.lits = append(a.lits, s)
		}
		joined = false
	}
	for i := 0; i < len(rest) && i < maxText; i++ {
		switch ch := rest[i]; {
		case ch == '(' || ch == '{':
			depth++
		case ch == ')' || ch == '}' || ch == ']' && depth == 1 && !a.list:
			if depth--; depth <= 0 {
				return a
			}
		case ch == '[':
			a.list = a.list || len(a.lits) <= 1
		case (ch == ';' || ch == '\n') && depth == 0:
			return a
		case ch == '+' || ch == '.':
			joined = true
		case ch == ',':
			joined, keyword = false, false
		case ch == '\'' || ch == '"' || ch == '`':
			s, n := literal(rest[i:])
			add(s)
			i += n - 1
		case nameByte(ch):
			n := i
			for n < len(rest) && nameByte(rest[n]) {
				n++
			}
			i = c.name(&a, rest, i, n, &keyword, add) - 1
		}
	}
	return a
}

func nameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// name reads one name among arguments and returns where to go on.
func (c constants) name(a *arguments, rest string, from, to int, keyword *bool, add func(string)) int {
	word := strings.TrimLeft(rest[from:to], "$")
	after := ""
	if to < len(rest) {
		after = rest[to:]
	}
	if s, n := perlQuote(rest[from:]); (word == "q" || word == "qq" || word == "qw") && n > 0 {
		add(s)
		return from + n
	}
	trimmed := strings.TrimLeft(after, " ")
	switch {
	case len(word) <= 2 && strings.Trim(word, "rbufRBUF") == "" && after != "" && (after[0] == '\'' || after[0] == '"'):
		// the prefix of a string
	case strings.HasPrefix(trimmed, "=") && !strings.HasPrefix(trimmed, "==") && !strings.HasPrefix(trimmed, "=>"):
		*keyword = true
	case *keyword:
	case len(c[word]) == 1:
		add(c[word][0])
	case len(c[word]) > 1:
		a.list = true
		for _, s := range c[word] {
			add(s)
		}
	default:
		a.loose = a.loose || len(a.lits) == 0
	}
	return to
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

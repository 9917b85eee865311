package inspect

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"sallyport/policy"
	"sallyport/policy/secret"
)

// secretRule is one credential format. Its literal prefix is looked for first,
// so that text without one costs a scan for substrings only.
type secretRule struct {
	id     string
	prefix string
	re     *regexp.Regexp
}

// secretRules are the strict forms of secret.Formats, anchored on literals that
// their issuers document.
var secretRules = strictForms()

func strictForms() (out []secretRule) {
	for _, f := range secret.Formats() {
		if f.Strict != "" {
			out = append(out, secretRule{"secret." + f.Finding, f.Literal, regexp.MustCompile(f.Strict)})
		}
	}
	return out
}

// secretWords are what names of secrets hold, in lower case.
var secretWords = []string{
	"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "private_key", "private-key", "privatekey", "access_key", "access-key", "accesskey",
	"auth_key", "auth-key", "authkey", "credential",
}

// assigned finds the value given to a name, from the secret word in it on.
var assigned = regexp.MustCompile(`^[\w-]{4,12}[\w.-]{0,20}["']?\s{0,4}(?::=|=>|[:=])\s{0,4}["'` + "`" + `]?([A-Za-z0-9+/_=.~!@#%^&*-]{16,200})`)

// entropyBar is in bits per character: random base64 of 20 characters or more
// lies above it, identifiers and words below.
const entropyBar = 3.6

type secretAt struct {
	rule     string
	from, to int
}

// locate finds every secret of a text.
func locate(text string) (out []secretAt) {
	for _, r := range secretRules {
		if !strings.Contains(text, r.prefix) {
			continue
		}
		for _, at := range r.re.FindAllStringIndex(text, 50) {
			if !placeholder(text[at[0]:at[1]]) {
				out = append(out, secretAt{r.id, at[0], at[1]})
			}
		}
	}
	out = append(out, assignments(text, out)...)
	slices.SortFunc(out, func(a, b secretAt) int { return a.from - b.from })
	return out
}

// assignments finds the values that look drawn and are given to names that
// sound like secrets.
func assignments(text string, found []secretAt) (out []secretAt) {
	lower := lowered(text)
	for _, word := range secretWords {
		for from := 0; len(out) < maxFindings; {
			i := strings.Index(lower[from:], word)
			if i < 0 {
				break
			}
			at := from + i
			from = at + len(word)
			m := assigned.FindStringSubmatchIndex(text[at:min(at+300, len(text))])
			if m == nil {
				continue
			}
			v := text[at+m[2] : at+m[3]]
			if random(v) && !placeholder(v) && !covered(found, at+m[2]) && !covered(out, at+m[2]) {
				out = append(out, secretAt{"secret.assigned", at + m[2], at + m[3]})
			}
		}
	}
	return out
}

// lowered is a text with ASCII letters in lower case, byte for byte.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func covered(found []secretAt, at int) bool {
	for _, f := range found {
		if at >= f.from && at < f.to {
			return true
		}
	}
	return false
}

// secrets are the findings of locate, masked.
func secrets(text string) (out []policy.Finding) {
	for _, s := range locate(text) {
		out = append(out, policy.Finding{
			Rule: s.rule, Severity: "high", Line: 1 + strings.Count(text[:s.from], "\n"), Text: masked(text[s.from:s.to]),
		})
	}
	return out
}

// masked keeps the first four characters of a secret.
func masked(s string) string {
	if len(s) <= 8 {
		return "****"
	}
	return s[:4] + "****"
}

// mask replaces the secrets of a text.
func mask(text string) string {
	var b strings.Builder
	last := 0
	for _, s := range locate(text) {
		if s.from < last {
			continue
		}
		b.WriteString(text[last:s.from])
		b.WriteString(masked(text[s.from:s.to]))
		last = s.to
	}
	return b.String() + text[last:]
}

// placeholder reports whether a value stands for a secret rather than being
// one.
func placeholder(v string) bool {
	l := strings.ToLower(v)
	for _, p := range []string{"example", "xxxx", "your", "changeme", "placeholder", "dummy", "redacted", "****", "process.env", "os.environ", "getenv", "secrets.", "test-token", "1234567890", "<", "${", "fake", ":password@", ":passwd@", ":postgres@", ":secret@", "@localhost", "@127.0.0.1"} {
		if strings.Contains(l, p) {
			return true
		}
	}
	return false
}

// random reports whether a value looks drawn rather than written: letters and
// digits mixed, high entropy.
func random(v string) bool {
	digits, letters := 0, 0
	for _, r := range v {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		}
	}
	return digits >= 2 && letters >= 4 && entropy(v) >= entropyBar
}

func entropy(s string) float64 {
	var n [256]int
	for i := range len(s) {
		n[s[i]]++
	}
	e := 0.0
	for _, c := range n {
		if c > 0 {
			p := float64(c) / float64(len(s))
			e -= p * math.Log2(p)
		}
	}
	return e
}

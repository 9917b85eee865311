package audit

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"regexp"
	"slices"
	"strings"
)

// shortestSecret is the length below which nothing is taken for a secret unless
// its name says so: shorter values occur everywhere.
const shortestSecret = 8

// knownSecrets finds exact values and their base64 and hex forms.
type knownSecrets struct{ forms []string }

// newKnownSecrets prepares values; those too short to be told from ordinary
// text are left out.
func newKnownSecrets(values []string) *knownSecrets {
	k := &knownSecrets{}
	for _, v := range values {
		v = strings.TrimSpace(v)
		if len(v) < shortestSecret {
			continue
		}
		h := hex.EncodeToString([]byte(v))
		k.forms = append(k.forms, v, h, strings.ToUpper(h))
		for shift := range 3 {
			k.forms = append(k.forms, innerBase64(v, shift, base64.StdEncoding), innerBase64(v, shift, base64.URLEncoding))
		}
	}
	slices.SortFunc(k.forms, func(a, b string) int { return len(b) - len(a) })
	k.forms = slices.Compact(k.forms)
	return k
}

// innerBase64 is the part of a base64 text that v alone decides when shift
// bytes stand before it.
func innerBase64(v string, shift int, enc *base64.Encoding) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
	from := []int{0, 2, 3}[shift]
	whole := (shift + len(v)) / 3 * 4
	return text[from:whole]
}

func (k *knownSecrets) find(text string, hits []hit) []hit {
	for _, form := range k.forms {
		for at := 0; ; {
			i := strings.Index(text[at:], form)
			if i < 0 {
				break
			}
			hits = append(hits, hit{at + i, at + i + len(form), "known"})
			at += i + len(form)
		}
	}
	return hits
}

// secretWords are parts of names whose values are secrets, in lower case and
// without separators.
var secretWords = []string{
	"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "signingkey",
	"encryptionkey", "credential", "authorization", "accesstoken", "authtoken", "refreshtoken", "bearer",
	"cookie", "connectionstring", "clientassertion",
}

var nameSeparators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// secretName reports whether a name tells that its value is secret.
func secretName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	n := nameSeparators.Replace(strings.ToLower(name))
	switch n {
	case "auth", "pwd", "pass", "token", "sessionid", "csrf", "otp", "pin", "salt":
		return true
	}
	if strings.HasSuffix(n, "token") || strings.HasSuffix(n, "pwd") || strings.HasSuffix(n, "dsn") {
		return true
	}
	for _, w := range secretWords {
		if strings.Contains(n, w) {
			return !strings.HasPrefix(n, "reads") && !strings.HasSuffix(n, "path") && !strings.HasSuffix(n, "file") &&
				!strings.HasSuffix(n, "name") && !strings.HasSuffix(n, "id")
		}
	}
	return false
}

// harmlessValue reports whether a value cannot be the secret that its name
// promises: a variable, a template, a placeholder, a word of a schema.
func harmlessValue(v string) bool {
	switch strings.ToLower(v) {
	case "", "true", "false", "null", "none", "nil", "undefined", "string", "str", "number", "bool", "optional", "required", "redacted":
		return true
	}
	if strings.HasPrefix(v, "[redacted:") && strings.HasSuffix(v, "]") && strings.Count(v, "[") == 1 {
		return true
	}
	return strings.HasPrefix(v, "$") || strings.HasPrefix(v, "{{") || strings.HasPrefix(v, "%(") ||
		strings.HasPrefix(v, "<") && strings.HasSuffix(v, ">") || strings.Trim(v, "*xX.-_") == ""
}

// assigned finds NAME=value, name: "value", --name value and the like. Group 1
// is the name, 2 the quoted value, 3 the bare one.
var assigned = regexp.MustCompile(`(?i)([a-z0-9_.-]{0,40}(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|credentials?|authorization)[a-z0-9_]{0,20})["']?(?:\s{0,3}(?::=|=>|=|:)\s{0,3}|\s)(?:\\?["'` + "`" + `]([^"'` + "`" + `\\\n]{4,512})\\?["'` + "`" + `]|([^\s"'` + "`" + `,;(){}\[\]<>|&\\]{6,512})(\(?))`)

// assignedHints are what every match of assigned contains; most texts have none
// and are spared the expression.
var assignedHints = []string{"passw", "pwd", "secret", "token", "key", "credential", "passphrase", "authorization"}

func findAssigned(text string, hits []hit) []hit {
	lower := strings.ToLower(text)
	if len(lower) != len(text) || !slices.ContainsFunc(assignedHints, func(h string) bool { return strings.Contains(lower, h) }) {
		return hits
	}
	for _, m := range assigned.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		if !secretName(strings.TrimLeft(name, "-.")) {
			continue
		}
		if m[4] >= 0 {
			if !harmlessValue(text[m[4]:m[5]]) {
				hits = append(hits, hit{m[4], m[5], "name"})
			}
			continue
		}
		value, between := text[m[6]:m[7]], text[m[3]:m[6]]
		if bareSecret(name, between, value) && m[8] == m[9] {
			hits = append(hits, hit{m[6], m[7], "name"})
		}
	}
	return hits
}

// bareSecret decides on a value without quotes, which in program text is more
// often an identifier than a secret.
func bareSecret(name, between, value string) bool {
	if harmlessValue(value) || strings.Contains(value, "://") && !strings.Contains(value, "@") {
		return false
	}
	digit := strings.ContainsAny(value, "0123456789")
	if between == " " || between == "\t" { // "--token abc123": only after a flag
		return strings.HasPrefix(name, "-") || digit && len(value) >= 12 && shannon(value) > 3
	}
	return digit || between == "=" && name == strings.ToUpper(name)
}

// token is a run of characters that secrets are made of.
var randomToken = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,128}={0,2}`)

// findRandom finds strings that are too random for a word, a path or a name.
// Digests, commit ids and UUIDs have one case of letters only and are never
// taken; checksums of packages are known by what stands before them.
func findRandom(text string, hits []hit) []hit {
	if len(text) < 24 {
		return hits
	}
	for _, m := range randomToken.FindAllStringIndex(text, -1) {
		tok := text[m[0]:m[1]]
		if m[1] < len(text) && wordByte(text[m[1]]) || !looksRandom(tok) || checksumBefore(text[:m[0]], tok) {
			continue
		}
		hits = append(hits, hit{m[0], m[1], "random"})
	}
	return hits
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '_' || c == '-'
}

// checksumBefore knows package checksums (npm and browsers: sha512-…, go.sum:
// h1:…) and what follows a data URL's "base64,".
func checksumBefore(before, tok string) bool {
	for _, p := range []string{"sha1-", "sha256-", "sha384-", "sha512-"} {
		if strings.HasPrefix(tok, p) {
			return true
		}
	}
	for _, p := range []string{"h1:", "base64,", "sha256:", "SHA256:", "sha512:"} {
		if strings.HasSuffix(before, p) {
			return true
		}
	}
	return false
}

// looksRandom asks for all of: capitals, small letters and digits; changes
// between these as often as in random text (0.62 of all places in base64); digits
// in several places, which CamelCase names have not; and entropy.
func looksRandom(tok string) bool {
	var kinds, runs [4]int
	changes, last := 0, -1
	for i := range len(tok) {
		k := 3
		switch c := tok[i]; {
		case c >= 'a' && c <= 'z':
			k = 0
		case c >= 'A' && c <= 'Z':
			k = 1
		case c >= '0' && c <= '9':
			k = 2
		}
		kinds[k]++
		if k != last {
			changes++
			runs[k]++
		}
		last = k
	}
	return kinds[0] >= 3 && kinds[1] >= 3 && runs[2] >= 3 && kinds[3]*6 <= len(tok) &&
		float64(changes) >= 0.4*float64(len(tok)) && shannon(tok) >= 3.8
}

// shannon is the entropy of a text in bits a byte.
func shannon(text string) float64 {
	var count [256]int
	for i := range len(text) {
		count[text[i]]++
	}
	h := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(text))
			h -= p * math.Log2(p)
		}
	}
	return h
}

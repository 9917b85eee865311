package audit

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	"sallyport/policy/secret"
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

// secretName reports whether a name tells that its value is secret.
func secretName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	var buf [64]byte
	letters := buf[:0]
	for i := range len(name) {
		if c := name[i]; c != '_' && c != '-' && c != '.' && c != ' ' {
			letters = append(letters, lowered[c])
		}
	}
	n := string(letters)
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

// assignedHints are in every name that findAssigned looks at.
var assignedHints = []string{
	"passw", "passphrase", "pwd", "secret", "token", "credential", "authorization", "apikey", "api_key", "api-key",
	"accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "signing_key", "signing-key",
}

// findAssigned finds the values of NAME=value, name: "value", --name value and
// the like, where the name tells of a secret. It is a parser and no expression,
// which would run at 1 MB/s.
func findAssigned(text string, hits []hit) []hit {
	if may := literalFilter().in(text); !may.hints() {
		return hits
	}
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return hits // letters whose lower case has another length: rare, and never in names
	}
	for _, hint := range assignedHints {
		for at := 0; ; {
			i := strings.Index(lower[at:], hint)
			if i < 0 {
				break
			}
			from, to := nameAround(text, at+i, len(hint))
			at = to
			if h, ok := assignedValue(text, from, to); ok {
				hits = append(hits, h)
				at = h.to
			}
		}
	}
	return hits
}

// nameAround extends a hint to the name that it is in.
func nameAround(text string, at, n int) (from, to int) {
	inName := func(c byte) bool { return wordByte(c) && c != '+' && c != '/' || c == '.' }
	from, to = at, at+n
	for from > 0 && at-from < 64 && inName(text[from-1]) {
		from--
	}
	for to < len(text) && to-at < 64 && inName(text[to]) {
		to++
	}
	return from, to
}

// assignedValue is the value that follows the name text[from:to].
func assignedValue(text string, from, to int) (hit, bool) {
	name := text[from:to]
	flag := strings.HasPrefix(name, "-")
	if !secretName(strings.TrimLeft(name, "-.")) {
		return hit{}, false
	}
	at := to
	skip := func(set string, most int) (n int) {
		for ; n < most && at < len(text) && strings.IndexByte(set, text[at]) >= 0; n++ {
			at++
		}
		return n
	}
	skip("\\", 1)
	skip("\"'", 1)
	blanks := skip(" \t", 3)
	operator := skip(":=>", 2)
	tight := blanks == 0 && operator == 1 && text[at-1] == '='
	if operator == 0 && (!flag || blanks == 0) {
		return hit{}, false
	}
	skip(" \t", 3)
	skip("\\", 1)
	start := at
	if skip("\"'`", 1) == 1 {
		end := strings.IndexAny(text[at:], text[start:at]+"\\\n")
		if end < 4 || harmlessValue(text[at:at+end]) {
			return hit{}, false
		}
		return hit{at, at + end, "name"}, true
	}
	end := strings.IndexAny(text[at:], " \t\r\n\"'`,;(){}[]<>|&\\")
	if end < 0 {
		end = len(text) - at
	}
	value := text[at : at+end]
	called := at+end < len(text) && text[at+end] == '('
	if len(value) < 6 || called || strings.HasPrefix(value, "-") || !bareSecret(name, value, tight, flag) {
		return hit{}, false
	}
	return hit{at, at + end, "name"}, true
}

// bareSecret decides on a value without quotes, which in program text is more
// often an identifier than a secret. Tight means NAME=value, flag that the name is --name.
func bareSecret(name, value string, tight, flag bool) bool {
	if harmlessValue(value) || strings.Contains(value, "://") && !strings.Contains(value, "@") {
		return false
	}
	return flag || strings.ContainsAny(value, "0123456789") || tight && name == strings.ToUpper(name)
}

// findRandom finds strings that are too random for a word, a path or a name.
// Digests, commit ids and UUIDs have one case of letters only and are never
// taken; checksums of packages are known by what stands before them.
func findRandom(text string, hits []hit) []hit {
	for at := 0; at < len(text); at++ {
		if !wordByte(text[at]) {
			continue
		}
		from := at
		for at < len(text) && wordByte(text[at]) {
			at++
		}
		tok := text[from:at]
		if len(tok) < 24 || len(tok) > 128 || !looksRandom(tok) || checksumBefore(text[:from], tok) {
			continue
		}
		hits = append(hits, hit{from, at, "random"})
	}
	return hits
}

func wordByte(c byte) bool { return wordBytes[c] }

var wordBytes = func() (t [256]bool) {
	for _, c := range []byte(secret.Token + "+/") {
		t[c] = true
	}
	return t
}()

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
	return kinds[0] >= 3 && kinds[1] >= 3 && runs[2] >= 3 && strings.Count(tok, "_") < 3 && kinds[3]*6 <= len(tok) &&
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

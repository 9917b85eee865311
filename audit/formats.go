package audit

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"

	"sallyport/policy/secret"
)

// format is a secret that starts with a fixed prefix. After it come at least
// min bytes of set.
type format struct {
	rule, prefix, set string
	min               int
}

// formats and shapes are the loose forms of secret.Formats.
var formats, shapes = looseForms()

func looseForms() (f []format, s []shape) {
	for _, one := range secret.Formats() {
		switch {
		case one.Set != "":
			f = append(f, format{one.Kind, one.Literal, one.Set, one.Min})
		case one.Loose != "":
			s = append(s, shape{one.Kind, one.Literal, regexp.MustCompile(one.Loose)})
		}
	}
	return f, s
}

// shortestFormat is a lower bound of what formats and shapes match: a URL with
// one-letter names, x://a:bcd@.
const shortestFormat = 10

// shape is a secret that a prefix alone does not tell. Group 1, where there is
// one, is the secret.
type shape struct {
	rule, literal string // every match contains the literal, of three bytes at least
	re            *regexp.Regexp
}

func findFormats(text string, hits []hit) []hit {
	if len(text) < shortestFormat {
		return hits
	}
	may := literalFilter().in(text)
	may.part(0, len(formats), func(i int) { hits = formats[i].find(text, hits) })
	may.part(len(formats), len(shapes), func(i int) { hits = shapes[i].find(text, hits) })
	return hits
}

func (s *shape) find(text string, hits []hit) []hit {
	if strings.Contains(text, s.literal) {
		for _, m := range s.re.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[0], m[1]
			if len(m) > 2 {
				from, to = m[2], m[3]
			}
			if !harmlessValue(text[from:to]) && (s.literal != "asic " || basicAuth(text[from:to])) {
				hits = append(hits, hit{from, to, s.rule})
			}
		}
	}
	return hits
}

// basicAuth reports whether a text is base64 of user:password.
func basicAuth(text string) bool {
	plain, err := base64.StdEncoding.DecodeString(text)
	return err == nil && bytes.IndexByte(plain, ':') > 0
}

func (f *format) find(text string, hits []hit) []hit {
	for at := 0; ; {
		i := strings.Index(text[at:], f.prefix)
		if i < 0 {
			return hits
		}
		from := at + i
		to := from + len(f.prefix)
		for to < len(text) && strings.IndexByte(f.set, text[to]) >= 0 {
			to++
		}
		at = max(to, from+1)
		if to-from-len(f.prefix) < f.min || from > 0 && strings.IndexByte(secret.Alnum, text[from-1]) >= 0 && wordByte(f.prefix[0]) {
			continue
		}
		if f.rule == "jwt" && strings.Count(text[from:to], ".") < 2 {
			continue
		}
		hits = append(hits, hit{from, to, f.rule})
	}
}

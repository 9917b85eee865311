package audit

import (
	"encoding/json"
	"math/bits"
	"strings"
	"sync"
	"unicode/utf8"
)

// prefilter tells in one pass over a text which literals may occur in it, by
// their first three bytes in small letters. Most texts have none, and then nothing
// is looked for.
type prefilter struct {
	any   [1 << 13 / 64]uint64
	which map[uint16]literals
}

// literals is a set of formats, shapes and hints: bit n is number n of the three
// lists one after the other.
type literals [2]uint64

func (l *literals) add(o literals) {
	l[0] |= o[0]
	l[1] |= o[1]
}

// part is the members of the set from number from on, count of them, as indexes
// into their list.
func (l literals) part(from, count int, do func(i int)) {
	for w, word := range l {
		for ; word != 0; word &= word - 1 {
			if i := w*64 + bits.TrailingZeros64(word) - from; i >= 0 && i < count {
				do(i)
			}
		}
	}
}

// hints reports whether one of assignedHints is in the set.
func (l literals) hints() (any bool) {
	l.part(len(formats)+len(shapes), len(assignedHints), func(int) { any = true })
	return any
}

// literalFilter covers formats, shapes and assignedHints.
var literalFilter = sync.OnceValue(func() *prefilter {
	p := &prefilter{which: map[uint16]literals{}}
	n := 0
	add := func(literal string) {
		h := trigram(lowered[literal[0]], lowered[literal[1]], lowered[literal[2]])
		set := p.which[h]
		set[n/64] |= 1 << (n % 64)
		p.which[h] = set
		p.any[h/64] |= 1 << (h % 64)
		n++
	}
	for i := range formats {
		add(formats[i].prefix)
	}
	for i := range shapes {
		add(shapes[i].literal)
	}
	for _, hint := range assignedHints {
		add(hint)
	}
	return p
})

// lowered maps capitals to small letters and leaves other bytes.
var lowered = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	for c := 'A'; c <= 'Z'; c++ {
		t[c] = byte(c) - 'A' + 'a'
	}
	return t
}()

func trigram(a, b, c byte) uint16 {
	return uint16((uint32(a)|uint32(b)<<8|uint32(c)<<16)*2654435761>>19) & (1<<13 - 1)
}

// in is what may be in a text.
func (p *prefilter) in(text string) (found literals) {
	if len(text) < 3 {
		return found
	}
	a, b := lowered[text[0]], lowered[text[1]]
	for i := 2; i < len(text); i++ {
		c := lowered[text[i]]
		if h := trigram(a, b, c); p.any[h/64]>>(h%64)&1 != 0 {
			found.add(p.which[h])
		}
		a, b = b, c
	}
	return found
}

// clean reports whether nothing in a JSON value would be redacted, without
// building the value. It says false where it is not sure: for strings with \u,
// names that tell of secrets, and what is not plain JSON in UTF-8.
func (r *Reader) clean(raw json.RawMessage) bool {
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return false
	}
	text := string(raw)
	for {
		open := strings.IndexByte(text, '"')
		if open < 0 {
			return true
		}
		text = text[open+1:]
		end, escaped := stringEnd(text)
		s := text[:end]
		text = text[end+1:]
		if escaped {
			if strings.Contains(s, `\u`) {
				return false
			}
			s = unescaped.Replace(s)
		}
		if isKey := strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), ":"); isKey && secretName(s) {
			return false
		}
		if len(s) > longestText || r.suspicious(s) {
			return false
		}
	}
}

// unescaped undoes the short escapes of JSON strings, longest match first from
// the left, so that a backslash that is escaped escapes nothing.
var unescaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\/`, `/`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\b`, "\b", `\f`, "\f")

// stringEnd is where a JSON string ends whose opening quote is before text, and
// whether there are escapes in it.
func stringEnd(text string) (end int, escaped bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return len(text) - 1, true // cannot be: the text is valid JSON
}

// suspicious reports whether redactText may replace something in a text.
func (r *Reader) suspicious(text string) bool {
	if len(text) < shortestSecret {
		return false
	}
	if _, ok := encodedText(text); ok {
		return true
	}
	return len(findRandom(text, findAssigned(text, r.knownHits(text)))) > 0
}

package approval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible writes text so that a person sees every character there is: control,
// invisible, bidirectional and unusual space characters appear as ‹U+202E›,
// bytes that are not UTF-8 as ‹FF›, and a letter of another alphabet that may pose
// as a Latin one is followed by its code. The result is one line.
func Visible(s string) string { return visible(s, false) }

// VisibleText is Visible for text of several lines: newlines and tabs stay.
func VisibleText(s string) string { return visible(s, true) }

func visible(s string, lines bool) string {
	if plainASCII(s, lines) {
		return s
	}
	latin := strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	v := writer{lines: lines}
	for len(s) > 0 {
		n := letters(s)
		v.letters(s[:n], disguised(s[:n], latin))
		s = s[n:]
		if len(s) > 0 {
			r, n := utf8.DecodeRuneInString(s)
			v.other(r, s[:n])
			s = s[n:]
		}
	}
	return v.String()
}

func plainASCII(s string, lines bool) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c >= 0x7f) && !(lines && (c == '\n' || c == '\t')) {
			return false
		}
	}
	return true
}

// writer builds the visible form.
type writer struct {
	strings.Builder
	lines bool
	prev  rune // the last character taken
}

func (v *writer) letters(run string, disguise bool) {
	for _, r := range run {
		switch {
		case hidden(r):
			fmt.Fprintf(v, "‹U+%04X›", r)
		case disguise && unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r):
			fmt.Fprintf(v, "%c‹U+%04X›", r, r)
		default:
			v.WriteRune(r)
		}
		v.prev = r
	}
}

// other writes a character that is neither letter nor digit; raw are its bytes.
func (v *writer) other(r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(v, "‹%02X›", raw[0])
	case v.lines && (r == '\n' || r == '\t'):
		v.WriteRune(r)
	case hidden(r), unicode.In(r, unicode.Mn, unicode.Me) && !carriesMarks(v.prev):
		fmt.Fprintf(v, "‹U+%04X›", r)
	default:
		v.WriteRune(r)
	}
	v.prev = r
}

// styledLatin are the blocks of Latin letters that no orthography needs in code:
// phonetic, letter-like, mathematical and full-width forms.
var styledLatin = &unicode.RangeTable{
	R16: []unicode.Range16{{0x0250, 0x02AF, 1}, {0x1D00, 0x1DBF, 1}, {0x2100, 0x214F, 1}, {0xAB30, 0xAB6F, 1}, {0xFF21, 0xFF5A, 1}},
	R32: []unicode.Range32{{0x1D400, 0x1D7FF, 1}, {0x1F130, 0x1F189, 1}},
}

// carriesMarks reports letters of the scripts that are written with combining
// marks. On any other character a mark is a disguise or decomposed text.
func carriesMarks(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M) && !unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Greek)
}

// hidden reports characters that do not show, or show as something they are not.
func hidden(r rune) bool {
	switch {
	case r == ' ':
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Cs, r):
		return true
	case unicode.Is(unicode.Z, r): // every space that is not U+0020, line separators
		return true
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	case r == '\u2800', r == '\uFFFC': // braille blank, object replacement
		return true
	case unicode.Is(styledLatin, r):
		return true
	}
	return !unicode.IsGraphic(r)
}

// lookalike are the Cyrillic and Greek letters that a font draws as Latin ones.
const lookalike = "аеорсухіјѕԁһԛԝкмтнвАВЕЅІЈКМНОРСТУХ" + "οανικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"

// disguised reports a run of letters that may pose as a Latin word: it mixes
// Latin letters with others, or all its letters look Latin in a text that has
// Latin letters elsewhere.
func disguised(letters string, latinElsewhere bool) bool {
	latin, other, posing := false, false, true
	for _, r := range letters {
		switch {
		case unicode.Is(unicode.Latin, r):
			latin = true
		case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu, unicode.Hebrew, unicode.Georgian):
			other = true
			posing = posing && strings.ContainsRune(lookalike, r)
		default:
			posing = false
		}
	}
	return other && (latin || posing && latinElsewhere)
}

// letters is the length of the run of letters and digits that s begins with.
func letters(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	return n
}

// Quote writes an argument vector as a POSIX shell would need it typed.
func Quote(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = quote(a)
	}
	return strings.Join(out, " ")
}

func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package inspect

import (
	"strconv"
	"strings"
	"unicode"
)

// strange tells what of an argument a person would not see, "" for nothing.
func strange(s string) string {
	for i, r := range s {
		switch {
		case r < 0x20 && r != '\n' && r != '\t' || r == 0x7f:
			return "a control character"
		case r < 0x80:
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			return "bytes that are not UTF-8"
		case bidi(r):
			return "a bidirectional control"
		case invisible(r):
			return "an invisible character"
		}
	}
	return ""
}

// strangeName tells why a command name must not be trusted by its looks: any
// character outside ASCII may be a look-alike.
func strangeName(s string) string {
	if r := strange(s); r != "" {
		return r
	}
	for _, r := range s {
		if r >= 0x80 {
			return "a look-alike or non-ASCII character"
		}
		if r == '\n' || r == '\t' {
			return "a control character"
		}
	}
	return ""
}

// bidi are the controls that reorder text (CVE-2021-42574).
func bidi(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x061C || r == 0x200E || r == 0x200F
}

// invisible are characters without a glyph, and the spaces a shell does not
// split at.
func invisible(r rune) bool {
	switch {
	case r >= 0x200B && r <= 0x200D, r == 0x2060, r == 0xFEFF, r == 0x00AD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0:
		return true
	case r == 0x00A0, r == 0x1680, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000, r == 0x2028, r == 0x2029, r == 0x0085:
		return true
	case r >= 0xE0000 && r <= 0xE007F, r >= 0xFE00 && r <= 0xFE0F && r != 0xFE0F, r >= 0x180B && r <= 0x180E, r >= 0x2061 && r <= 0x2064:
		return true
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r)
}

// escaped shows an argument in $'…' form.
func escaped(s string) string {
	q := strconv.QuoteToASCII(s)
	return "$'" + strings.ReplaceAll(q[1:len(q)-1], "'", `\'`) + "'"
}

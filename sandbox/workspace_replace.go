package sandbox

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// replaceText applies e to the content of p and says how often it did.
func replaceText(p string, content []byte, e Edit) ([]byte, int, error) {
	refuse := func(msg, remedy string) ([]byte, int, error) {
		return nil, 0, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("edit %s: %s", p, msg), Remedy: remedy}
	}
	if e.Old == "" {
		return refuse("old_string is empty", "give the exact text to replace; use write_file to create a file")
	}
	if e.Old == e.New {
		return refuse("old_string and new_string are the same", "give a new_string that differs; nothing needs to change otherwise")
	}
	from, to := []byte(e.Old), []byte(e.New)
	if usesCRLF(content) {
		from, to = withCRLF(from), withCRLF(to)
		if bytes.Equal(from, to) {
			return refuse("old_string and new_string differ only in line ends, and the file's are CRLF", "nothing needs to change; use write_file to change line ends")
		}
	}
	n := bytes.Count(content, from)
	switch {
	case n == 0:
		return refuse("old_string not found in the file"+hint(content, e.Old), "read the file again and copy the text exactly, with its indentation and without line numbers")
	case n > 1 && !e.All:
		return refuse(fmt.Sprintf("found %d matches of old_string, lines %s, but replace_all is false", n, matchLines(content, from)),
			"add surrounding lines to old_string until it is unique, or pass replace_all: true to change every match")
	}
	return bytes.ReplaceAll(content, from, to), n, nil
}

// usesCRLF reports whether every line of b ends in CRLF.
func usesCRLF(b []byte) bool {
	n := bytes.Count(b, []byte("\n"))
	return n > 0 && n == bytes.Count(b, []byte("\r\n"))
}

func withCRLF(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// matchLines lists the line numbers of at most ten matches.
func matchLines(content, from []byte) string {
	var nums []string
	line, pos := 1, 0
	for len(nums) < 10 {
		i := bytes.Index(content[pos:], from)
		if i < 0 {
			return strings.Join(nums, ", ")
		}
		line += bytes.Count(content[pos:pos+i], []byte("\n"))
		nums = append(nums, fmt.Sprint(line))
		line += bytes.Count(from, []byte("\n"))
		pos += i + len(from)
	}
	return strings.Join(nums, ", ") + ", …"
}

var numbered = regexp.MustCompile(`^\s*\d+\t`)

// hint says why old may not have been found: line numbers copied along, or a
// place that differs only in whitespace.
func hint(content []byte, old string) string {
	if numbered.MatchString(old) {
		return "; it seems to begin with a line number, which is not part of the file"
	}
	want := squeezed(old)
	if len(want) == 0 {
		return ""
	}
	lines := strings.Split(string(content), "\n")
	for i := range lines {
		if sameWords(lines[i:], want) {
			return fmt.Sprintf("; line %d differs only in whitespace: %q", i+1, clip(lines[i], 200))
		}
	}
	return ""
}

// squeezed is the text's lines, each with its whitespace made uniform, without
// the empty ones.
func squeezed(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if s := strings.Join(strings.Fields(line), " "); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// sameWords reports whether the lines begin with the text of which want is the
// squeezed form. The text may begin and end inside a line.
func sameWords(lines, want []string) bool {
	for i, n := 0, 0; i < len(lines); i++ {
		s := strings.Join(strings.Fields(lines[i]), " ")
		if s == "" && n > 0 {
			continue
		}
		var same bool
		switch {
		case len(want) == 1:
			same = strings.Contains(s, want[0])
		case n == 0:
			same = strings.HasSuffix(s, want[0])
		case n == len(want)-1:
			same = strings.HasPrefix(s, want[n])
		default:
			same = s == want[n]
		}
		if !same {
			return false
		}
		if n++; n == len(want) {
			return true
		}
	}
	return false
}

// clip cuts s to at most n bytes on a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// maxShown bounds each text of a Show, in bytes. A person cannot judge more, and
// the desk's file stays small.
const maxShown = 256 << 10

// maxShownItems bounds each list of a Show.
const maxShownItems = 2000

// Unified is the unified diff of one file, "" when nothing differs.
func Unified(path, before, after string) string {
	return udiff.Unified("a/"+path, "b/"+path, before, after)
}

// bounded is the show with every part cut to what a person and the file can
// bear, and with a sentence in Cut for each part that was.
func (s Show) bounded() Show {
	s.Cut = slices.Clone(s.Cut)
	s.Summary = firstLine(s.Summary)
	text := func(name string, v *string) {
		if len(*v) > maxShown {
			s.Cut = append(s.Cut, fmt.Sprintf("%s: the first %d of %d bytes", name, maxShown, len(*v)))
			*v = cutAt(*v, maxShown)
		}
	}
	text("diff", &s.Diff)
	text("shell text", &s.Shell)
	text("input", &s.Stdin)
	room := maxShown
	for i, arg := range s.Argv {
		if room -= len(arg); room < 0 {
			s.Cut = append(s.Cut, fmt.Sprintf("arguments: the first %d of %d", i, len(s.Argv)))
			s.Argv = s.Argv[:i]
			break
		}
	}
	room = maxShown
	for i, st := range s.Tree {
		if room -= len(st.Text) + len(st.Note); room < 0 {
			s.Cut = append(s.Cut, fmt.Sprintf("commands: the first %d of %d", i, len(s.Tree)))
			s.Tree = s.Tree[:i]
			break
		}
	}
	s.Tree = bound(&s, "commands", s.Tree)
	s.Env = bound(&s, "environment", s.Env)
	s.Files = bound(&s, "files", s.Files)
	s.Net = bound(&s, "network targets", s.Net)
	s.Scripts = bound(&s, "scripts", s.Scripts)
	s.Content = bound(&s, "findings", s.Content)
	return s
}

// redacted is the show with every text passed through redact.
func (s Show) redacted(redact func(string) string) Show {
	was := s.Summary + s.Shell + s.Diff
	s.Summary, s.Shell, s.Diff = redact(s.Summary), redact(s.Shell), redact(s.Diff)
	s.Argv, s.Tree, s.Content = slices.Clone(s.Argv), slices.Clone(s.Tree), slices.Clone(s.Content)
	for i := range s.Argv {
		s.Argv[i] = redact(s.Argv[i])
	}
	for i := range s.Tree {
		s.Tree[i].Text = redact(s.Tree[i].Text)
	}
	for i := range s.Content {
		s.Content[i].Text = redact(s.Content[i].Text)
	}
	if s.Summary+s.Shell+s.Diff != was {
		s.Cut = append(s.Cut, "a value that looks like a secret is shown as a placeholder")
	}
	return s
}

// redactedJSON redacts the strings of a JSON text; one that does not stay JSON
// is left out.
func redactedJSON(raw json.RawMessage, redact func(string) string) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return []byte(`{}`)
	}
	out, err := json.Marshal(redactedValue(v, redact))
	if err != nil {
		return []byte(`{}`)
	}
	return out
}

func redactedValue(v any, redact func(string) string) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = redactedValue(v[i], redact)
		}
	case map[string]any:
		for k := range v {
			v[k] = redactedValue(v[k], redact)
		}
	}
	return v
}

func bound[T any](s *Show, name string, list []T) []T {
	if len(list) <= maxShownItems {
		return list
	}
	s.Cut = append(s.Cut, fmt.Sprintf("%s: the first %d of %d", name, maxShownItems, len(list)))
	return list[:maxShownItems]
}

// maxSummary bounds the one line of a request that lists show, in bytes.
const maxSummary = 160

// firstLine is a summary's first line; an ellipsis tells that there is more.
func firstLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > maxSummary {
		line, more = cutAt(line, maxSummary), true
	}
	if more {
		line += " …"
	}
	return line
}

// cutAt is the longest prefix of whole runes that is at most n bytes.
func cutAt(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:min(n, len(s))]
}

// hosts are the hosts dialled, without repeats.
func (s Show) hosts() []string {
	var out []string
	for _, e := range s.Net {
		if !slices.Contains(out, e.Host) {
			out = append(out, e.Host)
		}
	}
	return out
}

// digest identifies what a person is shown.
func (s Show) digest() string {
	raw, err := json.Marshal(s)
	if err != nil { // a Show holds strings and numbers only
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

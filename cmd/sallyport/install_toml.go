package main

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlTable is one table of a TOML file, as text. A table that stands by its own
// header may be added at the end of any file, so the rest stays as it is.
type tomlTable struct {
	path  []string // "mcp_servers", "sallyport"
	lines []string // key = value
}

// put is the file with the table in it, and whether that changed anything. It
// parses what it made and refuses if anything else reads otherwise than before.
func (t tomlTable) put(doc []byte) ([]byte, bool, error) {
	before, err := parseTOML(doc)
	if err != nil {
		return nil, false, err
	}
	header := "[" + strings.Join(t.path, ".") + "]"
	want, err := parseTOML([]byte(header + "\n" + strings.Join(t.lines, "\n")))
	if err != nil {
		return nil, false, err
	}
	have := pick(before, t.path)
	mine, _ := pick(want, t.path).(map[string]any)
	if have != nil && contains(have, mine) {
		return doc, false, nil
	}
	rest := t.cut(doc)
	var out bytes.Buffer
	out.Write(rest)
	eol := "\n"
	if bytes.Contains(doc, []byte("\r\n")) {
		eol = "\r\n"
	}
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		out.WriteString(eol)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		out.WriteString(eol)
	}
	out.WriteString(header + eol)
	for _, line := range t.lines {
		out.WriteString(line + eol)
	}
	after, err := parseTOML(out.Bytes())
	if err != nil || !reflect.DeepEqual(without(before, t.path), without(after, t.path)) {
		return nil, false, fmt.Errorf("it defines %s in a way that cannot be added to: add this by hand:\n%s\n%s",
			t.path[0], header, strings.Join(t.lines, "\n"))
	}
	return out.Bytes(), true, nil
}

// take is the file without the table.
func (t tomlTable) take(doc []byte) ([]byte, error) {
	before, err := parseTOML(doc)
	if err != nil {
		return nil, err
	}
	out := t.cut(doc)
	after, err := parseTOML(out)
	if err != nil || pick(after, t.path) != nil || !reflect.DeepEqual(without(before, t.path), without(after, t.path)) {
		return nil, fmt.Errorf("it defines %s in a way that cannot be taken out: remove it by hand", strings.Join(t.path, "."))
	}
	return out, nil
}

var tomlHeader = regexp.MustCompile(`^\s*\[\[?\s*([^\]]+?)\s*\]`)

// cut removes the table and its sub-tables with the empty lines before them.
func (t tomlTable) cut(doc []byte) []byte {
	var kept []string
	inside := false
	name := strings.Join(t.path, ".")
	for line := range strings.Lines(string(doc)) {
		if m := tomlHeader.FindStringSubmatch(line); m != nil {
			plain := strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(m[1])
			inside = plain == name || strings.HasPrefix(plain, name+".")
			for inside && len(kept) > 0 && strings.TrimSpace(kept[len(kept)-1]) == "" {
				kept = kept[:len(kept)-1]
			}
		}
		if !inside {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, ""))
}

func parseTOML(b []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := toml.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w (mend it first; nothing was changed)", err)
	}
	return m, nil
}

// pick is the value at a path, or nil.
func pick(m map[string]any, path []string) any {
	var v any = m
	for _, name := range path {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}

// without is a copy of m that lacks what is at path, and what that leaves empty.
func without(m map[string]any, path []string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if k != path[0] {
			out[k] = v
			continue
		}
		if o, ok := v.(map[string]any); ok && len(path) > 1 {
			if o = without(o, path[1:]); len(o) > 0 {
				out[k] = o
			}
		}
	}
	return out
}

// contains reports whether have holds each of want's values.
func contains(have any, want map[string]any) bool {
	o, ok := have.(map[string]any)
	for k, v := range want {
		ok = ok && reflect.DeepEqual(o[k], v)
	}
	return ok
}

package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// Subject is what a person decides on. All of it is in Digest: a call that
// differs in any field is another subject and needs another decision.
type Subject struct {
	Agent   string `json:"agent"`
	Session string `json:"session"`
	User    string `json:"user,omitempty"`
	Tool    string `json:"tool"`
	Schema  string `json:"schema,omitempty"` // version or digest of the tool's input schema
	// Args are the validated arguments as canonical JSON.
	Args      json.RawMessage `json:"args,omitempty"`
	Workspace string          `json:"workspace,omitempty"`
	Branch    string          `json:"branch,omitempty"`
	Commit    string          `json:"commit,omitempty"`
	// Files maps each path the call names to the hex SHA-256 its content had,
	// "" for an absent file.
	Files map[string]string `json:"files,omitempty"`
	// Scripts maps each file that is about to be run to its hex SHA-256.
	Scripts  map[string]string `json:"scripts,omitempty"`
	Revision string            `json:"revision,omitempty"` // of the policy
	// Tx is a held transaction whose changes are to land, and Changes a digest
	// of those changes; both are empty for a call that has not run.
	Tx      string `json:"tx,omitempty"`
	Changes string `json:"changes,omitempty"`
}

// Digest is the hex SHA-256 of the subject. Each part is preceded by its name
// and length, so that no two subjects share a form.
func (s Subject) Digest() string {
	h := newFramed("sallyport approval subject 1")
	for _, f := range s.fields() {
		h.part(f.name, []byte(f.value))
	}
	h.part("args", s.Args)
	h.table("files", s.Files)
	h.table("scripts", s.Scripts)
	return h.sum()
}

// key names the call whatever state the workspace and policy are in: two
// subjects with one key are the same wish at two times.
func (s Subject) key() string {
	h := newFramed("sallyport approval key 1")
	h.part("agent", []byte(s.Agent))
	h.part("tool", []byte(s.Tool))
	h.part("workspace", []byte(s.Workspace))
	h.part("args", s.Args)
	return h.sum()
}

type field struct{ name, value string }

// fields lists every plain field once; Digest and changedSince derive from it.
func (s Subject) fields() []field {
	return []field{
		{"agent", s.Agent}, {"session", s.Session}, {"user", s.User},
		{"tool", s.Tool}, {"tool schema", s.Schema},
		{"workspace", s.Workspace}, {"branch", s.Branch}, {"commit", s.Commit},
		{"policy revision", s.Revision}, {"transaction", s.Tx}, {"changes to land", s.Changes},
	}
}

// changedSince says in words, one per line, what differs from an earlier subject
// with the same key, and so with the same arguments.
func (s Subject) changedSince(old Subject) []string {
	var out []string
	was := old.fields()
	for i, f := range s.fields() {
		if f.value != was[i].value {
			out = append(out, fmt.Sprintf("%s: %s → %s", f.name, shortValue(was[i].value), shortValue(f.value)))
		}
	}
	out = append(out, tableChanges("file", old.Files, s.Files)...)
	return append(out, tableChanges("script", old.Scripts, s.Scripts)...)
}

func tableChanges(what string, old, now map[string]string) []string {
	names := maps.Clone(old)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, now)
	var out []string
	for _, p := range slices.Sorted(maps.Keys(names)) {
		was, had := old[p]
		is, has := now[p]
		switch {
		case !had:
			out = append(out, fmt.Sprintf("%s %s is named now", what, Visible(p)))
		case !has:
			out = append(out, fmt.Sprintf("%s %s is not named any more", what, Visible(p)))
		case was == is:
		case was == "":
			out = append(out, fmt.Sprintf("%s %s exists now", what, Visible(p)))
		case is == "":
			out = append(out, fmt.Sprintf("%s %s is gone", what, Visible(p)))
		default:
			out = append(out, fmt.Sprintf("%s %s has other content", what, Visible(p)))
		}
	}
	return out
}

// shortValue shows a name in full and a digest by its first twelve characters.
func shortValue(v string) string {
	if v == "" {
		return "none"
	}
	if len(v) >= 40 {
		if _, err := hex.DecodeString(v); err == nil {
			return v[:12]
		}
	}
	return Visible(v)
}

// framed hashes named, length-prefixed parts.
type framed struct{ h hash.Hash }

func newFramed(domain string) framed {
	f := framed{sha256.New()}
	f.part("domain", []byte(domain))
	return f
}

func (f framed) bytes(b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	f.h.Write(n[:])
	f.h.Write(b)
}

func (f framed) part(name string, value []byte) {
	f.bytes([]byte(name))
	f.bytes(value)
}

func (f framed) table(name string, m map[string]string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(m)))
	f.part(name, n[:])
	for _, k := range slices.Sorted(maps.Keys(m)) {
		f.part(k, []byte(m[k]))
	}
}

func (f framed) sum() string { return hex.EncodeToString(f.h.Sum(nil)) }

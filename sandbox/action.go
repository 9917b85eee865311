// Package sandbox runs Actions: file operations beneath a workspace and
// commands inside walls. It is the only package that touches workspace files
// and starts processes, and it knows nothing of policy or protocol.
package sandbox

import (
	"encoding/json"
	"time"
)

// Action is what a call would do: data only. The very value that policy judges
// and audit records is the one that Runner.Run executes.
type Action struct {
	// Workspace is the absolute, symlink-free path that every FileOp is beneath
	// and that Exec sees as its workspace.
	Workspace string   `json:"workspace"`
	Files     []FileOp `json:"files,omitempty"` // run in order, before Exec
	Exec      *Exec    `json:"exec,omitempty"`  // at most one program
}

// Op names a file operation. The words are the ones policy sees as
// input.files[_].op.
type Op string

// The file operations. Read, List, Glob and Search change nothing.
const (
	OpRead   Op = "read"
	OpList   Op = "list"
	OpGlob   Op = "glob"
	OpSearch Op = "search"
	OpWrite  Op = "write"
	OpEdit   Op = "edit"
	OpMove   Op = "move"
	OpRemove Op = "remove"
)

// Writes reports whether the operation can change the workspace.
func (o Op) Writes() bool {
	switch o {
	case OpRead, OpList, OpGlob, OpSearch:
		return false
	}
	return true // an unknown operation counts as a write
}

// FileOp is one operation on one path. Exactly the option block that belongs
// to Op is set.
type FileOp struct {
	Op Op `json:"op"`
	// Path is slash-separated, cleaned and relative to Action.Workspace;
	// "." is the workspace itself. A path that leads outside is kept as it
	// was asked (absolute or with leading "..") so that policy and audit see
	// it; the Runner refuses it.
	Path string `json:"path"`
	// Real says that Path was looked up when the operation was planned and held
	// no symbolic link then, so that what is judged is what is reached. A link
	// met on it later fails the operation with KindStale.
	Real   bool    `json:"real,omitempty"`
	To     string  `json:"to,omitempty"` // OpMove: the new path, same form as Path
	Read   *Read   `json:"read,omitempty"`
	List   *List   `json:"list,omitempty"`
	Glob   *Glob   `json:"glob,omitempty"`
	Search *Search `json:"search,omitempty"`
	Write  *Write  `json:"write,omitempty"`
	Edit   *Edit   `json:"edit,omitempty"`
}

// Read asks for a range of lines. Offset is 1-based; 0 means from the start.
// Limit 0 means DefaultReadLines.
type Read struct {
	Offset int `json:"offset,omitempty"`
	Limit  int `json:"limit,omitempty"`
}

// List asks for a directory's entries. Depth 0 or 1 means only its own.
type List struct {
	Depth  int  `json:"depth,omitempty"`
	Hidden bool `json:"hidden,omitempty"` // also what gitignore leaves out
	Offset int  `json:"offset,omitempty"` // entries to skip first
}

// Glob asks for the files beneath Path that match Pattern (doublestar syntax),
// newest first.
type Glob struct {
	Pattern string `json:"pattern"`
	Limit   int    `json:"limit,omitempty"`
	Offset  int    `json:"offset,omitempty"` // files to skip first
}

// SearchMode is the form of a search result.
type SearchMode string

// The three forms of a search result, as agents know them from grep tools.
const (
	SearchContent SearchMode = "content"
	SearchFiles   SearchMode = "files_with_matches"
	SearchCount   SearchMode = "count"
)

// Search asks for lines beneath Path that match Pattern (RE2 syntax). Files that
// gitignore leaves out and binary files are skipped.
type Search struct {
	Pattern    string     `json:"pattern"`
	Mode       SearchMode `json:"mode"`
	Glob       string     `json:"glob,omitempty"` // only files that match
	IgnoreCase bool       `json:"ignore_case,omitempty"`
	Multiline  bool       `json:"multiline,omitempty"` // "." matches newlines, matches span lines
	Before     int        `json:"before,omitempty"`    // context lines
	After      int        `json:"after,omitempty"`
	Offset     int        `json:"offset,omitempty"` // entries to skip
	Limit      int        `json:"limit,omitempty"`  // entries to return; 0 means the default
}

// Write replaces or creates a whole file, with parent directories.
type Write struct {
	Content []byte `json:"content"`
}

// Edit replaces Old by New. Old must occur exactly once unless All.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all,omitempty"`
}

// Exec is one program in a cell. Either Argv is set, or Shell (a text for
// bash -c, judged as parsed shell); never both.
type Exec struct {
	Argv    []string          `json:"argv,omitempty"`
	Shell   string            `json:"shell,omitempty"`
	Dir     string            `json:"dir,omitempty"`     // relative to the workspace, same form as FileOp.Path
	Env     map[string]string `json:"env,omitempty"`     // added to the cell's clean environment
	Stdin   []byte            `json:"stdin,omitempty"`   //
	Timeout time.Duration     `json:"timeout,omitempty"` // wall clock; bounded by Terms.Limits.Wall where a decision sets it
	// Write is the most that the plan could use. The decision says how much of
	// it the run gets (Terms.Write); it can lower it, never raise it.
	Write WriteMode `json:"write"`
	// Asked is set when the caller asked to write in so many words. Without it
	// the command is judged as one that only may turn out to write.
	Asked bool `json:"asked,omitempty"`
	// Profile is the seccomp profile asked for: "default" (also ""), "strict",
	// "no-delete" or "debug". Terms.Profile overrides it.
	Profile string `json:"profile,omitempty"`
	// Net lists the endpoints the plan asks to reach; empty means none.
	Net []Endpoint `json:"net,omitempty"`
}

// Args is the argument vector that is run, with Shell turned into bash -c.
func (e *Exec) Args() []string {
	if e.Shell != "" {
		return []string{"/bin/bash", "-c", e.Shell}
	}
	return e.Argv
}

// WriteMode says what happens to a command's writes beneath the workspace. The
// zero value is the strictest; a smaller value is stricter.
type WriteMode int

// The write modes, strictest first.
const (
	WriteNone        WriteMode = iota // workspace read-only: a write fails with EROFS
	WriteDiscard                      // writes go to a throw-away layer and vanish
	WriteTransaction                  // writes go to a layer, are judged, then landed
	WriteDirect                       // writes reach the workspace at once
)

var writeModes = [...]string{"none", "discard", "transaction", "direct"}

func (m WriteMode) String() string {
	if m < 0 || int(m) >= len(writeModes) {
		return writeModes[WriteNone]
	}
	return writeModes[m]
}

// MarshalText writes the mode's word.
func (m WriteMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the mode's word; an unknown word is an error.
func (m *WriteMode) UnmarshalText(b []byte) error {
	for i, w := range writeModes {
		if w == string(b) {
			*m = WriteMode(i)
			return nil
		}
	}
	return &json.UnsupportedValueError{Str: "write mode " + string(b)}
}

// Endpoint is a host and port a command may reach. Host is a lower-case DNS
// name without a trailing dot or an IP literal; no wildcard.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

package sandbox

import "time"

// Terms are what a decision binds a run to. The zero value is the strictest
// that still runs: default limits, no network, no writes, full isolation.
type Terms struct {
	Write   WriteMode  `json:"write"`             // upper bound for Exec.Write
	Net     []Endpoint `json:"net,omitempty"`     // upper bound for Exec.Net
	Profile string     `json:"profile,omitempty"` // seccomp profile; "" is "default"
	Limits  Limits     `json:"limits"`            // zero fields take DefaultLimits
	// Expect maps a workspace-relative path to the hex SHA-256 its content had
	// when it was judged ("" = absent). A file that differs at run time fails
	// the run with KindStale before anything happens.
	Expect map[string]string `json:"expect,omitempty"`
	// Protected and Hidden are workspace-relative paths a cell sees read-only
	// and not at all. They come on top of the built-in lists.
	Protected []string `json:"protected,omitempty"`
	Hidden    []string `json:"hidden,omitempty"`
}

// Limits bound one run. A zero field means the default, a negative one means
// no limit where that is possible.
type Limits struct {
	Wall   time.Duration `json:"wall,omitempty"`
	CPU    float64       `json:"cpu,omitempty"`    // cores
	Memory int64         `json:"memory,omitempty"` // bytes, swap is always off
	Pids   int64         `json:"pids,omitempty"`
	Output int64         `json:"output,omitempty"` // bytes kept per stream; the rest is counted and dropped
	File   int64         `json:"file,omitempty"`   // bytes, largest single file (RLIMIT_FSIZE)
	Disk   int64         `json:"disk,omitempty"`   // bytes written to private layers
}

// DefaultLimits are the limits of a call whose decision sets none.
func DefaultLimits() Limits {
	return Limits{
		Wall:   2 * time.Minute,
		CPU:    2,
		Memory: 2 << 30,
		Pids:   256,
		Output: 8 << 20, // a verbose test run of a large project
		File:   1 << 30,
		Disk:   2 << 30,
	}
}

// Result is what a run really did.
type Result struct {
	Files []FileResult `json:"files,omitempty"` // one per Action.Files that was reached
	// The rest describes Exec and is zero without one.
	Ran     bool       `json:"ran,omitempty"`    // the program was started
	Exit    int        `json:"exit"`             // 128+N when signal N ended it, as a shell reports it
	Signal  string     `json:"signal,omitempty"` // "SIGKILL" …
	Stdout  Output     `json:"stdout"`
	Stderr  Output     `json:"stderr"`
	Usage   Usage      `json:"usage"`
	Walls   []Wall     `json:"walls,omitempty"` // in the order of cell's list
	Level   Level      `json:"level,omitempty"`
	Hit     []LimitHit `json:"limits_hit,omitempty"`
	Denials []Denial   `json:"denials,omitempty"`
	Net     []NetUse   `json:"net,omitempty"`     // what went through the proxy, by endpoint
	Changes []Change   `json:"changes,omitempty"` // in the workspace, made or (with Tx) pending
	// Tx names the transaction that holds Changes until Runner.Land or
	// Runner.Drop; empty when nothing is pending.
	Tx   string        `json:"tx,omitempty"`
	Took time.Duration `json:"took,omitempty"`
}

// Output is one stream, cut at Limits.Output.
type Output struct {
	Data  []byte `json:"data,omitempty"`
	Total int64  `json:"total"` // bytes the program wrote, kept or not
}

// Cut reports whether bytes were dropped.
func (o Output) Cut() bool { return o.Total > int64(len(o.Data)) }

// Usage is what a run consumed.
type Usage struct {
	Wall   time.Duration `json:"wall"`
	User   time.Duration `json:"user"`
	Sys    time.Duration `json:"sys"`
	Memory int64         `json:"memory"` // peak bytes; of the whole tree where a cgroup stands
	Pids   int64         `json:"pids,omitempty"`
}

// Wall is one wall and whether it stood around the program.
type Wall struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Reason string `json:"reason"` // why it is down
}

// Level is the rung of the degrade ladder a run stood on.
type Level string

// The rungs, strongest first. Below LevelMinimal a run is refused.
const (
	LevelFull    Level = "full"    // every wall up
	LevelReduced Level = "reduced" // an optional wall is missing, said in Walls
	LevelMinimal Level = "minimal" // no user namespace: Landlock, seccomp, rlimits
)

// LimitHit says which limit stopped or cut a run.
type LimitHit struct {
	Limit string `json:"limit"` // "wall", "memory", "pids", "output", "file", "disk", "cpu"
	Value int64  `json:"value"` // the limit: bytes, count or milliseconds
	Peak  int64  `json:"peak"`  // what was reached, same unit
}

// NetUse is what a run exchanged with one endpoint.
type NetUse struct {
	Endpoint
	Conns    int   `json:"conns"`
	Sent     int64 `json:"sent"` // bytes
	Received int64 `json:"received"`
}

// Denial is something a wall refused, in words the agent can act on.
type Denial struct {
	What   string `json:"what"`   // "write to .git/hooks refused: protected path"
	Remedy string `json:"remedy"` // what to do instead
}

// Change is one difference a run made in the workspace.
type Change struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`             // "added", "modified", "removed", "mode"
	Before string `json:"before,omitempty"` // hex SHA-256 of the content
	After  string `json:"after,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes after
	Mode   string `json:"mode,omitempty"` // permission bits after, octal: "0755"
	// Link is the target when what is there now is a symbolic link; Before and
	// After digest a link's target text.
	Link string `json:"link,omitempty"`
}

// FileResult is the outcome of one FileOp. Data is set by reads, Entries by
// lists and globs, Matches by searches, Change by writes.
type FileResult struct {
	Path    string   `json:"path"`
	Data    []byte   `json:"data,omitempty"`   // the lines asked for, raw
	First   int      `json:"first,omitempty"`  // 1-based number of the first line in Data
	Lines   int      `json:"lines,omitempty"`  // lines in the whole file
	Size    int64    `json:"size,omitempty"`   // bytes of the whole file
	Binary  bool     `json:"binary,omitempty"` // content is not text; Data is empty
	SHA256  string   `json:"sha256,omitempty"`
	Entries []Entry  `json:"entries,omitempty"`
	Matches []Match  `json:"matches,omitempty"`
	Total   int      `json:"total,omitempty"` // entries or matches there are in all
	Cut     bool     `json:"cut,omitempty"`   // more exist than were returned
	Skipped []string `json:"skipped,omitempty"`
	Change  *Change  `json:"change,omitempty"`
	// Replaced counts the replacements of an edit.
	Replaced int `json:"replaced,omitempty"`
}

// Entry is one directory entry or glob hit.
type Entry struct {
	Path    string    `json:"path"`
	Kind    string    `json:"kind"` // "file", "dir", "link", "other"
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mtime"`
}

// Match is one line of a search: a hit or, with Context, a neighbour. In count
// mode Line is 0 and Count is set.
type Match struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"`
	Context bool   `json:"context,omitempty"`
	Count   int    `json:"count,omitempty"`
}

// Kind classes a failure for whoever reads it.
type Kind string

// The failure kinds.
const (
	KindInvalid  Kind = "invalid"   // the action itself is wrong: fix the arguments
	KindOutside  Kind = "outside"   // a path leads out of the workspace
	KindMissing  Kind = "missing"   // no such file
	KindStale    Kind = "stale"     // a file changed since it was judged
	KindWalls    Kind = "walls"     // a required wall cannot be raised; nothing ran
	KindStart    Kind = "start"     // the program could not be started
	KindTimeout  Kind = "timeout"   // the wall clock ran out; Result tells the rest
	KindCanceled Kind = "cancelled" // the caller gave up; the tree is gone
	KindIO       Kind = "io"        // the machine failed: disk full, permission …
)

// Error is a failed run. A program that ran and exited non-zero is not an
// error; it is a Result.
type Error struct {
	Kind   Kind
	Msg    string // names the act and the path: "edit main.go: found 3 matches …"
	Remedy string // what to do instead
	Err    error  // cause, may be nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

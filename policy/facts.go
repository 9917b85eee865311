package policy

// Facts are what an inspector saw in a call, before any rule. They are the
// `input` of the Rego rules (schema version InputVersion): the JSON names here
// are that contract.
type Facts struct {
	Cmds    []Cmd      `json:"cmds,omitempty"` // one per simple command; rules see one at a time as input.cmd
	Files   []FileFact `json:"files,omitempty"`
	Content []Finding  `json:"content,omitempty"`
	Net     []NetFact  `json:"net,omitempty"`
	// Opaque is set when the command text as a whole could not be understood:
	// it does not parse, or is past a bound.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// InputVersion is the version of the schema of Facts as rules see them.
const InputVersion = 1

// Cmd is one simple command as the shell would run it.
type Cmd struct {
	Program   string            `json:"program"` // base name after wrappers: "git"; "" when opaque
	Path      string            `json:"path"`    // argv[0] as resolved in the cell, "" when not found
	Argv      []string          `json:"argv"`
	Sub       string            `json:"sub"`     // first operand of a multi-command program: "push"
	Flags     []string          `json:"flags"`   // canonical and sorted: "-r", "--force"; grouped short flags are split
	Args      []string          `json:"args"`    // operands, without Sub
	Assigns   map[string]string `json:"assigns"` // NAME=value before the command
	Dir       string            `json:"dir"`     // working directory, absolute; "" when unknown
	Via       []string          `json:"via"`     // wrappers passed through, outermost first
	Feeds     string            `json:"feeds"`   // program whose stdin this one's stdout is; "" for none
	FedBy     string            `json:"fed_by"`  // program whose stdout is this one's stdin
	Redirects []Redirect        `json:"redirects"`
	Opaque    Opaque            `json:"opaque"`
	Script    *Script           `json:"script,omitempty"`
	// Lookalike is set when argv[0] resolves to a file in the workspace that
	// bears the name of a system program.
	Lookalike bool `json:"lookalike"`
	// Targets are the paths the command names as operands or flag values that
	// it would read, write or remove, as far as the carrier table knows.
	Targets []FileFact `json:"targets"`
	// Patterns are the ids of the dangerous-pattern data rules whose regular
	// expression matched the command.
	Patterns []string `json:"patterns"`
	Text     string   `json:"text"` // quoted, for people; at most 200 bytes
}

// Opaque tells what of a command could not be resolved to a literal.
type Opaque struct {
	Name   bool   `json:"name"` // the command name itself
	Args   bool   `json:"args"` // at least one argument
	Reason string `json:"reason"`
}

// Redirect is one redirection. Op is the shell's operator: ">", ">>", "<" …
type Redirect struct {
	Op    string `json:"op"`
	Path  string `json:"path"` // absolute, "" when opaque
	Scope Scope  `json:"scope"`
	Guard Guard  `json:"guard"`
}

// Scope is where a path lies.
type Scope string

// The scopes. A path that cannot be resolved is ScopeOutside.
const (
	ScopeWorkspace Scope = "workspace"
	ScopeTemp      Scope = "temp"
	ScopeOutside   Scope = "outside"
	ScopeDevice    Scope = "device"
)

// Guard is the class of a path that deserves a tier of its own; "" for none.
type Guard string

// The guards.
const (
	GuardCI      Guard = "ci"       // CI workflows
	GuardHook    Guard = "hook"     // git hooks and git configuration
	GuardShellRC Guard = "shell_rc" // .bashrc, .envrc …
	GuardSecret  Guard = "secret"   // .env, keys, credentials
	GuardConfig  Guard = "config"   // deployment and service configuration
	GuardAgent   Guard = "agent"    // .mcp.json, .claude, .cursor: the agent's own guardrails
	GuardAutorun Guard = "autorun"  // files a tool runs unasked: conftest.py, build.rs, package.json scripts
	GuardSelf    Guard = "self"     // sallyport's own files, sockets and state
)

// FileFact is one path a call names.
type FileFact struct {
	Op     string `json:"op"`   // sandbox.Op, or "exec"
	Path   string `json:"path"` // relative to the workspace when beneath it, else absolute
	Scope  Scope  `json:"scope"`
	Kind   string `json:"kind"` // "file", "dir", "link", "absent", "other"
	Guard  Guard  `json:"guard"`
	SHA256 string `json:"sha256,omitempty"` // of the content now; "" when absent or not a file
}

// Script is a file about to be run, read through a descriptor.
type Script struct {
	Path     string    `json:"path"`
	SHA256   string    `json:"sha256"`
	Author   string    `json:"author"` // "agent/session at TIME" that wrote it through the tools; "" unknown
	Findings []Finding `json:"findings"`
}

// Finding is something a content scan saw.
type Finding struct {
	Rule     string `json:"rule"`     // id: "danger.rm-rf-root", "secret.aws-key", "unicode.bidi" …
	Severity string `json:"severity"` // "critical", "high", "medium", "low"
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Text     string `json:"text"` // excerpt with secrets masked, at most 120 bytes
}

// NetFact is an endpoint a call would reach; Host "" when it cannot be resolved.
type NetFact struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

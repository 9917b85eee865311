package policy

import "sallyport/sandbox"

// Data is what a security team edits as YAML beside the rules: lists, not
// logic. Rules see it as `data.sallyport`; the inspector takes patterns and
// guards from it. A loaded Data is never changed; a reload makes a new one.
type Data struct {
	Patterns          []Pattern          `json:"patterns" yaml:"patterns"`
	Guards            map[Guard][]string `json:"guards" yaml:"guards"` // guard -> doublestar globs, workspace-relative or absolute
	ProtectedBranches []string           `json:"protected_branches" yaml:"protected_branches"`
	ProtectedPaths    []string           `json:"protected_paths" yaml:"protected_paths"`
	HiddenPaths       []string           `json:"hidden_paths" yaml:"hidden_paths"`
	// BuildFiles are run by ordinary builds and tests, and edited every day.
	BuildFiles []string `json:"build_files" yaml:"build_files"`
	// SensitivePaths tell about the machine: accounts, logs, security settings.
	SensitivePaths []string           `json:"sensitive_paths" yaml:"sensitive_paths"`
	AllowedHosts   []sandbox.Endpoint `json:"allowed_hosts" yaml:"allowed_hosts"` // port 0 means any
	// Registries are the endpoints an install by the named program may reach.
	Registries map[string][]sandbox.Endpoint `json:"registries" yaml:"registries"`
	// Programs gives a program the class that rules judge it by: "reader",
	// "builder", "database", "disk" …
	Programs map[string]string `json:"programs" yaml:"programs"`
	// ToolKinds gives a tool its kind: "read", "edit", "run".
	ToolKinds map[string]string      `json:"tool_kinds" yaml:"tool_kinds"`
	Presets   map[string]Preset      `json:"presets" yaml:"presets"`
	Agents    map[string]AgentPolicy `json:"agents" yaml:"agents"` // by agent name; "*" is for every other
	Relax     []Relax                `json:"relax" yaml:"relax"`
	Shadow    []string               `json:"shadow" yaml:"shadow"` // ids of rules that only report
	Limits    RateLimits             `json:"limits" yaml:"limits"`
}

// Pattern is a regular expression (RE2) that marks text as dangerous. On says
// where it is applied: "command" (the quoted simple command), "script" and
// "content" (line by line).
type Pattern struct {
	ID       string   `json:"id" yaml:"id"`
	On       []string `json:"on" yaml:"on"`
	Regex    string   `json:"regex" yaml:"regex"`
	Severity string   `json:"severity" yaml:"severity"` // "critical", "high", "medium", "low"
	Tier     Tier     `json:"tier" yaml:"tier"`
	Verdict  Verdict  `json:"verdict" yaml:"verdict"`
	Reason   string   `json:"reason" yaml:"reason"`
	Remedy   string   `json:"remedy" yaml:"remedy"`
}

// Preset says what becomes of L2 calls whose rules leave the verdict to the
// tier. It never touches L3 or floors.
type Preset struct {
	L2 Verdict `json:"l2" yaml:"l2"`
	// Worktree limits L2 to calls inside a registered agent worktree.
	Worktree bool `json:"worktree,omitempty" yaml:"worktree,omitempty"`
	// Session lets one approval cover every L2 call of its session.
	Session bool `json:"session,omitempty" yaml:"session,omitempty"`
}

// AgentPolicy is the least privilege of one agent. A tool it may not use is
// neither listed nor callable.
type AgentPolicy struct {
	Tools   []string `json:"tools,omitempty" yaml:"tools,omitempty"` // empty means all
	MaxTier Tier     `json:"max_tier" yaml:"max_tier"`
}

// Relax lowers a noisy built-in rule. Only the administrator, or the user when
// there is no administrator, may say it; floors are out of its reach.
type Relax struct {
	Rule     string   `json:"rule" yaml:"rule"`
	Tier     Tier     `json:"tier" yaml:"tier"`
	Programs []string `json:"programs,omitempty" yaml:"programs,omitempty"` // empty means every command
	Why      string   `json:"why" yaml:"why"`
}

// RateLimits bound what agents do over time. A zero field means no limit.
type RateLimits struct {
	WindowSeconds int `json:"window_seconds,omitempty" yaml:"window_seconds,omitempty"` // length of the sliding window; 0 means 60
	PerAgent      int `json:"per_agent,omitempty" yaml:"per_agent,omitempty"`           // calls of one agent in a window
	PerTool       int `json:"per_tool,omitempty" yaml:"per_tool,omitempty"`             // calls of one tool by one agent in a window
	Global        int `json:"global,omitempty" yaml:"global,omitempty"`                 // calls of all agents in a window
	Repeats       int `json:"repeats,omitempty" yaml:"repeats,omitempty"`               // identical calls of one session in a row
	Calls         int `json:"calls,omitempty" yaml:"calls,omitempty"`                   // calls of one session
	ChangedFiles  int `json:"changed_files,omitempty" yaml:"changed_files,omitempty"`   // files one session changes
	RunSeconds    int `json:"run_seconds,omitempty" yaml:"run_seconds,omitempty"`       // wall time of one session's runs
	BreakerAfter  int `json:"breaker_after,omitempty" yaml:"breaker_after,omitempty"`   // failures in a row that open a tool's breaker
	BreakerCool   int `json:"breaker_cool,omitempty" yaml:"breaker_cool,omitempty"`     // seconds an open breaker stays open
	Slots         int `json:"slots,omitempty" yaml:"slots,omitempty"`                   // runs at once; 0 means from the machine
}

// Agent is the least privilege of the named agent: its own entry, else that of
// "*", else everything.
func (d *Data) Agent(name string) AgentPolicy {
	if a, ok := d.Agents[name]; ok {
		return a
	}
	if a, ok := d.Agents["*"]; ok {
		return a
	}
	return AgentPolicy{MaxTier: L3}
}

// Allows reports whether the agent may see and call the tool.
func (a AgentPolicy) Allows(tool string) bool {
	for _, t := range a.Tools {
		if t == tool || t == "*" {
			return true
		}
	}
	return len(a.Tools) == 0
}

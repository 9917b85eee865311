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
	AllowedHosts      []sandbox.Endpoint `json:"allowed_hosts" yaml:"allowed_hosts"`
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

package inspect

import (
	"slices"
	"strings"

	"sallyport/policy"
	"sallyport/sandbox"
)

// dangerous are the findings a command makes in a script that is written: the
// shapes no script should hide, whatever the rules say when it is run.
func dangerous(c policy.Cmd) (out []policy.Finding) {
	add := func(rule, severity string) {
		out = append(out, policy.Finding{Rule: rule, Severity: severity, Text: excerpt(c.Text)})
	}
	has := func(f string) bool { return slices.Contains(c.Flags, f) }
	switch c.Program {
	case "git":
		if c.Sub == "push" && (has("--force") || has("--force-with-lease") || has("--mirror") || slices.ContainsFunc(c.Args, plusRef)) {
			add("danger.git-push-force", "high")
		}
	case "chmod":
		if worldWritable(c.Args) {
			add("danger.chmod-777", "high")
		}
	case "sh", "bash", "dash", "zsh", "ksh", "python", "perl", "ruby", "node":
		if c.FedBy == "curl" || c.FedBy == "wget" {
			add("danger.pipe-to-shell", "high")
		}
	}
	if c.Opaque.Name {
		add("danger.opaque-command", "medium")
	}
	for _, t := range c.Targets {
		switch {
		case t.Op == string(sandbox.OpRemove) && wipes(t.Path):
			add("danger.rm-rf-root", "critical")
		case t.Op == string(sandbox.OpWrite) && t.Scope == policy.ScopeDevice:
			add("danger.raw-disk", "critical")
		}
	}
	for _, r := range c.Redirects {
		if r.Scope == policy.ScopeDevice && strings.HasPrefix(r.Op, ">") || strings.HasPrefix(r.Op, "&>") && r.Scope == policy.ScopeDevice {
			add("danger.raw-disk", "critical")
		}
	}
	for _, p := range c.Patterns {
		add(p, "high")
	}
	return out
}

func plusRef(a string) bool { return strings.HasPrefix(a, "+") && len(a) > 1 }

// wipes reports whether a removed path is a root, a home or a system directory.
func wipes(p string) bool {
	if p == "" {
		return false // not known
	}
	p = strings.TrimRight(p, "*./")
	if p == "" || p == home || p == "/root" {
		return true
	}
	rest, ok := strings.CutPrefix(p, "/")
	if !ok {
		return false
	}
	first, more, deep := strings.Cut(rest, "/")
	switch first {
	case "bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin", "srv", "sys", "usr", "var":
		return !deep || first == "home" && !strings.Contains(more, "/")
	}
	return false
}

// worldWritable reports whether a mode gives everyone the right to write.
func worldWritable(args []string) bool {
	if len(args) == 0 {
		return false
	}
	mode := args[0]
	if strings.Trim(mode, "01234567") == "" && mode != "" {
		return (mode[len(mode)-1]-'0')&2 != 0
	}
	for _, clause := range strings.Split(mode, ",") {
		i := strings.IndexAny(clause, "+=")
		if i < 0 {
			continue
		}
		who, perms := clause[:i], clause[i+1:]
		if (who == "" || strings.ContainsAny(who, "ao")) && strings.Contains(perms, "w") && strings.Contains(perms, "x") {
			return true
		}
	}
	return false
}

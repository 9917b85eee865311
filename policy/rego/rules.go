package rego

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"sallyport/policy"
)

// RuleInfo describes a rule by its METADATA.
type RuleInfo struct {
	ID      string         `json:"id"`
	Tier    policy.Tier    `json:"tier"`
	Verdict policy.Verdict `json:"verdict"`
	Title   string         `json:"title"`
	Reason  string         `json:"reason"`
	Remedy  string         `json:"remedy"`
	Layer   string         `json:"layer"`
	File    string         `json:"file"` // "layer/path:line"
	// Reads lists the parts of the input the rule depends on, also through the
	// rules it calls.
	Reads []string `json:"reads"`

	explicit bool // the verdict stands in METADATA
	obliges  obligations
}

// verdictOf is what a tier means where nobody says more.
func verdictOf(t policy.Tier) policy.Verdict {
	if t <= policy.L1 {
		return policy.Allow
	}
	return policy.Ask
}

// ruleInfos reads the METADATA of every `hit` rule. A rule without it, or with
// an incomplete one, is an error.
func ruleInfos(sources []source) ([]RuleInfo, error) {
	var infos []RuleInfo
	var problems []string
	for _, s := range sources {
		for _, m := range s.modules {
			if m.test {
				continue
			}
			for _, r := range m.ast.Rules {
				if r.Head.Ref().String() != "hit" && r.Head.Name.String() != "hit" {
					continue
				}
				info, err := ruleInfo(s.layer, m.file, r)
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s:%d: %v", m.file, r.Location.Row, err))
					continue
				}
				if i := slices.IndexFunc(infos, func(o RuleInfo) bool { return o.ID == info.ID }); i >= 0 {
					problems = append(problems, fmt.Sprintf("%s:%d: rule %q exists already in %s", m.file, r.Location.Row, info.ID, infos[i].File))
					continue
				}
				infos = append(infos, info)
			}
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("read the METADATA of the rules:\n%s", strings.Join(problems, "\n"))
	}
	return infos, nil
}

func ruleInfo(layer, file string, r *ast.Rule) (RuleInfo, error) {
	if r.Head.RuleKind() != ast.MultiValue {
		return RuleInfo{}, fmt.Errorf("hit must be a set: write `hit contains … if { … }`")
	}
	var a *ast.Annotations
	for _, candidate := range r.Annotations {
		if candidate.Scope == "rule" {
			a = candidate
		}
	}
	if a == nil {
		return RuleInfo{}, fmt.Errorf("the rule has no METADATA: put `# METADATA` with title and custom id, tier, reason, remedy above it")
	}
	info := RuleInfo{Title: a.Title, Layer: layer, File: fmt.Sprintf("%s:%d", file, r.Location.Row)}
	var problem error
	text := func(key string) string {
		v, ok := a.Custom[key].(string)
		if !ok && problem == nil {
			problem = fmt.Errorf("the METADATA lacks custom.%s", key)
		}
		return v
	}
	info.ID, info.Reason, info.Remedy = text("id"), text("reason"), text("remedy")
	if err := info.Tier.UnmarshalText([]byte(text("tier"))); err != nil && problem == nil {
		problem = err
	}
	if a.Title == "" && problem == nil {
		problem = fmt.Errorf("the METADATA lacks a title")
	}
	info.Verdict = verdictOf(info.Tier)
	if v, ok := a.Custom["verdict"].(string); ok && problem == nil {
		info.explicit = true
		problem = info.Verdict.UnmarshalText([]byte(v))
	}
	if o, ok := a.Custom["obligations"]; ok && problem == nil {
		info.obliges, problem = readObligations(o)
	}
	return info, problem
}

// learnReads fills Reads from the compiled rules, following the rules they call.
func learnReads(infos []RuleInfo, c *ast.Compiler) {
	for _, m := range c.Modules {
		for _, r := range m.Rules {
			if !slices.Contains(hitSets, r.Head.Name.String()) || r.Location == nil {
				continue
			}
			at := fmt.Sprintf("%s:%d", r.Location.File, r.Location.Row)
			i := slices.IndexFunc(infos, func(o RuleInfo) bool { return o.File == at })
			if i < 0 {
				continue
			}
			reads := map[string]bool{}
			inputRefs(c, r, reads, map[*ast.Rule]bool{})
			infos[i].Reads = make([]string, 0, len(reads))
			for ref := range reads {
				infos[i].Reads = append(infos[i].Reads, ref)
			}
			sort.Strings(infos[i].Reads)
		}
	}
}

func inputRefs(c *ast.Compiler, r *ast.Rule, reads map[string]bool, seen map[*ast.Rule]bool) {
	if seen[r] {
		return
	}
	seen[r] = true
	ast.WalkRefs(r, func(ref ast.Ref) bool {
		switch {
		case ref.HasPrefix(ast.InputRootRef):
			reads[ref.ConstantPrefix().String()] = true
		case ref.HasPrefix(ast.DefaultRootRef):
			for _, next := range c.GetRules(ref.ConstantPrefix()) {
				inputRefs(c, next, reads, seen)
			}
		}
		return false
	})
}

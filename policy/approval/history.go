package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"sallyport/policy"
)

// Similar are the latest requests, at most n, that people decided about the same
// tool and rules: what a second person wants to know.
func (d *Desk) Similar(r Request, n int) ([]Request, error) {
	want := signature(r)
	out := []Request{}
	err := d.decided(time.Time{}, func(old Request) bool {
		if old.ID != r.ID && signature(old) == want {
			out = append(out, old)
		}
		return len(out) < n
	})
	if err != nil {
		return nil, fmt.Errorf("look for requests like %s: %w", r.ID, err)
	}
	return out, nil
}

// signature is what makes two requests alike.
func signature(r Request) string { return r.Tool + "\x00" + strings.Join(r.asked(), "\x00") }

// lookback is how many requests of the past are looked at: enough for any hour,
// and a bound on the time a page takes.
const lookback = 2000

// decided calls fn for the requests people decided since a time, newest first,
// until fn returns false.
func (d *Desk) decided(since time.Time, fn func(Request) bool) error {
	return d.view(func(t *tx) error {
		c := t.Bucket(bucketRequests).Cursor()
		seen := 0
		for k, _ := c.Last(); k != nil && seen < lookback; k, _ = c.Prev() {
			seen++
			n, _ := toNumber(k)
			r, err := t.load(n)
			if err != nil {
				return err
			}
			if r.Created.Before(since) {
				return nil
			}
			if len(r.Votes) > 0 && !r.Decided.IsZero() && !fn(r) {
				return nil
			}
		}
		return nil
	})
}

// fatigueWindow and fatigueCount say when the same answer has become a reflex:
// so often within so long. Eight an hour is one every few minutes of work.
const (
	fatigueWindow = time.Hour
	fatigueCount  = 8
)

// Suggestion is a rule that would spare a person an answer given too often.
type Suggestion struct {
	Tool    string   `json:"tool"`
	Rules   []string `json:"rules"` // that asked
	Agent   string   `json:"agent"`
	Allowed bool     `json:"allowed"` // the answer was yes each time, or else no
	Count   int      `json:"count"`   // answers within the last hour
	Text    string   `json:"text"`    // the suggestion in one sentence
	// Grant, when the answer was yes, is a grant that would have given it; add
	// By and AddGrant it.
	Grant *Grant `json:"grant,omitempty"`
	// Policy is what to add to the policy for good, and Language of it: "rego"
	// for a rule that denies, "yaml" for the data list that relaxes a rule.
	Policy   string `json:"policy"`
	Language string `json:"language"`
}

// Suggest looks at the last hour for answers that became a reflex: the same one,
// eight times or more, to requests of one agent alike in tool and rules. Answers
// that differ are judgement and suggest nothing; nor does L3.
func (d *Desk) Suggest() ([]Suggestion, error) {
	groups := map[string][]Request{}
	var order []string
	err := d.decided(d.now().Add(-fatigueWindow), func(r Request) bool {
		if r.Tier > grantCeiling || len(r.asked()) == 0 {
			return true
		}
		k := r.Agent + "\x00" + signature(r)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("look for answers given too often: %w", err)
	}
	out := []Suggestion{}
	for _, k := range order {
		if s, ok := suggest(groups[k]); ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// Command is the command line that adds s.Grant.
func (s Suggestion) Command() []string {
	g := s.Grant
	if g == nil {
		return nil
	}
	out := []string{"sallyport", "grants", "add", "--tool", g.Tool}
	for _, f := range []struct {
		flag   string
		values []string
	}{{"--rule", g.Rules}, {"--host", g.Hosts}, {"--agent", []string{g.Agent}}, {"--workspace", []string{g.Workspace}}} {
		for _, v := range f.values {
			if v != "" {
				out = append(out, f.flag, v)
			}
		}
	}
	return append(out, "--for", "4h")
}

func suggest(all []Request) (Suggestion, bool) {
	r := all[0]
	yes := r.State != StateDenied
	if len(all) < fatigueCount || slices.ContainsFunc(all, func(o Request) bool { return (o.State != StateDenied) != yes }) {
		return Suggestion{}, false
	}
	s := Suggestion{Tool: r.Tool, Rules: r.asked(), Agent: r.Agent, Allowed: yes, Count: len(all)}
	if !yes {
		s.Text = fmt.Sprintf("%s was refused %s %d times in the last hour; a rule can refuse it without asking", r.Agent, strings.Join(s.Rules, ", "), s.Count)
		s.Policy, s.Language = denyRule(r, program(all)), "rego"
		return s, true
	}
	s.Text = fmt.Sprintf("%s was allowed %s %d times in the last hour; a grant can answer for you for a while", r.Agent, strings.Join(s.Rules, ", "), s.Count)
	s.Grant = &Grant{Tool: r.Tool, Rules: s.Rules, Agent: r.Agent, Workspace: r.Workspace, Hosts: r.Hosts, Scripts: r.Scripts,
		MaxTier: r.Tier, Reason: fmt.Sprintf("answered the same %d times in an hour", s.Count)}
	s.Policy, s.Language = relaxEntry(s, program(all)), "yaml"
	return s, true
}

// program is the one all requests' rules fired on, "" when they differ.
func program(all []Request) string {
	name := ""
	for _, r := range all {
		for _, h := range r.Rules {
			if h.Verdict != policy.Ask {
				continue
			}
			first, _, _ := strings.Cut(h.Cmd, " ")
			if first == "" || name != "" && first != name {
				return ""
			}
			name = first
		}
	}
	if name == "" {
		return ""
	}
	return path.Base(name)
}

// denyRule is a Rego rule for the user's layer that refuses what people refused.
// A layer may always tighten.
func denyRule(r Request, program string) string {
	condition, id := "not input.cmd", slug(r.Tool)
	if program != "" {
		condition, id = fmt.Sprintf("input.cmd.program == %q", Visible(program)), slug(program)
	}
	return fmt.Sprintf(`package sallyport.user.suggested

# METADATA
# title: Refused by people each time
# custom:
#   id: user.refuse-%s
#   tier: %s
#   verdict: deny
#   reason: people refused this each time they were asked
#   remedy: %s
hit contains rego.metadata.rule().custom if {
	%s
	input.call.tool == %q
	input.call.agent == %q
}
`, id, r.Tier, yamlText(orElse(r.Advice, "choose another way, or ask a person to change the policy")), condition, Visible(r.Tool), Visible(r.Agent))
}

// relaxEntry is the data that lowers the rules which asked. Only the owner of
// the machine's policy may say it, so it is a proposal to that person.
func relaxEntry(s Suggestion, program string) string {
	var b strings.Builder
	b.WriteString("sallyport:\n  relax:\n")
	for _, id := range s.Rules {
		fmt.Fprintf(&b, "    - rule: %s\n      tier: L1\n", yamlText(id))
		if program != "" {
			fmt.Fprintf(&b, "      programs: [%s]\n", yamlText(program))
		}
		fmt.Fprintf(&b, "      why: %s\n", yamlText(fmt.Sprintf("approved %d times in an hour for %s", s.Count, s.Agent)))
	}
	return b.String()
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// yamlText is text as a double-quoted YAML scalar, which Go's quoting is for
// the characters Visible leaves.
func yamlText(s string) string { return fmt.Sprintf("%q", Visible(s)) }

// slug is a name as part of a rule id.
func slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}

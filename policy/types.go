// Package policy decides what may happen. It joins what an inspector sees in a
// call (Facts) with what rules say of it, adds floors that no rule can lower,
// and answers with one Decision.
package policy

import (
	"encoding/json"
	"fmt"
	"time"

	"sallyport/sandbox"
)

// Tier is how much a call can change: L0 reads, L1 runs local commands, L2
// changes code, L3 changes configuration, databases or the outside world.
type Tier int

// The tiers. A larger one is the stricter.
const (
	L0 Tier = iota
	L1
	L2
	L3
)

func (t Tier) String() string { return fmt.Sprintf("L%d", int(t)) }

// MarshalText writes "L0" … "L3".
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads "L0" … "L3"; anything else is an error.
func (t *Tier) UnmarshalText(b []byte) error {
	if len(b) == 2 && b[0] == 'L' && b[1] >= '0' && b[1] <= '3' {
		*t = Tier(b[1] - '0')
		return nil
	}
	return fmt.Errorf("tier %q is not L0, L1, L2 or L3", b)
}

// Verdict is what becomes of a call. The zero value denies; the stricter of two
// is their min.
type Verdict int

// The verdicts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdicts = [...]string{"deny", "ask", "allow"}

func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdicts) {
		return verdicts[Deny]
	}
	return verdicts[v]
}

// MarshalText writes "deny", "ask" or "allow".
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads "deny", "ask" or "allow"; anything else is an error.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, w := range verdicts {
		if w == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %q is not deny, ask or allow", b)
}

// Phase says when a call is judged.
type Phase string

// The phases: before anything runs, and after a run when its changes wait to land.
const (
	PhaseCall    Phase = "call"
	PhaseEffects Phase = "effects"
)

// Call is everything a decision may depend on: plain data, known before
// anything runs.
type Call struct {
	Phase     Phase
	ID        string          // call id, unique
	Tool      string          //
	Args      json.RawMessage // canonical JSON (RFC 8785 order) of the validated arguments
	Agent     Agent
	Workspace Workspace
	Action    sandbox.Action
	Session   Session
	Now       time.Time
	// Changes are what a run really did (PhaseEffects only); Content gives the
	// bytes a changed or written path would have, for scanning.
	Changes []sandbox.Change
	Content func(path string) ([]byte, error)
}

// Agent is who calls. Every field but MaxTier is a name, never a secret.
type Agent struct {
	Name    string `json:"agent"`   // "claude-code", "cli", a token's agent …
	User    string `json:"user"`    // the local user, from peer credentials
	Client  string `json:"client"`  // what the client calls itself: name/version
	Session string `json:"session"` // one per connection
	MaxTier Tier   `json:"max_tier"`
}

// Workspace is where the call works.
type Workspace struct {
	Root     string `json:"root"` // absolute, symlink-free
	Branch   string `json:"branch"`
	Commit   string `json:"commit"`
	Worktree bool   `json:"worktree"` // a linked git worktree, registered for an agent
	Preset   string `json:"preset"`   // "strict", "worktree", "solo"
}

// Session is what happened before in this session. Counters start at zero.
type Session struct {
	Calls        int  `json:"calls"`
	Repeats      int  `json:"repeats"`  // identical calls in a row, this one not counted
	Failures     int  `json:"failures"` // in a row
	ChangedFiles int  `json:"changed_files"`
	ReadsSecret  bool `json:"reads_secret"` // a secret file was read earlier
}

// Decision is what policy says of one call.
type Decision struct {
	Tier        Tier        `json:"tier"`
	Verdict     Verdict     `json:"verdict"`
	Rules       []RuleHit   `json:"rules"` // all that fired, strictest first; never nil
	Obligations Obligations `json:"obligations"`
	Revision    string      `json:"revision"` // digest of the policy that decided
	// Shadow lists rules that fired but only report: what they would have
	// decided stands beside what was decided.
	Shadow []RuleHit `json:"shadow,omitempty"`
}

// Reasons lists why, strictest first and without repeats.
func (d Decision) Reasons() []string { return d.texts(func(r RuleHit) string { return r.Reason }) }

// Remedies lists what to do instead, in the order of Reasons.
func (d Decision) Remedies() []string { return d.texts(func(r RuleHit) string { return r.Remedy }) }

func (d Decision) texts(of func(RuleHit) string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, r := range d.Rules {
		if t := of(r); !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// RuleHit is one rule that fired.
type RuleHit struct {
	ID      string  `json:"id"`
	Tier    Tier    `json:"tier"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`
	Remedy  string  `json:"remedy"`
	Cmd     string  `json:"cmd,omitempty"` // the simple command it fired on, quoted
}

// Obligations come with an allowed call. The zero value obliges to nothing
// beyond the defaults, which are the strictest.
type Obligations struct {
	Terms     sandbox.Terms `json:"terms"`
	Redact    bool          `json:"redact,omitempty"`
	Approvers int           `json:"approvers,omitempty"` // people needed; 0 means 1
	Roles     []string      `json:"roles,omitempty"`     // each approver holds one of them; empty means anybody
}

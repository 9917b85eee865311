package approval

import (
	"strings"
	"time"

	"sallyport/policy"
	"sallyport/sandbox"
)

// State is where a request stands in its life.
type State string

// The states: pending → approved | denied | expired | withdrawn; approved →
// used | expired; used → done, or unknown when the desk ended in between.
const (
	StatePending   State = "pending"
	StateApproved  State = "approved" // by enough people, and not used yet
	StateDenied    State = "denied"
	StateExpired   State = "expired"
	StateWithdrawn State = "withdrawn"
	StateUsed      State = "used" // the one run it allows has been started
	StateDone      State = "done"
	StateUnknown   State = "unknown" // started, and nobody knows how it ended
	// StateFrozen occurs in an Outcome only.
	StateFrozen State = "frozen"
)

// Open reports whether a person can still do something about the request.
func (s State) Open() bool { return s == StatePending || s == StateApproved }

// Request is one call that waits, or waited, for a person. Its JSON is what
// `approvals list --json` and `show --json` print.
type Request struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	Digest string `json:"digest"` // of the Subject
	// Key is the same for the same call by the same agent, whatever state the
	// workspace and the policy are in.
	Key string `json:"key"`

	Agent     string            `json:"agent"`
	Session   string            `json:"session"`
	User      string            `json:"user,omitempty"`
	Tool      string            `json:"tool"`
	Workspace string            `json:"workspace,omitempty"`
	Branch    string            `json:"branch,omitempty"`
	Preset    string            `json:"preset,omitempty"`
	Solo      bool              `json:"solo,omitempty"` // see Ask.Solo
	Tier      policy.Tier       `json:"tier"`
	Rules     []policy.RuleHit  `json:"rules"`
	Summary   string            `json:"summary"`
	Call      string            `json:"call,omitempty"`  // id of the call that asked
	Batch     string            `json:"batch,omitempty"` // announced together with others
	Risks     []string          `json:"risks,omitempty"` // of Show
	Approvers int               `json:"approvers"`       // people needed, at least 1
	Roles     []string          `json:"roles,omitempty"` // each of them holds one of these
	Cut       []string          `json:"cut,omitempty"`   // what Show leaves out; see Show.Cut
	Scripts   map[string]string `json:"scripts,omitempty"`
	Hosts     []string          `json:"hosts,omitempty"` // of Show.Net, without repeats

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // of the present state, pending or approved
	Decided time.Time `json:"decided,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`

	Votes  []Vote `json:"votes,omitempty"`
	Advice string `json:"advice,omitempty"` // of the person who denied it, for the agent
	Why    string `json:"why,omitempty"`    // it expired or was withdrawn
	Grant  string `json:"grant,omitempty"`  // the grant that covered it
	Result string `json:"result,omitempty"`

	// Unknown is an earlier identical request that was started and whose end
	// nobody knows: it may have taken effect.
	Unknown string   `json:"unknown,omitempty"`
	Earlier string   `json:"earlier,omitempty"` // the request that Changed compares with
	Changed []string `json:"changed,omitempty"`

	// Shown is the digest of what a person is shown: of Show.
	Shown string `json:"shown"`
	// Subject and Show are set where one request is asked for, not in lists.
	Subject *Subject `json:"subject,omitempty"`
	Show    *Show    `json:"show,omitempty"`
}

// Vote is one person's decision.
type Vote struct {
	Person  Person    `json:"person"`
	Approve bool      `json:"approve"`
	Scope   Reach     `json:"scope,omitempty"`
	Note    string    `json:"note,omitempty"`
	Time    time.Time `json:"time"`
	// Shown is the digest of what the person was shown; "" for a no without a look.
	Shown string `json:"shown,omitempty"`
}

// Person is who decides, and how the desk knows.
type Person struct {
	Name    string   `json:"name"`
	Channel string   `json:"channel"`        // "cli", "terminal", "console", "webhook", ChannelHost
	From    string   `json:"from,omitempty"` // address, terminal or socket it came from
	UID     int      `json:"uid"`            // by peer credentials; -1 where there are none
	Session string   `json:"session,omitempty"`
	Roles   []string `json:"roles,omitempty"`
}

func (p Person) String() string {
	if p.Channel == "" {
		return p.Name
	}
	return p.Name + " (" + p.Channel + ")"
}

// same reports whether two names stand for one person. On peer-credential
// channels one uid is one person whatever the names say.
func (p Person) same(o Person) bool {
	if strings.EqualFold(p.Name, o.Name) {
		return true
	}
	byUID := func(p Person) bool { return p.Channel == "cli" || p.Channel == "terminal" }
	return byUID(p) && byUID(o) && p.UID == o.UID
}

// Ask is a call that policy wants a person to confirm.
type Ask struct {
	Subject  Subject
	Decision policy.Decision
	Show     Show
	Call     string // call id
	Preset   string // of the workspace: "strict", "worktree", "solo"
	// Solo says that the preset lets the first approval of an L2 call cover the
	// session's other L2 calls, and the host's own prompt confirm one of them
	// (policy.Preset.Session).
	Solo bool

	batch    string
	earlier  string   // the request this one replaces under a stricter judgement
	stricter []string // in what
}

// asked are the ids of the rules that want a person.
func (a Ask) asked() []string {
	var out []string
	for _, r := range a.Decision.Rules {
		if r.Verdict == policy.Ask {
			out = append(out, r.ID)
		}
	}
	return out
}

// Outcome is the desk's answer to an Ask. Only StateApproved lets the call run,
// once; the caller then reports its end with Finish(Request.ID, …).
type Outcome struct {
	State   State
	Request Request // zero when frozen, or denied by policy
	Grant   string  // the grant that covered the call
	Person  string  // who decided
	Advice  string  // what the agent should do
	Changed []string
}

// Show is what a person is shown of a request.
type Show struct {
	Summary string             `json:"summary"`         // one line
	Argv    []string           `json:"argv,omitempty"`  // as it would be run
	Shell   string             `json:"shell,omitempty"` // the text a shell would be given
	Dir     string             `json:"dir,omitempty"`   // where, relative to the workspace
	Env     []string           `json:"env,omitempty"`   // NAME=value added to the environment, sorted
	Stdin   string             `json:"stdin,omitempty"`
	Tree    []Step             `json:"tree,omitempty"`    // the simple commands it parses to
	Diff    string             `json:"diff,omitempty"`    // unified
	Files   []Touch            `json:"files,omitempty"`   // paths read, written or removed
	Net     []sandbox.Endpoint `json:"net,omitempty"`     // endpoints dialled; Host "" is unknown
	Scripts []policy.Script    `json:"scripts,omitempty"` // with author and findings
	Content []policy.Finding   `json:"content,omitempty"` // found in what would be written
	Risks   []string           `json:"risks,omitempty"`   // what stands out, one sentence each
	// Cut says what was left out, one sentence each. Where it is not empty no
	// wider approval than this one call is possible.
	Cut []string `json:"cut,omitempty"`
}

// Step is one simple command of a parsed text.
type Step struct {
	Depth int      `json:"depth"` // wrappers and substitutions around it
	Text  string   `json:"text"`
	Via   []string `json:"via,omitempty"`
	Note  string   `json:"note,omitempty"`
}

// Touch is one path a call would touch.
type Touch struct {
	Op    string       `json:"op"`
	Path  string       `json:"path"`
	Guard policy.Guard `json:"guard,omitempty"`
}

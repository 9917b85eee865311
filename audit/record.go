// Package audit keeps a tamper-evident record of every call: a bbolt log whose
// records are leaves of an RFC 6962 Merkle tree with a signed checkpoint in the
// same transaction.
package audit

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// RecordVersion is the version of Record's JSON form.
const RecordVersion = 1

// Seq numbers records from 0 without gaps.
type Seq uint64

// Kind says what a record tells of.
type Kind string

// The kinds of record. An L0 call has no effect and is one KindCall; any other
// call is a KindIntent before and a KindOutcome after.
const (
	KindCall    Kind = "call"
	KindIntent  Kind = "intent"
	KindOutcome Kind = "outcome"
	KindEvent   Kind = "event" // start, recovery, policy load, approval, grant, freeze …
)

// Status is how a call ended.
type Status string

// The statuses of a call or outcome.
const (
	StatusOK          Status = "ok"
	StatusFailed      Status = "failed"  // ran, and did not succeed
	StatusInvalid     Status = "invalid" // bad arguments, unknown tool: never judged
	StatusDenied      Status = "denied"
	StatusPending     Status = "pending" // waits for a person
	StatusTimeout     Status = "timeout"
	StatusCancelled   Status = "cancelled"
	StatusInterrupted Status = "interrupted" // the server died during the call
)

// Record is one entry of the log. Seq, Version, Time, Mono and Boot are set by
// Append; the caller sets what it knows of the rest. Raw JSON fields hold the
// JSON of the value that was judged or run; Append redacts every field that is
// not classified plain before it is stored.
type Record struct {
	Version int  `json:"v"`
	Seq     Seq  `json:"seq"`
	Kind    Kind `json:"kind"`
	// SealedArgs is the hex SHA-256 of the encrypted arguments that are kept beside
	// the record. It stands right behind Kind, where verify looks for it.
	SealedArgs string        `json:"sealed_args,omitempty"`
	Time       time.Time     `json:"time"`            // wall clock, UTC
	Mono       time.Duration `json:"mono"`            // since Boot's start of this process's log
	Boot       string        `json:"boot"`            // id of this opening of the log
	Event      string        `json:"event,omitempty"` // KindEvent: "start", "policy.load", "approval.approved" …

	Call    string `json:"call,omitempty"`   // call id, the same in intent and outcome
	Key     string `json:"key,omitempty"`    // the client's idempotency key, see ByKey
	Intent  *Seq   `json:"intent,omitempty"` // KindOutcome: the intent it closes
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	User    string `json:"user,omitempty"`
	Client  string `json:"client,omitempty"`
	// Sources tells where each identity came from: "peercred", "token", "env", "client".
	Sources map[string]string `json:"sources,omitempty"`

	Workspace string `json:"workspace,omitempty"`
	Branch    string `json:"branch,omitempty"`
	Commit    string `json:"commit,omitempty"`

	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`        // canonical, redacted
	ArgsDigest string          `json:"args_digest,omitempty"` // keyed digest of the raw canonical arguments
	Action     json.RawMessage `json:"action,omitempty"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Decision   json.RawMessage `json:"decision,omitempty"`
	Tier       string          `json:"tier,omitempty"`
	Verdict    string          `json:"verdict,omitempty"`
	Rules      []string        `json:"rules,omitempty"` // ids that fired
	Revision   string          `json:"revision,omitempty"`
	Approval   string          `json:"approval,omitempty"` // request or grant that allowed it
	Person     string          `json:"person,omitempty"`   // who decided, with channel

	Status  Status          `json:"status,omitempty"`
	Error   string          `json:"error,omitempty"`
	Exit    *int            `json:"exit,omitempty"`
	Level   string          `json:"level,omitempty"` // degrade ladder
	Walls   json.RawMessage `json:"walls,omitempty"`
	Usage   json.RawMessage `json:"usage,omitempty"`
	Limits  json.RawMessage `json:"limits_hit,omitempty"`
	Denials json.RawMessage `json:"denials,omitempty"`
	Outputs []Output        `json:"outputs,omitempty"`
	Changes []Change        `json:"changes,omitempty"`
	Head    string          `json:"head,omitempty"` // the workspace's commit after the call, where it moved
	Took    time.Duration   `json:"took,omitempty"`
	Trace   string          `json:"trace,omitempty"` // W3C trace id

	Detail json.RawMessage `json:"detail,omitempty"` // KindEvent: what happened
	// Redacted lists the JSON pointers whose values were replaced.
	Redacted []string `json:"redacted,omitempty"`
}

// Output is the digest and a capped preview of one stream or answer.
type Output struct {
	Name    string `json:"name"` // "stdout", "stderr", "answer"
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	Preview string `json:"preview,omitempty"`
}

// PreviewBytes is how much of an output is kept beside its digest.
const PreviewBytes = 4 << 10

// Preview is what is kept of an output: its beginning, whole characters only.
func Preview(output []byte) string {
	if len(output) <= PreviewBytes {
		return string(output)
	}
	cut := output[:PreviewBytes]
	for i := 1; i < utf8.UTFMax; i++ {
		if last := cut[len(cut)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				cut = cut[:len(cut)-i]
			}
			break
		}
	}
	return string(cut)
}

// Change is one workspace file that a call changed.
type Change struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

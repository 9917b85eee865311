package limits

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// trail is what a session called lately, for seeing loops.
type trail struct {
	steps []step // newest last, at most trailLength
}

type step struct {
	at     time.Time
	tool   string
	digest string
	shape  string
	failed bool
}

const (
	trailLength = 128
	// stale is how old a call may be to count as part of a loop.
	stale = 15 * time.Minute
	// longestCycle is the longest A-B-…-A-B that counts as going round.
	longestCycle = 4
	// nearFactor is how many times more near-duplicates are borne than identical
	// calls: paging through a file is a row of near-duplicates.
	nearFactor = 5
)

// add appends a call and says whether it is a loop. Most is how many identical
// calls are borne without progress; 0 means any number.
func (t *trail) add(now time.Time, tool, digest, shape string, most int) Violation {
	for len(t.steps) > 0 && (now.Sub(t.steps[0].at) > stale || len(t.steps) >= trailLength) {
		t.steps = t.steps[1:]
	}
	t.steps = append(t.steps, step{at: now, tool: tool, digest: digest, shape: shape})
	if most <= 0 {
		return Violation{}
	}
	same := 0
	for _, s := range t.steps {
		if s.digest == digest {
			same++
		}
	}
	switch {
	case same > most:
		return loop(fmt.Sprintf("the same call of %s was made %d times and nothing changed", tool, same))
	case t.cycle(max(3, most/2)) > 1:
		return loop(fmt.Sprintf("the same %d calls go round and nothing changes", t.cycle(max(3, most/2))))
	}
	if n, failing := t.near(shape); failing > most || n > most*nearFactor {
		return loop(fmt.Sprintf("%d nearly equal calls of %s were made in a row", n, tool))
	}
	return Violation{}
}

func loop(reason string) Violation {
	return Violation{
		Kind: "loop", Limit: "repeats", Reason: reason,
		Remedy: "stop and think about what the last answers say; do something else or report what is in the way",
	}
}

// drop takes back the newest call.
func (t *trail) drop() { t.steps = t.steps[:len(t.steps)-1] }

// progress forgets the trail: something changed, so the same call can have
// another answer.
func (t *trail) progress() { t.steps = t.steps[:0] }

// outcome marks the newest call.
func (t *trail) outcome(failed bool) {
	if len(t.steps) > 0 {
		t.steps[len(t.steps)-1].failed = failed
	}
}

// inRow is how many identical calls the trail ends with.
func (t *trail) inRow() int {
	n := 0
	for i := len(t.steps) - 1; i >= 0 && t.steps[i].digest == t.steps[len(t.steps)-1].digest; i-- {
		n++
	}
	return n
}

// cycle is the length of the cycle the trail ends with, when it went round at
// least `rounds` times; 0 when there is none. A cycle of one is left to inRow.
func (t *trail) cycle(rounds int) int {
	for length := 2; length <= longestCycle; length++ {
		need := length * rounds
		if len(t.steps) < need {
			return 0
		}
		tail := t.steps[len(t.steps)-need:]
		round, distinct := true, false
		for i := length; i < need && round; i++ {
			round = tail[i].digest == tail[i-length].digest
		}
		for i := 1; i < length; i++ {
			distinct = distinct || tail[i].digest != tail[0].digest
		}
		if round && distinct {
			return length
		}
	}
	return 0
}

// near is how many calls of the same shape the trail ends with, and how many of
// those before the newest failed.
func (t *trail) near(shape string) (n, failing int) {
	if shape == "" {
		return 0, 0
	}
	for i := len(t.steps) - 1; i >= 0 && t.steps[i].shape == shape; i-- {
		n++
		if t.steps[i].failed {
			failing++
		}
	}
	return n, failing
}

// Shape is equal for arguments that differ in numbers, blanks and letter case
// only. It is not a digest and may be as long as the arguments, up to 4 KiB.
func Shape(tool string, args json.RawMessage) string {
	var b strings.Builder
	b.WriteString(tool)
	digits, blank := false, false
	for _, r := range string(args[:min(len(args), 4096)]) {
		switch {
		case unicode.IsDigit(r):
			if !digits {
				b.WriteByte('0')
			}
			digits, blank = true, false
		case unicode.IsSpace(r):
			if !blank {
				b.WriteByte(' ')
			}
			digits, blank = false, true
		default:
			b.WriteRune(unicode.ToLower(r))
			digits, blank = false, false
		}
	}
	return b.String()
}

package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/sandbox"
)

// Line is one command to score.
type Line struct {
	ID  string `json:"id"`
	Cmd string `json:"cmd"`
}

// Judged is a line with its decision.
type Judged struct {
	Line
	Decision Decision      `json:"decision"`
	Took     time.Duration `json:"took"`
}

// Score is how a policy judges many commands.
type Score struct {
	Total      int            `json:"total"`
	ByTier     map[string]int `json:"by_tier"`
	ByVerdict  map[string]int `json:"by_verdict"`
	ByRule     map[string]int `json:"by_rule"`     // lines a rule fired on
	NeverFired []string       `json:"never_fired"` // of the rules asked about
	Slowest    []Slow         `json:"slowest"`     // at most five, slowest first
	Lines      []Judged       `json:"-"`
}

// Slow is a line that took long.
type Slow struct {
	ID   string `json:"id"`
	Cmd  string `json:"cmd"` // at most 120 bytes
	Took string `json:"took"`
}

// slowestShown is how many slow lines a score names.
const slowestShown = 5

// Score judges each line as a shell text that run_command would run in the
// workspace of like, which gives agent, preset and clock too. Nothing is run.
// Rules are the ids to look for among NeverFired.
func (g *Gate) Score(ctx context.Context, like Call, lines []Line, rules []string) (Score, error) {
	s := Score{
		Total: len(lines), ByTier: map[string]int{}, ByVerdict: map[string]int{}, ByRule: map[string]int{},
		NeverFired: []string{}, Slowest: []Slow{},
	}
	for _, l := range lines {
		if err := ctx.Err(); err != nil {
			return s, fmt.Errorf("score the commands: %w", err)
		}
		c := like
		c.Phase, c.Tool = PhaseCall, "run_command"
		c.Action = sandbox.Action{Workspace: like.Workspace.Root, Exec: &sandbox.Exec{Shell: l.Cmd}}
		began := time.Now()
		d, _ := g.Admit(ctx, c)
		s.Lines = append(s.Lines, Judged{Line: l, Decision: d, Took: time.Since(began)})
		s.ByTier[d.Tier.String()]++
		s.ByVerdict[d.Verdict.String()]++
		seen := map[string]bool{}
		for _, r := range d.Rules {
			if !seen[r.ID] {
				seen[r.ID] = true
				s.ByRule[r.ID]++
			}
		}
	}
	for _, id := range rules {
		if s.ByRule[id] == 0 {
			s.NeverFired = append(s.NeverFired, id)
		}
	}
	slices.Sort(s.NeverFired)
	s.Slowest = slowest(s.Lines)
	return s, nil
}

func slowest(lines []Judged) []Slow {
	order := slices.Clone(lines)
	slices.SortFunc(order, func(a, b Judged) int { return int(b.Took - a.Took) })
	out := []Slow{}
	for _, l := range order[:min(len(order), slowestShown)] {
		out = append(out, Slow{ID: l.ID, Cmd: strings.ToValidUTF8(l.Cmd[:min(len(l.Cmd), 120)], ""), Took: l.Took.Round(time.Microsecond).String()})
	}
	return out
}

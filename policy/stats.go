package policy

import (
	"cmp"
	"iter"
	"slices"
)

// Recorded is one decision as the audit kept it.
type Recorded struct {
	Decision Decision
	Approved bool // a person said yes to it later
}

// RuleStat is how often a rule fired and what came of it.
type RuleStat struct {
	ID       string `json:"id"`
	Fired    int    `json:"fired"`    // decisions it fired in
	Denied   int    `json:"denied"`   // of these, refused
	Asked    int    `json:"asked"`    // of these, put to a person
	Approved int    `json:"approved"` // of the asked, said yes to
	Alone    int    `json:"alone"`    // of these, no other rule was as strict
	Shadowed int    `json:"shadowed"` // decisions it would have fired in, had it not been in the shadow
}

// Stats counts, most often fired first. A rule that is always alone and always
// approved is a noisy one.
func Stats(decisions iter.Seq[Recorded]) []RuleStat {
	byID := map[string]*RuleStat{}
	of := func(id string) *RuleStat {
		s, ok := byID[id]
		if !ok {
			s = &RuleStat{ID: id}
			byID[id] = s
		}
		return s
	}
	for r := range decisions {
		strict := map[string]bool{}
		seen := map[string]bool{}
		for _, hit := range r.Decision.Rules {
			if hit.Tier == r.Decision.Tier && hit.Verdict == r.Decision.Verdict {
				strict[hit.ID] = true
			}
		}
		for _, hit := range r.Decision.Rules {
			if seen[hit.ID] {
				continue
			}
			seen[hit.ID] = true
			s := of(hit.ID)
			s.Fired++
			switch r.Decision.Verdict {
			case Deny:
				s.Denied++
			case Ask:
				s.Asked++
				if r.Approved {
					s.Approved++
				}
			}
			if len(strict) == 1 && strict[hit.ID] {
				s.Alone++
			}
		}
		for _, hit := range r.Decision.Shadow {
			of(hit.ID).Shadowed++
		}
	}
	out := make([]RuleStat, 0, len(byID))
	for _, s := range byID {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b RuleStat) int { return cmp.Or(cmp.Compare(b.Fired, a.Fired), cmp.Compare(a.ID, b.ID)) })
	return out
}

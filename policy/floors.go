package policy

// floors are refusals that no policy can lower.
func floors(c Call, f Facts) []RuleHit { return nil }

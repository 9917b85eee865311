package sandbox

// changesOf lists what a write layer holds over the tree it was laid on.
func changesOf(upper, lower string) ([]Change, error) { return nil, nil }

package sandbox

// After is what a write or an edit makes of a file's content: the function that
// the Workspace itself applies, for showing a change before it is made.
func (o FileOp) After(before []byte) ([]byte, error) {
	switch {
	case o.Write != nil:
		return o.Write.Content, nil
	case o.Edit != nil:
		after, _, err := replaceText(o.Path, before, *o.Edit)
		return after, err
	}
	return nil, nil // moved or removed
}

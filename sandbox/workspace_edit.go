//go:build linux

package sandbox

import (
	"errors"
	"fmt"
)

// edit replaces exact text. A file with CRLF line ends is matched and written
// with CRLF whatever the line ends of Old and New; a byte order mark stays.
func (w *Workspace) edit(op FileOp, expect map[string]string) (FileResult, error) {
	if op.Edit == nil {
		return FileResult{}, incomplete(op)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	s, err := w.findFor(op, follow)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	old, _, err := s.load(MaxEditFile)
	if err != nil {
		var big errTooLarge
		if errors.As(err, &big) {
			return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("edit %s: %v", op.Path, big), Remedy: "edit it with run_command (sed -i) and ask to write"}
		}
		return FileResult{}, failure("edit", op.Path, err)
	}
	before := hexSum(old)
	if want, ok := expected(expect, op.Path, s.path); ok && want != before {
		return FileResult{}, stale("edit", op.Path)
	}
	content, n, err := replaceText(op.Path, old, *op.Edit)
	if err != nil {
		return FileResult{}, err
	}
	res, err := w.settle(op, s, before, content)
	res.Replaced = n
	return res, err
}

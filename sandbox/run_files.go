package sandbox

import (
	"context"
	"fmt"
	"maps"
)

// files checks what the decision expects of the workspace, before anything
// happens, and then runs the Action's file operations in order.
func (r *Runner) files(ctx context.Context, a Action, t Terms, res *Result) error {
	if len(a.Files) == 0 && len(t.Expect) == 0 {
		return nil
	}
	w, err := OpenWorkspace(a.Workspace)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := expectFiles(w, t.Expect); err != nil {
		return err
	}
	left := maps.Clone(t.Expect)
	for _, op := range a.Files {
		f, err := w.Do(ctx, op, left)
		if err != nil {
			return err
		}
		res.Files = append(res.Files, f)
		if f.Change != nil { // our own change is no surprise to what follows
			delete(left, op.Path)
			delete(left, op.To)
		}
	}
	return nil
}

func expectFiles(w *Workspace, expect map[string]string) error {
	for p, want := range expect {
		have := ""
		if w.Exists(p) {
			var err error
			if have, err = w.Digest(p); err != nil {
				return err
			}
		}
		if have != want {
			return &Error{Kind: KindStale, Msg: fmt.Sprintf("%s changed after the call was judged", p),
				Remedy: "read it again and repeat the call, so that what runs is what was judged"}
		}
	}
	return nil
}

package sandbox

import (
	"context"
	"maps"
)

// files checks what the decision expects of the workspace, before anything
// happens, and then runs the Action's file operations in order. It returns what is
// still expected of the files that they did not touch.
func (r *Runner) files(ctx context.Context, a Action, t Terms, res *Result) (left map[string]string, err error) {
	if len(a.Files) == 0 && len(t.Expect) == 0 {
		return nil, nil
	}
	w, err := OpenWorkspace(a.Workspace)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := expectFiles(w, t.Expect); err != nil {
		return nil, err
	}
	left = maps.Clone(t.Expect)
	for _, op := range a.Files {
		f, err := w.Do(ctx, op, left)
		if err != nil {
			return left, err
		}
		res.Files = append(res.Files, f)
		if f.Change != nil { // our own change is no surprise to what follows
			delete(left, op.Path)
			delete(left, op.To)
		}
	}
	return left, nil
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
			return changedSince(p)
		}
	}
	return nil
}

// changedSince refuses to run what is not what was judged.
func changedSince(path string) error {
	return &Error{Kind: KindStale, Msg: path + " changed after the call was judged",
		Remedy: "read it again and repeat the call, so that what runs is what was judged"}
}

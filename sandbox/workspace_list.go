//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

func (w *Workspace) list(ctx context.Context, op FileOp) (FileResult, error) {
	want := List{}
	if op.List != nil {
		want = *op.List
	}
	s, err := w.findFor(op, follow)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	res := FileResult{Path: s.path}
	t := tree{ctx: ctx, hidden: want.Hidden, depth: max(want.Depth, 1)}
	t.visit = func(at found) error {
		res.Total++
		if res.Total <= want.Offset {
			return nil
		}
		if len(res.Entries) >= maxEntries {
			res.Cut = true
			return nil
		}
		e, err := entryAt(&at.spot)
		if err == nil {
			res.Entries = append(res.Entries, e)
		}
		return nil
	}
	if err := w.walked(&t, s, op); err != nil {
		return FileResult{}, err
	}
	res.Skipped = t.skipped
	return res, nil
}

// walked runs a walk for op and words its failure.
func (w *Workspace) walked(t *tree, s *spot, op FileOp) error {
	st, err := s.stat()
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("%s %s: it is not a directory", op.Op, op.Path), Remedy: "name a directory, or read the file"}
	}
	if err == nil {
		err = w.walkFrom(s, t)
	}
	switch {
	case t.ctx.Err() != nil:
		return canceled(string(op.Op), op.Path, t.ctx.Err())
	case err != nil:
		return failure(string(op.Op), op.Path, err)
	}
	return nil
}

func entryAt(s *spot) (Entry, error) {
	st, err := s.stat()
	if err != nil {
		return Entry{}, err
	}
	kind := "other"
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		kind = "file"
	case unix.S_IFDIR:
		kind = "dir"
	case unix.S_IFLNK:
		kind = "link"
	}
	return Entry{Path: s.path, Kind: kind, Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()).UTC()}, nil
}

func (w *Workspace) glob(ctx context.Context, op FileOp) (FileResult, error) {
	if op.Glob == nil {
		return FileResult{}, incomplete(op)
	}
	if !doublestar.ValidatePattern(op.Glob.Pattern) {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("glob %s: %q is not a valid pattern", op.Path, op.Glob.Pattern),
			Remedy: `use *, **, ?, [abc] and {a,b}, such as "**/*.go"`}
	}
	s, err := w.findFor(op, follow)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	res := FileResult{Path: s.path}
	t := tree{ctx: ctx}
	t.visit = func(at found) error {
		if at.kind == unix.S_IFDIR || !globMatch(op.Glob.Pattern, below(s.path, at.path)) {
			return nil
		}
		if e, err := entryAt(&at.spot); err == nil {
			res.Entries = append(res.Entries, e)
		}
		return nil
	}
	if err := w.walked(&t, s, op); err != nil {
		return FileResult{}, err
	}
	slices.SortFunc(res.Entries, func(a, b Entry) int {
		if c := b.ModTime.Compare(a.ModTime); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	limit := op.Glob.Limit
	if limit <= 0 {
		limit = defaultGlob
	}
	limit = min(limit, maxEntries)
	res.Total, res.Skipped = len(res.Entries), t.skipped
	res.Entries = res.Entries[min(max(op.Glob.Offset, 0), res.Total):]
	if res.Cut = len(res.Entries) > limit; res.Cut {
		res.Entries = res.Entries[:limit]
	}
	return res, nil
}

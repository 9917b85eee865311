//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Bounds on file operations. Each is stated in the error or the Cut flag of
// whoever meets it.
const (
	DefaultReadLines = 2000      // lines a Read without Limit returns
	MaxReadFile      = 256 << 20 // bytes; a larger file is not read through OpRead
	MaxReadData      = 4 << 20   // bytes of lines one OpRead returns; more sets Cut
	MaxEditFile      = 64 << 20  // bytes; larger files are not edited or loaded whole
	maxEntries       = 2000      // entries of a list, and of a glob without Limit above it
	defaultGlob      = 100       // hits of a glob without Limit
)

// Do performs one operation beneath the workspace and reports what it did.
// expect maps workspace-relative paths to the hex SHA-256 their content must
// have ("" = absent); an operation on a file that differs fails with KindStale
// and changes nothing. A write is atomic: it happens whole or not at all. Every
// error is an *Error.
func (w *Workspace) Do(ctx context.Context, op FileOp, expect map[string]string) (FileResult, error) {
	res := FileResult{Path: op.Path}
	if err := ctx.Err(); err != nil {
		return res, canceled(string(op.Op), op.Path, err)
	}
	var err error
	switch op.Op {
	case OpRead:
		res, err = w.read(ctx, op, expect)
	case OpList:
		res, err = w.list(ctx, op)
	case OpGlob:
		res, err = w.glob(ctx, op)
	case OpSearch:
		res, err = w.search(ctx, op)
	case OpWrite:
		res, err = w.write(op, expect)
	case OpEdit:
		res, err = w.edit(op, expect)
	case OpMove:
		res, err = w.move(op, expect)
	case OpRemove:
		res, err = w.remove(op, expect)
	default:
		err = &Error{Kind: KindInvalid, Msg: fmt.Sprintf("run file operation %q on %s: no such operation", op.Op, op.Path),
			Remedy: "use read, list, glob, search, write, edit, move or remove"}
	}
	if err != nil {
		return FileResult{Path: op.Path}, err
	}
	return res, nil
}

// Root is the absolute, symlink-free path of the workspace.
func (w *Workspace) Root() string { return w.root }

// relativeTo turns an absolute path into one relative to root; false when it lies
// elsewhere. It is a statement about text only.
func relativeTo(root, abs string) (string, bool) {
	rel, err := filepath.Rel(root, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// local checks the text of a workspace-relative path.
func local(act, p string) error {
	switch {
	case strings.ContainsRune(p, 0):
		return &Error{Kind: KindInvalid, Msg: fmt.Sprintf("%s %q: the path holds a NUL byte", act, p), Remedy: "give a path without control bytes"}
	case !filepath.IsLocal(p):
		return outside(act, p)
	}
	return nil
}

func outside(act, p string) error {
	return &Error{
		Kind: KindOutside, Msg: fmt.Sprintf("%s %s: the path leads out of the workspace", act, p),
		Remedy: "use a path inside the workspace, relative to its root; symbolic links may not leave it either",
	}
}

func canceled(act, p string, err error) error {
	return &Error{Kind: KindCanceled, Msg: fmt.Sprintf("%s %s: stopped before the end", act, p), Remedy: "repeat the call with a narrower path or pattern", Err: err}
}

func stale(act, p string) error {
	return &Error{
		Kind: KindStale, Msg: fmt.Sprintf("%s %s: the file changed since it was looked at; nothing was done", act, p),
		Remedy: "read the file again and repeat the call on what it holds now",
	}
}

// join is path.Join that keeps "." for the workspace itself.
func join(dir, name string) string { return path.Join(dir, name) }

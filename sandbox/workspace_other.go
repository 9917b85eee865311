//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
)

// Workspace is a directory tree that file operations cannot leave; it needs
// Linux's *at calls with O_PATH.
type Workspace struct{ root string }

// OpenWorkspace fails with an error that wraps errors.ErrUnsupported.
func OpenWorkspace(root string) (*Workspace, error) { return nil, unsupported("open", root) }

func unsupported(act, p string) error {
	return &Error{Kind: KindWalls, Msg: act + " " + p + ": file operations are not confined on " + runtime.GOOS,
		Remedy: "run sallyport on Linux", Err: errors.ErrUnsupported}
}

func (w *Workspace) Close() error { return unsupported("close", w.root) }

func (w *Workspace) ReadFile(p string, _ int64) ([]byte, error) { return nil, unsupported("read", p) }

func (w *Workspace) Digest(p string) (string, error) { return "", unsupported("digest", p) }

func (w *Workspace) Exists(string) bool { return false }

func (w *Workspace) Resolve(p string) (string, error) { return "", unsupported("resolve", p) }

func (w *Workspace) FS() fs.FS { return noFS{} }

type noFS struct{}

func (noFS) Open(name string) (fs.File, error) { return nil, unsupported("open", name) }

func (w *Workspace) Root() string { return w.root }

func (w *Workspace) Do(_ context.Context, op FileOp, _ map[string]string) (FileResult, error) {
	return FileResult{Path: op.Path}, unsupported(string(op.Op), op.Path)
}

package rego

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Event tells that an edit of a layer was tried.
type Event struct {
	Changed  bool   // another policy is in force
	Revision string // of the policy in force
	Err      error  // why the edit is not in force
}

// pollEvery is how often the layers' files are looked at. Polling sees what
// notification misses: network file systems, renamed directories, bind mounts.
// It costs one stat per file.
const pollEvery = 400 * time.Millisecond

// Watch reloads the policy when a file of a layer changes, and tells what came
// of it. It returns when ctx is done.
func (e *Engine) Watch(ctx context.Context, tell func(Event)) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	before := e.loaded
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := e.fingerprint()
		if now == before {
			continue
		}
		before = now
		changed, err := e.Reload(ctx)
		if ctx.Err() != nil {
			return
		}
		if changed || err != nil {
			tell(Event{Changed: changed, Revision: e.Revision(), Err: err})
		}
	}
}

// fingerprint changes when a file of a layer is added, removed or written.
func (e *Engine) fingerprint() string {
	var b strings.Builder
	for _, l := range e.options.Layers {
		if l.FS == nil {
			continue
		}
		if l.Accepted != nil {
			if digest, err := Digest(l); err == nil {
				fmt.Fprintf(&b, "%s %s %t\n", l.Name, digest, l.Accepted(digest))
			}
		}
		_ = fs.WalkDir(l.FS, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintf(&b, "%s %v\n", p, err)
				return nil
			}
			if info, err := d.Info(); err == nil && !d.IsDir() {
				fmt.Fprintf(&b, "%s %s %d %d\n", l.Name, p, info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
	}
	return b.String()
}

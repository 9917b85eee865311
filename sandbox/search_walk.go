//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// maxIgnoreFile bounds an ignore file, in bytes; a larger one is not read.
const maxIgnoreFile = 1 << 20

// maxDepth bounds how deep a walk goes.
const maxDepth = 256

// tree walks directories in path order without following links.
type tree struct {
	ctx     context.Context
	hidden  bool // do not apply ignore files, and show .git
	git     bool // enter directories named .git
	depth   int  // how many levels to enter; 0 means all
	visit   func(found) error
	skipped []string // what could not be read, at most maxSkipped
}

const maxSkipped = 20

// found is one name met by a walk. Its directory stays open while visit runs.
type found struct {
	spot
	kind  uint32 // unix.S_IFMT bits
	level int    // 1 for an entry of the directory where the walk began
}

var errTooDeep = fmt.Errorf("directories nested more than %d deep", maxDepth)

// errStop ends a walk early without being a failure.
var errStop = errors.New("stop")

// walkFrom visits what lies beneath the directory s. Ignore files from the
// workspace down to s hold too, unless they leave out s itself: who names an
// ignored directory wants to see it.
func (w *Workspace) walkFrom(s *spot, t *tree) error {
	f, err := s.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	var rules *ignoreRules
	if !t.hidden {
		rules = w.rulesAbove(s.path)
	}
	err = t.dir(f, s.path, rules, 1)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// rulesAbove reads the ignore files that hold for the directory p, without
// p's own.
func (w *Workspace) rulesAbove(p string) *ignoreRules {
	rules := (*ignoreRules)(nil)
	load := func(dir, file string) {
		if b, err := w.ReadFile(path.Join(dir, file), maxIgnoreFile); err == nil {
			rules = parseIgnore(rules, dir, b)
		}
	}
	load(".", ".git/info/exclude")
	if p == "." {
		return rules
	}
	load(".", ".gitignore")
	dir := "."
	for c := range strings.SplitSeq(p, "/") {
		sub := path.Join(dir, c)
		if rules.ignores(sub, true) {
			return nil
		}
		if dir = sub; dir != p {
			load(dir, ".gitignore")
		}
	}
	return rules
}

func (t *tree) dir(f *os.File, p string, rules *ignoreRules, level int) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		t.skip(p, err)
		return nil
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	fd := int(f.Fd())
	if !t.hidden && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == ".gitignore" }) {
		at := spot{dir: fd, name: ".gitignore", path: join(p, ".gitignore")}
		if b, _, err := at.load(maxIgnoreFile); err == nil {
			rules = parseIgnore(rules, p, b)
		}
	}
	for _, e := range entries {
		at := found{spot: spot{dir: fd, name: e.Name(), path: join(p, e.Name())}, kind: kindOf(e), level: level}
		if !t.hidden && (e.Name() == ".git" || rules.ignores(at.path, at.kind == unix.S_IFDIR)) {
			continue
		}
		if err := t.visit(at); err != nil {
			return err
		}
		if at.kind != unix.S_IFDIR || e.Name() == ".git" && !t.git || t.depth > 0 && level >= t.depth {
			continue
		}
		if level >= maxDepth {
			t.skip(at.path, errTooDeep)
			continue
		}
		if err := t.enter(at, rules); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) enter(at found, rules *ignoreRules) error {
	f, err := at.openDir()
	if err != nil {
		t.skip(at.path, err)
		return nil
	}
	defer f.Close()
	return t.dir(f, at.path, rules, at.level+1)
}

func (t *tree) skip(p string, err error) {
	if len(t.skipped) < maxSkipped {
		t.skipped = append(t.skipped, p+": "+err.Error())
	}
}

func kindOf(e os.DirEntry) uint32 {
	switch {
	case e.IsDir():
		return unix.S_IFDIR
	case e.Type().IsRegular():
		return unix.S_IFREG
	case e.Type()&os.ModeSymlink != 0:
		return unix.S_IFLNK
	}
	return unix.S_IFIFO // anything else is only ever told apart from those
}

// globMatch compares a path below the start of a walk with a pattern. As in
// ripgrep and gitignore a pattern without a slash is for the base name, at any
// depth.
func globMatch(pattern, rel string) bool {
	if !strings.Contains(pattern, "/") {
		rel = path.Base(rel)
	}
	ok, err := doublestar.Match(strings.TrimPrefix(pattern, "./"), rel)
	return ok && err == nil
}

func below(start, p string) string {
	if start == "." {
		return p
	}
	return strings.TrimPrefix(p, start+"/")
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// restore puts every file back as it was; from one that somebody changed since
// it takes sallyport's entries only.
func (i *installer) restore() error {
	saved, err := i.saved()
	if err != nil {
		return err
	}
	doc := installed{Host: i.host.name, Root: i.root, Files: []changedFile{}}
	for _, o := range saved {
		c, err := i.restoreFile(o)
		if err != nil {
			return fmt.Errorf("restore %s: %w", o.File, err)
		}
		doc.Files = append(doc.Files, c)
	}
	if len(saved) > 0 {
		if err := os.Remove(i.kept); err != nil {
			return err
		}
	}
	return i.report(doc)
}

// restoreFile puts one file back.
func (i *installer) restoreFile(o original) (changedFile, error) {
	now, err := os.ReadFile(i.path(o.File))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return changedFile{File: o.File, What: "gone"}, nil
	case err != nil:
		return changedFile{}, err
	case string(now) == string(o.After):
		return changedFile{File: o.File, What: "restored"}, i.undo(o)
	}
	after, err := i.without(o, now)
	if err != nil {
		return changedFile{}, err
	}
	return changedFile{o.File, "taken out", diff(o.File, now, after)}, replaceFile(i.path(o.File), after)
}

// report says what uninstall did.
func (i *installer) report(doc installed) error {
	out := i.cmd.OutOrStdout()
	if wantsJSON(i.cmd) {
		return printJSON(out, doc)
	}
	if len(doc.Files) == 0 {
		fmt.Fprintf(out, "nothing to restore: sallyport is not installed in %s for %s\n", i.root, i.host.title)
	}
	for _, c := range doc.Files {
		switch c.What {
		case "restored":
			fmt.Fprintln(out, "restored", c.File)
		case "gone":
			fmt.Fprintln(out, c.File, "is gone already")
		default:
			fmt.Fprint(out, c.Diff)
			fmt.Fprintln(out, "took sallyport out of", c.File+"; what was changed since the install stays")
		}
	}
	return nil
}

func (i *installer) undo(o original) error {
	if !o.Absent {
		return replaceFile(i.path(o.File), o.Data)
	}
	if err := os.Remove(i.path(o.File)); err != nil {
		return err
	}
	for dir := filepath.Dir(o.File); o.NewDir != ""; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(i.root, dir)) != nil || dir == o.NewDir {
			break // something else is in it by now
		}
	}
	return nil
}

// without is a file's content without what any install puts into it.
func (i *installer) without(o original, now []byte) ([]byte, error) {
	for _, opt := range []installOptions{{}, {deny: true}, {hook: true}} {
		edits, err := i.host.files(o.Self, opt)
		if err != nil {
			continue // the host has no such option
		}
		for _, e := range edits {
			if e.file != o.File {
				continue
			}
			if now, err = e.take(now, o.Data); err != nil {
				return nil, err
			}
		}
	}
	return now, nil
}

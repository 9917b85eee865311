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
	out := i.cmd.OutOrStdout()
	if len(saved) == 0 {
		fmt.Fprintf(out, "nothing to restore: sallyport is not installed in %s for %s\n", i.root, i.host.title)
		return nil
	}
	for _, o := range saved {
		now, err := os.ReadFile(i.path(o.File))
		switch {
		case errors.Is(err, os.ErrNotExist):
			fmt.Fprintln(out, o.File, "is gone already")
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", o.File, err)
		case string(now) == string(o.After):
			err = i.undo(o)
		default:
			err = i.takeOut(o, now)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", o.File, err)
		}
	}
	return os.Remove(i.kept)
}

func (i *installer) undo(o original) error {
	fmt.Fprintln(i.cmd.OutOrStdout(), "restored", o.File)
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

// takeOut removes what install put into a file that was changed since.
func (i *installer) takeOut(o original, now []byte) error {
	after, err := i.without(o, now)
	if err != nil {
		return err
	}
	fmt.Fprint(i.cmd.OutOrStdout(), diff(o.File, now, after))
	fmt.Fprintln(i.cmd.OutOrStdout(), "took sallyport out of", o.File+"; what was changed since the install stays")
	return replaceFile(i.path(o.File), after)
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

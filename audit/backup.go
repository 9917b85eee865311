package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// Backup copies the log to the new directory to while it goes on: a log as it
// was at one moment, which OpenReadOnly and Verify take. The secret keys are
// copied only withKeys; without them the copy can be read and verified, and not
// continued.
func (r *Reader) Backup(ctx context.Context, to string, withKeys bool) error {
	if err := r.backup(ctx, to, withKeys); err != nil {
		return fmt.Errorf("back up the audit log: %w", err)
	}
	return nil
}

func (r *Reader) backup(ctx context.Context, to string, withKeys bool) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	names := []string{publicKeysFile, holdsFile}
	if withKeys {
		names = append(names, redactionKeyFile, signingKeyFile)
	}
	for _, name := range names {
		err := copyFile(filepath.Join(r.dir, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	next := Seq(0)
	for ctx.Err() == nil {
		// The list is read again each time: the newest segment may be full by now,
		// and the oldest retired.
		segs, _ := r.segments()
		i := slices.IndexFunc(segs, func(s segment) bool { return s.first >= next })
		if i < 0 {
			break
		}
		next = segs[i].first + 1
		target := filepath.Join(to, filepath.Base(segs[i].path))
		var err error
		if r.isLiveSegment(i) {
			err = r.view(i, func(tx *bbolt.Tx) error { return tx.CopyFile(target, 0o600) })
		} else {
			err = copyFile(segs[i].path, target)
		}
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return syncDir(to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

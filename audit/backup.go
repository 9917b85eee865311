package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

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
	// The newest first: what it tells of the older ones is then true of their
	// files already.
	older, err := r.copyNewest(to)
	if err != nil {
		return err
	}
	for _, seg := range older {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := copyFile(seg.path, filepath.Join(to, filepath.Base(seg.path))); err != nil {
			return err
		}
	}
	return syncDir(to)
}

var errFull = errors.New("the newest segment is full and no other follows; run `sallyport audit verify`")

// copyNewest copies the newest segment and lists the others.
func (r *Reader) copyNewest(to string) ([]segment, error) {
	for try := 0; ; try++ {
		segs, _ := r.segments()
		if len(segs) == 0 {
			return nil, ErrNoRecord
		}
		last := len(segs) - 1
		err := r.view(segs[last], func(tx *bbolt.Tx) error {
			if s, err := readState(tx); err != nil || s.sealed {
				return errors.Join(err, errFull)
			}
			return tx.CopyFile(filepath.Join(to, filepath.Base(segs[last].path)), 0o600)
		})
		if errors.Is(err, errFull) && try < 100 {
			time.Sleep(10 * time.Millisecond) // the next segment is about to appear
			continue
		}
		return segs[:last], err
	}
}

// Backup does what Reader.Backup does while no segment is retired.
func (l *Log) Backup(ctx context.Context, to string, withKeys bool) error {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	return l.Reader.Backup(ctx, to, withKeys)
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

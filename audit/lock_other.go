//go:build !linux

package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func lockDir(string) (io.Closer, error) {
	return nil, fmt.Errorf("lock the log: %w on this system; keep the audit log on Linux", errors.ErrUnsupported)
}

func lockHeld(string) (bool, error) {
	return false, fmt.Errorf("ask who has the log: %w on this system", errors.ErrUnsupported)
}

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

func reserve(*os.File, int64) error { return errors.ErrUnsupported }

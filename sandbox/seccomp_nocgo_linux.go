//go:build !cgo

package sandbox

import (
	"errors"
	"fmt"
	"os"
)

// compileFilter fails: libseccomp is a C library. Without its filter no
// command runs.
func compileFilter(filterKind) ([]*os.File, error) {
	return nil, fmt.Errorf("sallyport was built without cgo: %w", errors.ErrUnsupported)
}

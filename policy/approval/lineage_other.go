//go:build !linux

package approval

import (
	"errors"
	"fmt"
)

// DescendsFrom is known on Linux only.
func DescendsFrom(int, int) (bool, error) {
	return false, fmt.Errorf("look for the parents of a process: %w", errors.ErrUnsupported)
}

//go:build !linux

package sandbox

import (
	"os"
	"path/filepath"
)

// SearchPath is where commands would be looked up, first match first.
func SearchPath() []string { return filepath.SplitList(os.Getenv("PATH")) }

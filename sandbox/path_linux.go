package sandbox

import (
	"os"
	"path/filepath"
)

// SearchPath is where a cell's commands are looked up, first match first.
func SearchPath() []string {
	return filepath.SplitList(findToolchains(homeDir(), os.Getenv).env["PATH"])
}

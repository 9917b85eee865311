//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGroupsOfDeadDaemonsAreSwept looks for them all over the tree, and leaves
// alone whatever else is there. Plain folders stand in for groups.
func TestGroupsOfDeadDaemonsAreSwept(t *testing.T) {
	t.Parallel()
	root := newWorkspace(t)
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	dead, alive := gone.Process.Pid, os.Getpid()
	old := time.Now().Add(-2 * sweepAge)
	for _, tc := range []struct {
		path  string
		old   bool
		stays bool
	}{
		{fmt.Sprintf("user.slice/session-1/%s%d-a", groupPrefix, dead), true, false},
		{fmt.Sprintf("%s%d-b", groupPrefix, dead), true, false},
		{fmt.Sprintf("a/b/c/%s%d-c", groupPrefix, dead), false, true},
		{fmt.Sprintf("a/b/c/%s%d-d", groupPrefix, alive), true, true},
		{fmt.Sprintf("a/b/c/other-%d-e", dead), true, true},
		{fmt.Sprintf("a/%s%d-f/full", groupPrefix, dead), true, true},
	} {
		dir := filepath.Join(root, tc.path)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		if tc.old {
			require.NoError(t, os.Chtimes(dir, old, old))
		}
		sweepTrees([]string{root})
		if tc.stays {
			assert.DirExists(t, dir)
		} else {
			assert.NoDirExists(t, dir)
		}
	}
}

package approval_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

func TestDescent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pid, ancestor int
		want          bool
	}{
		{os.Getpid(), os.Getpid(), true},
		{os.Getpid(), os.Getppid(), true},
		{os.Getppid(), os.Getpid(), false},
		{1, os.Getpid(), false},
	} {
		got, err := approval.DescendsFrom(tc.pid, tc.ancestor)
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%d from %d", tc.pid, tc.ancestor)
	}
	_, err := approval.DescendsFrom(1<<30, 1)
	require.Error(t, err, "who is not there is not cleared")
}

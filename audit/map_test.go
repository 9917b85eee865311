package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is trimmed while it is read is read again, as it is then.
func TestMappedFileThatIsCutIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	calls := 0
	require.NoError(t, mapped(path, func(b []byte) error {
		if calls++; calls == 1 {
			require.NoError(t, os.Truncate(path, 8192))
		}
		sum := byte(0)
		for _, c := range b {
			sum |= c
		}
		require.Zero(t, sum)
		require.Len(t, b, 8192)
		return nil
	}))
	require.Equal(t, 2, calls)
	require.Error(t, mapped(path, func([]byte) error { return os.ErrInvalid }), "an error of its own stays")
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, mapped(path, func(b []byte) error { require.Empty(t, b); return nil }))
}

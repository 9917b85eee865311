package secret

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each row has a loose form or a strict one, and no two rows of one kind are the
// same.
func TestFormatsAreWhole(t *testing.T) {
	t.Parallel()
	type key struct{ literal, loose, strict string }
	seen := map[key]bool{}
	loose, strict := 0, 0
	for _, f := range Formats() {
		require.NotEmpty(t, f.Literal)
		k := key{f.Literal, f.Loose, f.Strict}
		require.False(t, seen[k], "%s stands twice", f.Literal)
		seen[k] = true
		if f.Set != "" || f.Loose != "" {
			loose++
			require.NotEmpty(t, f.Kind, f.Literal)
			require.GreaterOrEqual(t, len(f.Literal), 3, f.Literal)
			require.Equal(t, f.Set != "", f.Min > 0, f.Literal)
			require.False(t, f.Set != "" && f.Loose != "", f.Literal)
		}
		require.Equal(t, f.Strict != "", f.Finding != "", f.Literal)
		if f.Strict != "" {
			strict++
		}
		require.True(t, f.Strict != "" || f.Kind != "", f.Literal)
		for _, re := range []string{f.Loose, f.Strict} {
			_, err := regexp.Compile(re)
			require.NoError(t, err)
		}
	}
	// As many as stood in the two tables that this one was made of, at least.
	require.GreaterOrEqual(t, loose, 100)
	require.GreaterOrEqual(t, strict, 49)
}

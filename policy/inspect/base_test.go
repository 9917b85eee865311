package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command in a folder that only the run knows still has a name, so rules hold;
// it never inherits what a system program of that name may do.
func TestNameInAnUnknownFolder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, program     string
		opaque, lookalike bool
	}{
		{`"$(go env GOPATH)/bin/actionlint" x.yml`, "actionlint", false, false},
		{`"$(cat d)/rm" -rf /`, "rm", false, true},
		{`"$(cat d)/python3.12" x.py`, "python", false, true},
		{`"$(cat d)/b$(cat e)"`, "", true, false},
		{`"$(cat d)/"`, "", true, false},
		{`"$(cat d)"`, "", true, false},
		{`"$(cat d)/a*"`, "", true, false},
	} {
		f := look(t, nil, tc.text)
		require.NotEmpty(t, f.Cmds, tc.text)
		found := false
		for _, c := range f.Cmds {
			if c.Program == "cat" || c.Program == "go" {
				continue
			}
			found = true
			assert.Equal(t, tc.program, c.Program, tc.text)
			assert.Equal(t, tc.opaque, c.Opaque.Name, tc.text)
			assert.Equal(t, tc.lookalike, c.Lookalike, tc.text)
			assert.Empty(t, c.Path, tc.text)
		}
		assert.True(t, found, tc.text)
	}
}

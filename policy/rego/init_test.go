package rego

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStarter(t *testing.T) {
	t.Parallel()
	for _, layer := range []string{"administrator", "user", "project"} {
		texts, err := Starter(layer)
		require.NoError(t, err)
		dir := fstest.MapFS{}
		for name, text := range texts {
			dir[name] = &fstest.MapFile{Data: []byte(text)}
		}
		report, err := Test(context.Background(), Layer{Name: layer, FS: dir})
		require.NoError(t, err)
		assert.Equal(t, 2, report.Passed)
		assert.True(t, report.OK())
		assert.Equal(t, 100.0, report.Coverage)
	}
	_, err := Starter("rules")
	assert.ErrorContains(t, err, "cannot be a policy layer")
}

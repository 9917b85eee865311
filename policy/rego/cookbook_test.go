package rego

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every recipe of docs/policy.md is a layer that loads, passes its own tests and
// stands in the page word for word.
func TestCookbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	require.NoError(t, err)
	root := os.DirFS(filepath.Join("testdata", "cookbook"))
	recipes, err := fs.ReadDir(root, ".")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(recipes), 10)
	for _, recipe := range recipes {
		t.Run(recipe.Name(), func(t *testing.T) {
			t.Parallel()
			layers, err := fs.ReadDir(root, recipe.Name())
			require.NoError(t, err)
			require.Len(t, layers, 1, "one folder, named as the layer")
			dir, err := fs.Sub(root, path.Join(recipe.Name(), layers[0].Name()))
			require.NoError(t, err)
			report, err := Test(context.Background(), Layer{Name: layers[0].Name(), FS: dir})
			require.NoError(t, err)
			assert.Positive(t, report.Passed)
			assert.Empty(t, report.Failed)
			assert.Empty(t, report.Uncovered)

			assert.Contains(t, string(page), recipe.Name(), "the page names the folder")
			files, err := fs.ReadDir(dir, ".")
			require.NoError(t, err)
			for _, f := range files {
				if f.IsDir() || strings.HasSuffix(f.Name(), "_test.rego") {
					continue
				}
				text, err := fs.ReadFile(dir, f.Name())
				require.NoError(t, err)
				assert.Contains(t, string(page), string(text), "%s stands in the page", f.Name())
			}
		})
	}
}

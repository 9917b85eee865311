package rego

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The built-in rules hold their own tests, every rule is made to fire by one,
// and the tests reach the threshold a team's layer is held to.
func TestBuiltinRules(t *testing.T) {
	t.Parallel()
	report, err := Test(context.Background())
	require.NoError(t, err)
	for _, f := range report.Failed {
		t.Errorf("%s: %s: %s", f.At, f.Name, f.Reason)
	}
	assert.Empty(t, report.Uncovered, "rules no test makes fire")
	assert.GreaterOrEqual(t, report.Coverage, 85.0)
	t.Logf("%d passed, coverage %.1f %%", report.Passed, report.Coverage)
}

// Plain `opa test policies/` loads and passes the same files: the tester's own
// loader is what that command runs.
func TestPlainOPATestPasses(t *testing.T) {
	t.Parallel()
	modules, store, err := tester.Load([]string{filepath.Join("..", "..", "policies")}, nil)
	require.NoError(t, err)
	results, err := tester.NewRunner().SetTimeout(time.Minute).SetStore(store).SetModules(modules).RunTests(context.Background(), nil)
	require.NoError(t, err)
	n := 0
	for r := range results {
		n++
		assert.True(t, r.Pass(), "%s", r)
	}
	assert.Positive(t, n)
}

package rego

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRolesOfTwoRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ a, b, want []string }{
		{nil, nil, nil},
		{[]string{"release"}, nil, []string{"release"}},
		{nil, []string{"dba", "release"}, []string{"dba", "release"}},
		{[]string{"dba", "release"}, []string{"release", "lead"}, []string{"release"}},
		{[]string{"dba"}, []string{"release"}, []string{"dba and release"}}, // nobody's
	} {
		assert.Equal(t, tc.want, bothRoles(tc.a, tc.b))
	}
}

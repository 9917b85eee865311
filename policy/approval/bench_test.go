package approval_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

func benchDesk(b *testing.B, pending int) *approval.Desk {
	d, err := approval.Open(filepath.Join(b.TempDir(), "state.db"), approval.Options{MaxPending: 1 << 20})
	require.NoError(b, err)
	b.Cleanup(func() { d.Close() })
	for i := range pending {
		_, err := d.Settle(b.Context(), edit(args(fmt.Sprint(i)), func(a *approval.Ask) {
			a.Show.Diff = strings.Repeat("+x\n", 1000)
		}))
		require.NoError(b, err)
	}
	return d
}

// BenchmarkList lists 1,000 waiting requests; the goal is 100 ms.
func BenchmarkList(b *testing.B) {
	d := benchDesk(b, 1000)
	for b.Loop() {
		all, err := d.List(approval.Filter{})
		require.NoError(b, err)
		require.Len(b, all, 1000)
	}
}

// BenchmarkSettle makes a new request while 100 wait; the goal is 200 ms.
func BenchmarkSettle(b *testing.B) {
	d := benchDesk(b, 100)
	i := 0
	for b.Loop() {
		i++
		out, err := d.Settle(b.Context(), edit(args(fmt.Sprintf(`"b%d"`, i))))
		require.NoError(b, err)
		require.NoError(b, d.Withdraw(out.Request.ID, "bench"))
	}
}

// BenchmarkFrozen is what every call pays.
func BenchmarkFrozen(b *testing.B) {
	d := benchDesk(b, 0)
	require.NoError(b, d.Freeze(approval.Scope{Agent: "other"}, ann))
	for b.Loop() {
		d.Frozen("claude-code")
	}
}

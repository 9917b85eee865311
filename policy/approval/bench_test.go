package approval_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/cmd/bench"
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
	var text []byte
	list := func() {
		all, err := d.List(approval.Filter{})
		require.NoError(b, err)
		require.Len(b, all, 1000)
		if text == nil {
			text, err = json.Marshal(all)
			require.NoError(b, err)
		}
	}
	parse := func() {
		var all []approval.Request
		require.NoError(b, json.Unmarshal(text, &all))
	}
	list()
	for b.Loop() {
		m := bench.Medians(20, list, parse)
		bench.Row(b, "approval/list 1000 pending", "ms", float64(m[0])/1e6, float64(m[1])/1e6, "reading the same as one JSON text")
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

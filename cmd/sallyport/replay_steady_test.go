package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSteadyTakesAwayWhatEachRunHasAnew(t *testing.T) {
	for _, c := range []struct{ then, now string }{
		{"ok  \tapp/pkg\t0.003s", "ok  \tapp/pkg\t(cached)"},
		{"--- PASS: TestA (0.00s)", "--- PASS: TestA (1.20s)"},
		{"[main 1a2b3c4] add", "[main f0e1d2c] add"},
		{"Date:   Sun Nov 29 15:53:41 2026 +0000", "Date:   Mon Nov 30 01:02:03 2026 +0000"},
		{"at 2026-11-29T15:53:41.123Z", "at 2026-12-01T00:00:00Z"},
		{"wrote /tmp/go-build12/a.out: done", "wrote /tmp/go-build99/a.out: done"},
		{"0xc000012345", "0xc0000fffff"},
		{"\x1b[32mok\x1b[0m", "ok"},
		{"real 0m1.234s", "real 0m0.004s"},
	} {
		require.Equal(t, steady(c.then), steady(c.now))
	}
	for _, c := range []struct{ then, now string }{
		{"3 passed", "4 passed"}, {"exit status 1", "exit status 2"}, {"total 123456789", "total 123456788"},
		{"deadbeef in words", "defaced in words"}, {"version 1.2.3", "version 1.2.4"}, {"a\nb", "a b"},
	} {
		require.NotEqual(t, steady(c.then), steady(c.now))
	}
}

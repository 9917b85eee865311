package inspect

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/require"
)

func TestNeedleOfAGlob(t *testing.T) {
	for glob, want := range map[string]string{
		"**/.env.*":             ".env.",
		"/etc/cron*/**":         "etc/cron",
		"**/k8s/**":             "k8s",
		"{**/,}conftest.py":     "conftest.py",
		"a/{b,c}/long-name.txt": "long-name.txt",
		"a{b{c,d},e}long":       "a",
		`ab\*cde`:               "ab",
		"ab[]x]cde":             "ab",
		"**":                    "",
	} {
		require.Equal(t, want, needle(glob), glob)
	}
}

// FuzzNeedle: what a glob matches holds its needle.
func FuzzNeedle(f *testing.F) {
	f.Add("{**/,}a{b,c}*.go", "x/abz.go")
	f.Add("**/a/**", "a")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if ok, err := doublestar.Match(glob, path); err == nil && ok {
			require.Contains(t, path, needle(glob), "%q matches %q", glob, path)
		}
	})
}

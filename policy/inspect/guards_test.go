package inspect

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
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

// A glob stands for what it may match; a sample of a secret file is none.
func TestGuardOfGlobsAndSamples(t *testing.T) {
	t.Parallel()
	g := compileGuards(map[policy.Guard][]string{policy.GuardSecret: {"**/.env", "**/.env.*", "**/id_rsa", "**/*.pem"}, policy.GuardConfig: {"**/Dockerfile"}})
	for path, want := range map[string]policy.Guard{
		".env": policy.GuardSecret, ".env.local": policy.GuardSecret, "a/.env*": policy.GuardSecret, "id_*": policy.GuardSecret, "*.pem": policy.GuardSecret,
		".env.example": "", ".env.sample": "", "a/.env.template": "", "*": "", "*.txt": "", "e*": "", "Dock*": policy.GuardConfig,
	} {
		require.Equal(t, want, g.match(path, "/w/"+path), path)
	}
}

package inspect

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNeedles(t *testing.T) {
	for expr, want := range map[string][]string{
		`\bchmod\s+777\b`:             {"chmod"},
		`a|bc`:                        {"a", "bc"},
		`(?:curl|wget)\b.*\|\s*sh`:    {"curl", "wget"},
		`(x)+yz?`:                     {"x"},
		`x{2,}`:                       {"x"},
		`(?i)drop table`:              nil,
		`[a-z]+`:                      nil,
		`(?:abc)?`:                    nil,
		`(?:abc)*d`:                   {"d"},
		`abc|[0-9]`:                   nil,
		`^(?:foo(?:bar|baz))$`:        {"foo"},
		`(?m:^rm -rf$)`:               {"rm -rf"},
		`(?:longer|word)\s(?:a|bcde)`: {"longer", "word"},
	} {
		require.ElementsMatch(t, want, prefilter(regexp.MustCompile(expr)).needles, expr)
	}
}

// FuzzPrefilter: the question before an expression never changes its answer.
func FuzzPrefilter(f *testing.F) {
	f.Add(`\b(?:curl|wget)\b[^|]*\|\s*(?:ba)?sh\b`, "curl x | bash")
	f.Add(`(?i)ab|cd{0,2}`, "AB")
	f.Add(`(a|b)*c+|\x00é`, "é")
	f.Add("a\ufffdb", "a\xffb")
	f.Fuzz(func(t *testing.T, expr, text string) {
		re, err := regexp.Compile(expr)
		if err != nil || len(expr) > 100 || len(text) > 1000 {
			return
		}
		p := prefilter(re)
		if got, want := p.MatchString(text), re.MatchString(text); got != want {
			t.Fatalf("%q on %q: %v behind %q, %v alone", expr, text, got, p.needles, want)
		}
	})
}

package approval_test

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

// Whatever happens in whatever order, restarts included: a call never runs more
// often than people approved exactly that call.
func TestRunsNeverExceedApprovals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		f := newFixture(t)
		rnd := rand.New(rand.NewPCG(seed, 7))
		calls := []approval.Ask{edit(), edit(args(`1`)), edit(args(`2`), func(a *approval.Ask) { a.Subject.Session = "s2" })}
		var approved, ran [3]int
		var running []string
		for range 150 {
			i := rnd.IntN(len(calls))
			switch rnd.IntN(8) {
			case 0, 1, 2:
				out := f.settle(t, calls[i])
				if out.State == approval.StateApproved {
					ran[i]++
					running = append(running, out.Request.ID)
				}
			case 3, 4:
				if r, ok := f.waiting(t, calls[i]); ok {
					_, err := f.Approve(r.ID, bob, approval.ApproveOptions{})
					require.NoError(t, err)
					approved[i]++
				}
			case 5:
				if r, ok := f.waiting(t, calls[i]); ok && rnd.IntN(2) == 0 {
					_, err := f.Deny(r.ID, bob, "", "")
					require.NoError(t, err)
				}
			case 6:
				f.pass(time.Duration(rnd.IntN(12)) * time.Minute)
				if len(running) > 0 && rnd.IntN(2) == 0 {
					require.NoError(t, f.Finish(running[0], "ok"))
					running = running[1:]
				}
			case 7:
				f.reopen(t)
			}
			for k := range calls {
				require.LessOrEqual(t, ran[k], approved[k], "seed %d, call %d", seed, k)
			}
		}
		require.NotZero(t, ran[0]+ran[1]+ran[2], "seed %d lets nothing run and shows nothing", seed)
	}
}

// waiting is the request of a call that waits for a person.
func (f *fixture) waiting(t *testing.T, a approval.Ask) (approval.Request, bool) {
	t.Helper()
	all, err := f.List(approval.Filter{States: []approval.State{approval.StatePending}})
	require.NoError(t, err)
	for _, r := range all {
		if r.Digest == a.Subject.Digest() {
			return r, true
		}
	}
	return approval.Request{}, false
}

// The oracle is the meaning of "visible": what comes out is printable, and every
// character that went in is there, as itself or by its code.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"plain", "a\x1b[2Jb", "\u202egnp.exe", "pаypal", "\xff\xfe", "e\u0301\u0e19\u0e49", "‹U+0041›", "\U000E0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := approval.Visible(s)
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			if !unicode.IsPrint(r) && !unicode.Is(unicode.M, r) {
				t.Fatalf("%q shows %U", s, r)
			}
		}
		require.GreaterOrEqual(t, utf8.RuneCountInString(out), utf8.RuneCountInString(s), "%q loses characters", s)
	})
}

// The oracle is the input: no line of a diff is lost or changed.
func FuzzDiffLines(f *testing.F) {
	f.Add("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n b\n")
	f.Add("@@ -9999999999999999999 +1 @@\n+x")
	f.Add("@@ -1,-5 +1,-5 @@\n\n\n")
	f.Fuzz(func(t *testing.T, diff string) {
		var b strings.Builder
		for _, l := range approval.DiffLines(diff) {
			b.WriteString(l.Text + "\n")
		}
		require.Equal(t, strings.TrimSuffix(diff, "\n"), strings.TrimSuffix(b.String(), "\n"))
	})
}

// The oracle is a shell: what is quoted for a person is what would be run.
func FuzzQuote(f *testing.F) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip("no bash on this machine")
	}
	for _, s := range []string{"plain", "", "it's", `a "b" $c`, "x\ny", "-n", "~", "a=b", "#", "日本", `\`, "*", "{a,b}"} {
		f.Add(s, "second")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) || len(a)+len(b) > 4096 {
			t.Skip() // an argument cannot hold NUL
		}
		out, err := exec.Command(bash, "--norc", "-c", `printf '%s\0' `+approval.Quote([]string{"-", a, b})).Output()
		require.NoError(t, err)
		require.Equal(t, []string{"-", a, b}, strings.Split(strings.TrimSuffix(string(bytes.Clone(out)), "\x00"), "\x00"))
	})
}

package tools

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkIsATrailerThatGitReads(t *testing.T) {
	m := Mark{Call: "k7", Agent: "claude code", Session: "cc-1\nSallyport-Call: x"}
	line := "Sallyport-Call: k7 agent=claude_code session=cc-1_Sallyport-Call:_x"
	for _, c := range []struct{ name, message, want string }{
		{"a first line", "Fix it", "Fix it\n\n" + line},
		{"a first line like a trailer", "fix: it", "fix: it\n\n" + line},
		{"a body", "Fix it\n\nBecause.\n", "Fix it\n\nBecause.\n\n" + line},
		{"trailers", "Fix it\n\nBecause.\n\nSigned-off-by: A <a@b.c>\nFixes: 1\n\n", "Fix it\n\nBecause.\n\nSigned-off-by: A <a@b.c>\nFixes: 1\n" + line},
		{"a forged mark", "Fix it\n\nSallyport-Call: other agent=x session=y", "Fix it\n\nSallyport-Call: other agent=x session=y\n" + line},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := m.sign(c.message)
			require.Equal(t, c.want, got)
			read, ok := ReadMark(got)
			require.True(t, ok)
			require.Equal(t, "k7", read.Call)
			require.Equal(t, "claude_code", read.Agent)
			cmd := exec.Command("git", "interpret-trailers", "--parse")
			cmd.Stdin = strings.NewReader(got + "\n")
			out, err := cmd.Output()
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(string(out), line+"\n"), "git reads %q", out)
		})
	}
	require.Equal(t, "Fix it\n", Mark{}.sign("Fix it\n"))
	_, ok := ReadMark("Fix it\n\nsays Sallyport-Call: k7 agent=x session=y in a sentence")
	require.False(t, ok)
}

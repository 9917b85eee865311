//go:build linux

package sandbox

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	const tabbed = "func main() {\n\tx := 1\n\ty := 1\n}\n"
	for _, tc := range []struct {
		name, before string
		edit         Edit
		after        string // or
		errs         []string
	}{
		{"once", "a b c", Edit{Old: "b", New: "B"}, "a B c", nil},
		{"delete", "a b c", Edit{Old: " b"}, "a c", nil},
		{"all", "x x x", Edit{Old: "x", New: "yy", All: true}, "yy yy yy", nil},
		{"CRLF by LF", "one\r\ntwo\r\nthree\r\n", Edit{Old: "one\ntwo", New: "1\n2"}, "1\r\n2\r\nthree\r\n", nil},
		{"CRLF, new line from one line", "one\r\ntwo\r\n", Edit{Old: "one", New: "one\nhalf"}, "one\r\nhalf\r\ntwo\r\n", nil},
		{"LF file keeps CR in the text", "a\nb\n", Edit{Old: "a", New: "a\r\n"}, "a\r\n\nb\n", nil},
		{"mixed line ends are exact", "a\r\nb\nc\n", Edit{Old: "b\nc", New: "B\nC"}, "a\r\nB\nC\n", nil},
		{"byte order mark", "\ufeffpackage a\n", Edit{Old: "package a", New: "package b"}, "\ufeffpackage b\n", nil},
		{"not UTF-8", "caf\xe9 old\n", Edit{Old: "old", New: "new"}, "caf\xe9 new\n", nil},
		{"several", "x\nx\n", Edit{Old: "x", New: "y"}, "", []string{"found 2 matches of old_string, lines 1, 2", "replace_all"}},
		{"many", strings.Repeat("x\n", 20), Edit{Old: "x", New: "y"}, "", []string{"found 20 matches", "9, 10, …"}},
		{"none", "abc", Edit{Old: "xyz", New: "y"}, "", []string{"old_string not found in the file"}},
		{"whitespace", tabbed, Edit{Old: "    x := 1\n    y := 1", New: "z"}, "", []string{"old_string not found", `line 2 differs only in whitespace: "\tx := 1"`}},
		{"whitespace inside a line", tabbed, Edit{Old: "y  := 1", New: "z"}, "", []string{`line 3 differs only in whitespace: "\ty := 1"`}},
		{"line numbers", tabbed, Edit{Old: "2\t\tx := 1", New: "z"}, "", []string{"line number"}},
		{"same", "abc", Edit{Old: "abc", New: "abc"}, "", []string{"are the same"}},
		{"empty", "abc", Edit{Old: "", New: "abc"}, "", []string{"old_string is empty", "write_file"}},
		{"only line ends", "a\r\nb\r\n", Edit{Old: "a\nb", New: "a\r\nb"}, "", []string{"only in line ends"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, _ := workspace(t, map[string]string{"f.txt": tc.before})
			r, err := do(t, w, FileOp{Op: OpEdit, Path: "f.txt", Edit: &tc.edit})
			if tc.errs != nil {
				e := wantKind(t, err, KindInvalid)
				assert.Contains(t, e.Msg, "edit f.txt: ")
				for _, text := range tc.errs {
					assert.Contains(t, e.Msg+"\n"+e.Remedy, text)
				}
				assert.Equal(t, tc.before, content(t, w.Root(), "f.txt"))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.after, content(t, w.Root(), "f.txt"))
			assert.Equal(t, hexSum([]byte(tc.after)), r.SHA256)
			assert.Equal(t, "modified", r.Change.Kind)
		})
	}
}

// FuzzEdit compares with strings.Replace wherever line ends play no part.
func FuzzEdit(f *testing.F) {
	f.Add("a b a", "a", "c", true)
	f.Add("x\r\ny\r\n", "x\ny", "z", false)
	f.Add("\ufeffa", "a", "b", false)
	f.Fuzz(func(t *testing.T, text, from, to string, all bool) {
		got, n, err := replaceText("f", []byte(text), Edit{Old: from, New: to, All: all})
		if usesCRLF([]byte(text)) {
			if err == nil && !strings.Contains(strings.ReplaceAll(from+to, "\r\n", ""), "\r") && !usesCRLF(got) && bytes.Contains(got, []byte("\n")) {
				// Only an edit that splits a CRLF by its own letters may break it.
				require.True(t, strings.HasPrefix(from, "\n") || strings.HasSuffix(from, "\r") || strings.HasPrefix(to, "\n") || strings.HasSuffix(to, "\r"), "%q %q %q", text, from, to)
			}
			return
		}
		count := strings.Count(text, from)
		if from == "" || from == to || count == 0 || count > 1 && !all {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, count, n)
		require.Equal(t, strings.ReplaceAll(text, from, to), string(got))
	})
}

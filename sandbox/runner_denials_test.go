package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDenialsAreWords(t *testing.T) {
	t.Parallel()
	d := denier{
		workspace: "/w", dir: "/w/sub", write: WriteDirect,
		protected: []string{"/w/.git/hooks", "/w/.git/config", "/w/sub/.envrc"}, hidden: []string{"/w/.env"}, pinned: []string{"/w/.git"},
	}
	ro := d
	ro.write = WriteNone
	online := d
	online.net = true
	careful := d
	careful.profile = "no-delete"
	strict := d
	strict.profile = profileStrict
	usual := d
	usual.profile = profileDefault
	debug := d
	debug.profile = profileDebug
	for _, tc := range []struct {
		d    denier
		line string
		want string
	}{
		{ro, "touch: cannot touch 'x': Read-only file system", "write to sub/x refused: the workspace is read-only at this tier"},
		{ro, "/bin/bash: line 1: x: Read-only file system", "write to sub/x refused: the workspace is read-only at this tier"},
		{ro, "OSError: [Errno 30] Read-only file system: 'x'", "write to sub/x refused: the workspace is read-only at this tier"},
		{ro, "Error: EROFS: read-only file system, open 'x'", "write to sub/x refused: the workspace is read-only at this tier"},
		{ro, "OSError: [Errno 30] Read-only file system", "a write refused: the workspace is read-only at this tier"},
		{ro, "cp: cannot create regular file '/usr/x': Read-only file system", "write to /usr/x refused: outside the workspace"},
		{d, "bash: ../.git/hooks/pre-commit: Read-only file system", "write to .git/hooks/pre-commit refused: protected path"},
		{d, "mv: cannot move '../.git' to '../x': Device or resource busy", "write to .git refused: protected path"},
		{d, "error: could not write config file /w/.git/config: Device or resource busy", "write to .git/config refused: protected path"},
		{d, "rm: cannot remove '.envrc': Device or resource busy", "write to sub/.envrc refused: protected path"},
		{d, "mv: cannot move 'new' to '.envrc': Read-only file system", "write to sub/.envrc refused: protected path"},
		{d, "cat: /w/.env: Permission denied", "read of .env refused: hidden path"},
		{d, "umount: /mnt/x: target is busy: Device or resource busy", ""},
		{d, "cat: other: Permission denied", ""},
		{d, "curl: (6) Could not resolve host: example.com", "network is off in this cell"},
		{d, "dial tcp: lookup example.com: no such host", "network is off in this cell"},
		{online, "curl: (6) Could not resolve host: example.com", "a host could not be reached: only the allowed hosts are, through the proxy"},
		{careful, "rm: cannot remove 'a': Operation not permitted", "removal of sub/a refused: the no-delete profile stops unlink, unlinkat and rmdir"},
		{d, "chmod: changing permissions of 'a': Operation not permitted", ""},
		{d, "all is well", ""},
		{strict, "OSError: [Errno 38] Function not implemented", "a system call refused: the strict profile has no sockets but pairs, and no System V IPC"},
		{usual, "Error: ENOSYS: function not implemented, io_uring_setup", "a system call refused: the default profile does not have it (io_uring, keyrings, userfaultfd and such)"},
		{usual, "warning: ptrace: Operation not permitted", "ptrace refused: the default profile lets no program trace another"},
		{debug, "warning: ptrace: Operation not permitted", ""},
		{usual, "note: built without ptrace support", ""},
	} {
		got := tc.d.explain("noise\n" + tc.line + "\n")
		if tc.want == "" {
			assert.Empty(t, got, tc.line)
			continue
		}
		if assert.Len(t, got, 1, tc.line) {
			assert.Equal(t, tc.want, got[0].What)
			assert.NotEmpty(t, got[0].Remedy)
		}
	}
}

func TestDenialsAreBoundedAndNotRepeated(t *testing.T) {
	t.Parallel()
	d := denier{workspace: "/w", dir: "/w", write: WriteNone}
	assert.Len(t, d.explain(strings.Repeat("touch: cannot touch 'x': Read-only file system\n", 500)), 1)
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, "touch: cannot touch 'x%d': Read-only file system\n", i)
	}
	assert.Len(t, d.explain(many.String()), maxDenials)
}

func TestCaptureKeepsWithinItsLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{-1, 1, 2, 7, 100, 4096} {
		for _, total := range []int{0, 1, 2, 6, 7, 8, 99, 100, 101, 1000, 10000} {
			for _, chunk := range []int{1, 3, 64, 10000} {
				c := capture{limit: limit}
				var all []byte
				for len(all) < total {
					n := min(chunk, total-len(all))
					p := make([]byte, n)
					for i := range p {
						p[i] = byte('a' + (len(all)+i)%26)
					}
					all = append(all, p...)
					c.write(p)
				}
				out := c.output()
				name := fmt.Sprintf("limit %d, %d bytes by %d", limit, total, chunk)
				assert.EqualValues(t, total, out.Total, name)
				if limit < 0 || int64(total) <= limit {
					assert.Equal(t, string(all), string(out.Data), name)
					assert.False(t, out.Cut(), name)
					continue
				}
				assert.LessOrEqual(t, int64(len(out.Data)), limit, name)
				assert.True(t, out.Cut(), name)
				head, tail, found := strings.Cut(string(out.Data), "\n[sallyport:")
				assert.True(t, strings.HasPrefix(string(all), head), name)
				if found {
					_, tail, _ = strings.Cut(tail, "]\n")
					assert.True(t, strings.HasSuffix(string(all), tail), name)
				}
			}
		}
	}
}

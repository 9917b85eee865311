package audit

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGitAnchorIsReadByGit lets git itself read what GitAnchor wrote.
func TestGitAnchorIsReadByGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	repo := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(context.Background(), "git", args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t.invalid")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	git("init", "-q")
	anchor := GitAnchor(filepath.Join(repo, ".git"))
	require.ErrorContains(t, anchor.Anchor(context.Background(), nil), "no commit yet")
	git("commit", "-q", "--allow-empty", "-m", "one")
	l := openTest(t, t.TempDir(), quiet())
	for n := range 3 {
		add(t, l, call(n))
		cp, err := l.Checkpoint()
		require.NoError(t, err)
		require.NoError(t, anchor.Anchor(context.Background(), cp))
		if n == 1 {
			git("pack-refs", "--all")
			git("gc", "-q")
		}
	}
	git("fsck", "--strict")
	assert.Equal(t, "3\n", git("rev-list", "--count", notesRef))
	got, err := ReadAnchors(bytes.NewReader([]byte(git("notes", "--ref", "sallyport-audit", "show"))))
	require.NoError(t, err)
	require.Len(t, got, 1)
	history, err := ReadAnchors(bytes.NewReader([]byte(git("log", "-p", notesRef))))
	require.NoError(t, err)
	rep, err := l.Reader.Verify(context.Background(), VerifyOptions{Anchors: append(history, got...)})
	require.NoError(t, err)
	assert.Equal(t, VerifyOK, rep.Status, rep.Problems)
}

func TestSyslogAnchor(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, SyslogAnchor("udp://"+conn.LocalAddr().String()).Anchor(context.Background(), []byte("checkpoint text")))
	buf := make([]byte, 4096)
	n, _, err := conn.ReadFrom(buf)
	require.NoError(t, err)
	got, err := ReadAnchors(bytes.NewReader(buf[:n]))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("checkpoint text")}, got)
	require.Error(t, SyslogAnchor("http://x").Anchor(context.Background(), nil))
}

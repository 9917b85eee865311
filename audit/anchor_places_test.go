package audit

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

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
	assert.Equal(t, "3\n", git("rev-list", "--count", NotesRef))
	got, err := ReadAnchors(bytes.NewReader([]byte(git("notes", "--ref", "sallyport-audit", "show"))))
	require.NoError(t, err)
	require.Len(t, got, 1)
	history, err := ReadAnchors(bytes.NewReader([]byte(git("log", "-p", NotesRef))))
	require.NoError(t, err)
	rep, err := l.Reader.Verify(context.Background(), VerifyOptions{Anchors: append(history, got...)})
	require.NoError(t, err)
	assert.Equal(t, VerifyOK, rep.Status, rep.Problems)
}

// TestRollbackIsDetectedByEachAnchor puts an older copy of the whole directory
// back, and asks each place what it was told.
func TestRollbackIsDetectedByEachAnchor(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@t.invalid"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	syslogd, journald := datagrams(t, "udp", "127.0.0.1:0"), datagrams(t, "unixgram", filepath.Join(t.TempDir(), "socket"))
	file := filepath.Join(t.TempDir(), "anchors")
	for _, place := range []struct {
		name   string
		anchor Anchor
		text   func() string
	}{
		{"file", FileAnchor(file), func() string { b, _ := os.ReadFile(file); return string(b) }},
		{"git notes", GitAnchor(filepath.Join(repo, ".git")), func() string { return git("log", "-p", "--format=", NotesRef) }},
		{"syslog", SyslogAnchor("udp://" + syslogd.addr), syslogd.text},
		{"journald", JournalAnchor(journald.addr), journald.text},
	} {
		t.Run(place.name, func(t *testing.T) {
			base := t.TempDir()
			dir, old := filepath.Join(base, "log"), filepath.Join(base, "old")
			o := quiet()
			o.Anchors = []Anchor{place.anchor}
			grow := func() {
				l := openTest(t, dir, o)
				add(t, l, call(1))
				require.NoError(t, l.Close()) // anchors the last checkpoint
			}
			verify := func() Report {
				known, err := ReadAnchors(bytes.NewReader([]byte(place.text())))
				require.NoError(t, err)
				require.NotEmpty(t, known)
				r, err := OpenReadOnly(dir, quiet())
				require.NoError(t, err)
				rep, err := r.Verify(context.Background(), VerifyOptions{Anchors: known})
				require.NoError(t, err)
				return rep
			}
			grow()
			require.Equal(t, VerifyOK, verify().Status)
			copyDir(t, dir, old)
			grow()
			require.Equal(t, VerifyOK, verify().Status)
			copyDir(t, old, dir)
			require.Equal(t, VerifyTruncated, verify().Status)
		})
	}
}

// datagramLog is a system log that keeps what it gets.
type datagramLog struct {
	addr string
	conn net.PacketConn
	all  bytes.Buffer
}

func datagrams(t *testing.T, network, addr string) *datagramLog {
	t.Helper()
	conn, err := net.ListenPacket(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &datagramLog{addr: conn.LocalAddr().String(), conn: conn}
}

// text is all that came until now.
func (d *datagramLog) text() string {
	buf := make([]byte, 64<<10)
	for {
		_ = d.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, _, err := d.conn.ReadFrom(buf)
		if err != nil {
			return d.all.String()
		}
		d.all.Write(append(buf[:n:n], '\n'))
	}
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

// stuckAnchor hangs until its context ends.
type stuckAnchor struct {
	begun chan struct{}
	ended *atomic.Bool
}

func (a stuckAnchor) Anchor(ctx context.Context, _ []byte) error {
	select {
	case a.begun <- struct{}{}:
	default:
	}
	<-ctx.Done()
	a.ended.Store(true)
	return ctx.Err()
}

// An anchor that hangs holds up no record, and the others get their checkpoints.
func TestAnchorThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	o := quiet()
	stuck := stuckAnchor{make(chan struct{}, 1), &atomic.Bool{}}
	file := filepath.Join(t.TempDir(), "anchors")
	o.anchorTime = 3 * time.Second
	o.AnchorEvery, o.AnchorFile, o.Anchors = 1, file, []Anchor{stuck}
	l, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	<-stuck.begun
	add(t, l, call(1))
	require.False(t, stuck.ended.Load(), "the record was stored while the anchor hung")
	for n := range 19 {
		add(t, l, call(n))
	}
	require.Error(t, l.Close())
	since, err := l.Anchoring()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, since.IsZero())
	kept, err := l.fileAnchors()
	require.NoError(t, err)
	last, err := openCheckpoint(kept[len(kept)-1], l.known)
	require.NoError(t, err)
	require.EqualValues(t, 21, last.size)
	again := len(kept) // (the log is closed; its anchors still answer)
	require.Error(t, l.anchoring.now(context.Background()))
	kept, err = l.fileAnchors()
	require.NoError(t, err)
	require.Len(t, kept, again, "what has the checkpoint is not told again")
}

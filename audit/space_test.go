package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tmpfs mounts one of size bytes, or skips.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestFullDiskTakesOutcomesAndRefusesCalls(t *testing.T) {
	t.Parallel()
	disk := tmpfs(t, "8m")
	dir := filepath.Join(disk, "log")
	o := quiet()
	o.Ballast = 1 << 20
	o.Now = (&clock{at: time.Now(), step: time.Second}).now // each look at the disk is a new one
	l := openTest(t, dir, o)
	big := json.RawMessage(`"` + strings.Repeat("some words ", 2000) + `"`)
	var open []Seq
	var err error
	for range 1000 {
		var seq Seq
		seq, err = l.Append(context.Background(), Record{Kind: KindIntent, Args: big})
		if err != nil {
			break
		}
		open = append(open, seq)
	}
	require.ErrorIs(t, err, ErrFull)
	require.NotEmpty(t, open)
	for _, seq := range open {
		_, err := l.Append(context.Background(), Record{Kind: KindOutcome, Intent: &seq, Status: StatusOK})
		require.NoError(t, err, "the outcome of %d of %d calls", seq, len(open))
	}
	_, err = l.Append(context.Background(), Record{Kind: KindEvent, Event: "disk.full"})
	require.NoError(t, err)
	_, err = l.Append(context.Background(), call(1))
	require.ErrorIs(t, err, ErrFull)
	rep, err := l.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	require.Empty(t, rep.Problems)

	// Once there is room again calls are taken again, and the ballast is back.
	require.NoError(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "size=32m"))
	add(t, l, call(2))
	assert.FileExists(t, filepath.Join(dir, ballastFile))
	require.NoError(t, l.Close())
	requireIntact(t, reader(t, dir))
}

func TestLowDiskRefusesCallsBeforeItIsFull(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.MinFree = 1 << 62
	l, err := Open(t.TempDir(), o)
	require.NoError(t, err, "the start event is taken")
	defer l.Close()
	_, err = l.Append(context.Background(), call(1))
	require.ErrorIs(t, err, ErrFull)
}

func TestNoSpaceIsToldFromAFailedSync(t *testing.T) {
	t.Parallel()
	assert.True(t, noSpace(&fs.PathError{Op: "write", Err: syscall.ENOSPC}))
	assert.False(t, noSpace(syscall.ENOSPC), "as fdatasync returns it")
	assert.False(t, noSpace(&fs.PathError{Op: "write", Err: syscall.EIO}))
	assert.False(t, noSpace(errors.New("other")))
}

func TestLogStopsAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openTest(t, dir, quiet())
	add(t, l, call(1))
	writes := hookWrites(l.db)
	writes.set(func([]byte, int64) (int, error) { return 0, &os.PathError{Op: "write", Err: syscall.EIO} })
	_, err := l.Append(context.Background(), call(2))
	require.ErrorIs(t, err, ErrStopped)
	require.ErrorIs(t, err, syscall.EIO)
	writes.restore()
	_, err = l.Append(context.Background(), call(3))
	require.ErrorIs(t, err, ErrStopped, "a failed write is never tried again")
	require.NoError(t, l.Close())

	l = openTest(t, dir, quiet())
	add(t, l, call(4))
	requireIntact(t, &l.Reader)
}

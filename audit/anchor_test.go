package audit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRollbackIsDetectedExactlyWhenAnchored puts an older copy of the whole
// directory back, which is a perfect log in itself.
func TestRollbackIsDetectedExactlyWhenAnchored(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, old := filepath.Join(base, "log"), filepath.Join(base, "old")
	o := quiet()
	o.AnchorFile = filepath.Join(base, "elsewhere", "anchors")
	verify := func(o Options) Report {
		r, err := OpenReadOnly(dir, o)
		require.NoError(t, err)
		rep, err := r.Verify(context.Background(), VerifyOptions{})
		require.NoError(t, err)
		return rep
	}
	l := openTest(t, dir, o)
	for n := range 20 {
		add(t, l, call(n))
	}
	require.NoError(t, l.Close())
	rep := verify(o)
	assert.Equal(t, VerifyOK, rep.Status, rep.Problems)
	assert.Equal(t, rep.Records-1, rep.AnchoredThrough)
	copyDir(t, dir, old)

	l = openTest(t, dir, o)
	for n := range 20 {
		add(t, l, call(n))
	}
	rep, err := l.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	assert.Equal(t, VerifyOK, rep.Status, "verify anchors first")
	require.NoError(t, l.Close())

	copyDir(t, old, dir)
	rep = verify(o)
	assert.Equal(t, VerifyTruncated, rep.Status)
	rep = verify(quiet())
	assert.Equal(t, VerifyNotAnchored, rep.Status, "nothing shows it without the anchor")
	assert.EqualValues(t, -1, rep.AnchoredThrough)

	// Whoever goes on from there writes another history.
	l = openTest(t, dir, quiet())
	for n := range 40 {
		add(t, l, call(n))
	}
	require.NoError(t, l.Close())
	rep = verify(o)
	assert.Equal(t, VerifyTampered, rep.Status)
	assert.Contains(t, rep.Problems[0].What, "are not those that were anchored")
}

func TestAnchorsOfOtherLogsAreNoAnchors(t *testing.T) {
	t.Parallel()
	one, two := openTest(t, t.TempDir(), quiet()), openTest(t, t.TempDir(), quiet())
	cp, err := two.Checkpoint()
	require.NoError(t, err)
	rep, err := one.Verify(context.Background(), VerifyOptions{Anchors: [][]byte{cp}})
	require.NoError(t, err)
	assert.Equal(t, VerifyTampered, rep.Status)
	rep, err = one.Verify(context.Background(), VerifyOptions{Keys: two.publicKeys()})
	require.NoError(t, err)
	assert.Equal(t, VerifyTampered, rep.Status, "the log is not signed by the keys to trust")
}

func TestReadAnchorsPassesOverCutLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	for _, cp := range []string{"first", "second"} {
		require.NoError(t, FileAnchor(path).Anchor(context.Background(), []byte(cp)))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := ReadAnchors(strings.NewReader("noise\nNov 29 host sallyport[7]: " + anchorLine([]byte("third")) + "\n" + string(text[:len(text)-5])))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("third"), []byte("first")}, got)
}

func TestAnchorEveryNRecords(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.AnchorFile = filepath.Join(t.TempDir(), "anchors")
	o.AnchorEvery = 5
	l := openTest(t, t.TempDir(), o)
	for n := range 30 {
		add(t, l, call(n))
	}
	require.NoError(t, l.Close())
	got, err := l.fileAnchors()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(got), 2)
	last, err := openCheckpoint(got[len(got)-1], l.known)
	require.NoError(t, err)
	assert.EqualValues(t, 31, last.size)
}

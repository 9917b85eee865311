package audit

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyEpochs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.AnchorFile = filepath.Join(t.TempDir(), "anchors")
	o.SegmentBytes = 4 << 10
	l := openTest(t, dir, o)
	first := l.publicKeys()
	for n := range 60 {
		add(t, l, call(n))
		if n%20 == 10 {
			require.NoError(t, l.RotateKey(context.Background()))
		}
	}
	require.NoError(t, l.Close())
	r, err := OpenReadOnly(dir, o)
	require.NoError(t, err)
	assert.Len(t, r.publicKeys(), 4)
	rep, err := r.Verify(context.Background(), VerifyOptions{})
	require.NoError(t, err)
	assert.Equal(t, VerifyOK, rep.Status, rep.Problems)
	rep, err = r.Verify(context.Background(), VerifyOptions{Keys: first})
	require.NoError(t, err)
	assert.Equal(t, VerifyOK, rep.Status, "whoever trusts the first key can follow: %v", rep.Problems)
	rep, err = r.Verify(context.Background(), VerifyOptions{Keys: r.publicKeys()[3:]})
	require.NoError(t, err)
	assert.Equal(t, VerifyTampered, rep.Status, "the last key alone did not sign the beginning")
}

// TestReplacedKeyIsWorthNothing: whoever finds an old key cannot write on.
func TestReplacedKeyIsWorthNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openTest(t, dir, quiet())
	old, err := os.ReadFile(filepath.Join(dir, signingKeyFile))
	require.NoError(t, err)
	require.NoError(t, l.RotateKey(context.Background()))
	require.NoError(t, l.Close())
	requireIntact(t, reader(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, signingKeyFile), old, 0o600))
	l = openTest(t, dir, quiet())
	require.NoError(t, l.Close())
	rep, err := verifyDir(dir)
	require.NoError(t, err)
	assert.Equal(t, VerifyTampered, rep.Status)
	assert.Contains(t, rep.Problems[0].What, "the key was replaced before that")
}

func TestRotationCutShort(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		dir := t.TempDir()
		l := openTest(t, dir, quiet())
		old, err := os.ReadFile(filepath.Join(dir, signingKeyFile))
		require.NoError(t, err)
		require.NoError(t, l.RotateKey(context.Background()))
		next, err := os.ReadFile(filepath.Join(dir, signingKeyFile))
		require.NoError(t, err)
		if !used {
			next = []byte("cut")
		}
		require.NoError(t, l.Close())
		if used { // the record is written, the key file not yet
			require.NoError(t, os.WriteFile(filepath.Join(dir, signingKeyFile), old, 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, nextKeyFile), next, 0o600))
		l = openTest(t, dir, quiet())
		add(t, l, call(1))
		assert.NoFileExists(t, filepath.Join(dir, nextKeyFile))
		require.NoError(t, l.Close())
		requireIntact(t, reader(t, dir))
	}
}

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestRedactedArgumentsAreSealed(t *testing.T) {
	t.Parallel()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	o := quiet()
	o.SealTo, err = ParseRecipients([]string{id.Recipient().String()})
	require.NoError(t, err)
	dir := t.TempDir()
	l := openTest(t, dir, o)
	ctx := context.Background()
	secret := "ghp_0123456789abcdefghij" + "klmnopqrstuvwxyz"
	raw := json.RawMessage(`{"command":"curl -H 'X: ` + secret + `' x"}`)
	intent, err := l.Append(ctx, Record{Kind: KindIntent, Call: "a", Args: raw, SealedArgs: "forged"})
	require.NoError(t, err)
	outcome, err := l.Append(ctx, Record{Kind: KindOutcome, Call: "a", Args: raw, Intent: &intent, Status: StatusOK})
	require.NoError(t, err)
	plain, err := l.Append(ctx, Record{Kind: KindCall, Call: "b", Args: json.RawMessage(`{"path":"a"}`), SealedArgs: "forged"})
	require.NoError(t, err)
	for _, seq := range []Seq{outcome, plain} {
		_, err = l.SealedArgs(seq)
		require.ErrorIs(t, err, ErrNotSealed)
	}
	sealed, err := l.SealedArgs(intent)
	require.NoError(t, err)
	got, err := Unseal(sealed, strings.NewReader("# key\n"+id.String()+"\n"))
	require.NoError(t, err)
	require.Equal(t, string(raw), string(got))
	_, err = Unseal(sealed, strings.NewReader(other.String()))
	require.ErrorContains(t, err, "unseal the arguments")
	requireIntact(t, &l.Reader)

	// The secret is in no byte, and a backup has what is sealed too.
	to := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, l.Backup(ctx, to, false))
	var export bytes.Buffer
	require.NoError(t, l.Export(ctx, &export, FormatJSONL, Filter{}))
	require.NoError(t, l.Close())
	files, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.NotContains(t, string(text), secret, f)
	}
	assert.NotContains(t, export.String(), secret)
	assert.NotContains(t, export.String(), "age-encryption.org")
	r, err := OpenReadOnly(to, quiet())
	require.NoError(t, err)
	again, err := r.SealedArgs(intent)
	require.NoError(t, err)
	require.Equal(t, sealed, again)
}

func TestSealedArgumentsAreEvidence(t *testing.T) {
	t.Parallel()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		alter func(b *bbolt.Bucket, seq Seq) error
	}{
		{"altered", func(b *bbolt.Bucket, seq Seq) error {
			v := bytes.Clone(b.Get(key(uint64(seq))))
			v[len(v)-1] ^= 1
			return b.Put(key(uint64(seq)), v)
		}},
		{"removed", func(b *bbolt.Bucket, seq Seq) error { return b.Delete(key(uint64(seq))) }},
		{"added", func(b *bbolt.Bucket, seq Seq) error { return b.Put(key(uint64(seq)-1), []byte("x")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := quiet()
			o.SealTo = []age.Recipient{id.Recipient()}
			dir := t.TempDir()
			l := openTest(t, dir, o)
			seq, err := l.Append(context.Background(), Record{Kind: KindCall, Args: json.RawMessage(`{"password":"hunter2hunter2"}`)})
			require.NoError(t, err)
			require.NoError(t, l.Close())
			path := segmentPath(dir, 0)
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return c.alter(tx.Bucket(bucketSealedArgs), seq) }))
			require.NoError(t, db.Close())
			require.NoError(t, forgetClosed(dir)) // so that the file's digest does not tell
			r, err := OpenReadOnly(dir, quiet())
			require.NoError(t, err)
			rep, err := r.Verify(context.Background(), VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, VerifyTampered, rep.Status)
			require.Contains(t, rep.Problems[0].What, "sealed arguments")
		})
	}
	_, err = ParseRecipients([]string{"age1nonsense"})
	require.ErrorContains(t, err, "age-keygen")
}

package approval_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"sallyport/policy/approval"
	"sallyport/sandbox"
)

func TestASubscriberThatSleepsIsDropped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	events, cancel := f.Subscribe()
	defer cancel()
	quick, stop := f.Subscribe()
	for range 1025 {
		require.NoError(t, f.Refuse(bob, "an event"))
		<-quick
	}
	n := 0
	for range events { // ends: the channel was closed
		n++
	}
	require.Equal(t, 1024, n)
	stop()
	_, open := <-quick
	require.False(t, open)
}

func TestListsOfAShowAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.settle(t, edit(func(a *approval.Ask) {
		for i := range 2001 {
			a.Show.Net = append(a.Show.Net, sandbox.Endpoint{Host: fmt.Sprintf("h%d.test", i), Port: 443})
		}
		for range 3 {
			a.Show.Tree = append(a.Show.Tree, approval.Step{Text: strings.Repeat("x", 100<<10)})
		}
		a.Show.Shell = strings.Repeat("é", 200<<10)
	})).Request
	require.Len(t, r.Show.Net, 2000)
	require.Len(t, r.Show.Tree, 2)
	require.Equal(t, []string{
		"shell text: the first 262144 of 409600 bytes", "commands: the first 2 of 3", "network targets: the first 2000 of 2001",
	}, r.Cut)
	require.Equal(t, r.Cut, r.Show.Cut)
	require.Equal(t, strings.Repeat("é", 128<<10), r.Show.Shell, "cut between characters")
}

func TestWhatIsNotADeskIsNotOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 2000)), 0o600))
	_, err := approval.Open(path, approval.Options{})
	require.ErrorContains(t, err, "open the approvals desk "+path)

	path = filepath.Join(t.TempDir(), "state.db")
	d, err := approval.Open(path, approval.Options{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(t *bbolt.Tx) error {
		return t.Bucket([]byte("meta")).Put([]byte("version"), []byte("9"))
	}))
	require.NoError(t, db.Close())
	_, err = approval.Open(path, approval.Options{})
	require.ErrorContains(t, err, "form 9 and this program knows form 1")
	_, err = approval.Open(filepath.Join(t.TempDir(), "no", "dir"), approval.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

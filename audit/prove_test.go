package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
)

// TestTreeAgreesWithAnotherImplementation recomputes the tree and checks proofs
// of every record with transparency-dev/merkle.
func TestTreeAgreesWithAnotherImplementation(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.SegmentBytes = 10 << 10
	l := openTest(t, t.TempDir(), o)
	for n := range 150 {
		add(t, l, call(n))
	}
	l.sealer.work.Wait()
	signed, err := l.Checkpoint()
	require.NoError(t, err)
	cp, err := openCheckpoint(signed, l.known)
	require.NoError(t, err)

	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	tree := factory.NewEmptyRange(0)
	for seq := range Seq(cp.size) {
		raw, err := l.raw(seq)
		require.NoError(t, err)
		require.NoError(t, tree.Append(rfc6962.DefaultHasher.HashLeaf(raw), nil))
		p, err := l.Prove(seq)
		require.NoError(t, err)
		require.NoError(t, proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(seq), uint64(cp.size), rfc6962.DefaultHasher.HashLeaf(raw), p.Hashes, cp.root[:]))
	}
	root, err := tree.GetRootHash(nil)
	require.NoError(t, err)
	assert.Equal(t, cp.root[:], root)

	for _, old := range []int64{1, 2, 31, 64, 100} {
		path, err := tlog.ProveTree(cp.size, old, tlog.HashReaderFunc(l.readHashes))
		require.NoError(t, err)
		oldRoot, err := tlog.TreeHash(old, tlog.HashReaderFunc(l.readHashes))
		require.NoError(t, err)
		var hashes [][]byte
		for _, h := range path {
			hashes = append(hashes, bytes.Clone(h[:]))
		}
		require.NoError(t, proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(cp.size), hashes, oldRoot[:], cp.root[:]))
	}
	_, err = l.Prove(Seq(cp.size))
	require.ErrorIs(t, err, ErrNoRecord)
}

// TestProofHoldsForAThirdParty runs the program that docs give to auditors.
func TestProofHoldsForAThirdParty(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	bin := filepath.Join(t.TempDir(), "audit-verify")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", bin, ".")
	build.Dir = "../docs/audit-verify"
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	l := openTest(t, t.TempDir(), quiet())
	for n := range 37 {
		add(t, l, call(n))
	}
	check := func(p Proof, key string) string {
		text, err := json.Marshal(p)
		require.NoError(t, err)
		cmd := exec.CommandContext(context.Background(), bin, key)
		cmd.Stdin = bytes.NewReader(text)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for _, seq := range []Seq{0, 1, 16, 31, 32, 36, 37} {
		p, err := l.Prove(seq)
		require.NoError(t, err)
		assert.Contains(t, check(p, p.Keys[0]), "PROVEN: record", seq)
		bad := p
		bad.Record = strings.Replace(p.Record, "tester", "somebody", 1) + " "
		assert.Contains(t, check(bad, p.Keys[0]), "NOT PROVEN")
		bad = p
		bad.Seq = (seq + 1) % 38
		assert.Contains(t, check(bad, p.Keys[0]), "NOT PROVEN")
		other := openTest(t, t.TempDir(), quiet())
		assert.Contains(t, check(p, other.public[0]), "NOT PROVEN")
	}
}

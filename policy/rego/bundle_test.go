package rego

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
)

func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	private = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// bundled packs one rule, signed unless the key is empty.
func bundled(t *testing.T, private string) []byte {
	t.Helper()
	text := rule("administrator", "administrator.no-make", "L3", `	input.cmd.program == "make"`)
	b := bundle.Bundle{
		Manifest: bundle.Manifest{},
		Data:     map[string]any{"sallyport": map[string]any{"protected_branches": []any{"develop"}}},
		Modules:  []bundle.ModuleFile{{URL: "/x.rego", Path: "/x.rego", Raw: []byte(text), Parsed: ast.MustParseModule(text)}},
	}
	b.Manifest.Init()
	if private != "" {
		require.NoError(t, b.GenerateSignature(bundle.NewSigningConfig(private, "RS256", ""), keyID, false))
	}
	var out bytes.Buffer
	require.NoError(t, bundle.Write(&out, b))
	return out.Bytes()
}

func TestSignedBundle(t *testing.T) {
	t.Parallel()
	private, public := keyPair(t)
	other, _ := keyPair(t)
	layer := func(text []byte) Layer {
		return Layer{Name: "administrator", FS: fstest.MapFS{bundleFile: {Data: text}, "ignored.rego": {Data: []byte("not rego")}}, Signature: &Signature{PublicKey: public}}
	}
	e := load(t, layer(bundled(t, private)))
	assert.Equal(t, policy.L3, decide(t, e, call("run_command"), policy.Facts{Cmds: []policy.Cmd{command("make")}}).Tier)
	assert.Contains(t, e.Data().ProtectedBranches, "develop")

	ctx := context.Background()
	assert.ErrorContains(t, Check(ctx, layer(bundled(t, ""))), "verify the signed bundle", "unsigned")
	assert.ErrorContains(t, Check(ctx, layer(bundled(t, other))), "verify the signed bundle", "another key")
	assert.ErrorContains(t, Check(ctx, layer([]byte("not a bundle"))), "verify the signed bundle")
	assert.ErrorContains(t, Check(ctx, Layer{Name: "administrator", FS: fstest.MapFS{}, Signature: &Signature{PublicKey: public}}), "read the signed bundle")
}

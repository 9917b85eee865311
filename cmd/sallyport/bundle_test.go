package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const bundleRule = `package sallyport.administrator

# METADATA
# title: No make here
# custom:
#   id: administrator.no-make
#   tier: L3
#   verdict: deny
#   reason: this machine builds with ninja
#   remedy: run ninja
hit contains rego.metadata.rule().custom if input.cmd.program == "make"
`

// signedBundle is what `opa build --bundle --signing-key` makes: no key id.
func signedBundle(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	b := bundle.Bundle{
		Modules: []bundle.ModuleFile{{URL: "/rules.rego", Path: "/rules.rego", Raw: []byte(bundleRule), Parsed: ast.MustParseModule(bundleRule)}},
		Data:    map[string]any{},
	}
	b.Manifest.Init()
	if key != nil {
		der, err := x509.MarshalECPrivateKey(key)
		require.NoError(t, err)
		private := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
		require.NoError(t, b.GenerateSignature(bundle.NewSigningConfig(private, "ES256", ""), "", false))
	}
	var out bytes.Buffer
	require.NoError(t, bundle.Write(&out, b))
	return out.Bytes()
}

// TestSignedAdministratorPolicy: with a key in the configuration the program
// takes the administrator's layer from a bundle signed by it, and no other.
func TestSignedAdministratorPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, config := filepath.Join(w.dir, "admin"), filepath.Join(w.dir, "config")
	require.NoError(t, os.MkdirAll(admin, 0o755))
	require.NoError(t, os.MkdirAll(config, 0o755))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	public := filepath.Join(w.dir, "policy.pem")
	require.NoError(t, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
	settings := "policy:\n  administrator: " + admin + "\n  administrator_key: " + public + "\n  administrator_algorithm: ES256\n"
	require.NoError(t, os.WriteFile(filepath.Join(config, "config.yaml"), []byte(settings), 0o644))
	put := func(text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(admin, "bundle.tar.gz"), text, 0o644))
	}

	put(signedBundle(t, key))
	out, err := w.run("policy", "eval", "--json", "--", "make all")
	require.NoError(t, err, out)
	assert.Contains(t, out, "administrator.no-make")
	assert.Contains(t, out, "run ninja")
	out, _ = w.run("policy", "rules")
	assert.Contains(t, out, "administrator.no-make")

	altered := bytes.Clone(signedBundle(t, key))
	altered[len(altered)/2] ^= 0x40
	for name, text := range map[string][]byte{"unsigned": signedBundle(t, nil), "by another key": signedBundle(t, stranger), "altered": altered} {
		put(text)
		out, _ := w.run("policy", "eval", "--", "ls")
		assert.NotContains(t, out, "allow", name)
		assert.Contains(t, out, "administrator", "%s: the refusal names the layer", name)
		mcp := w.command("mcp", "--workspace", w.work)
		mcp.Stdin = strings.NewReader(call(1, "read_file", `{"path":"a.txt"}`) + "\n")
		text, _ := mcp.CombinedOutput()
		assert.NotContains(t, string(text), "hello", "%s: nothing is answered", name)
		assert.Contains(t, string(text), "administrator", "%s: the refusal names the layer", name)
	}
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.make("authority", true)
	return a
}

func (a *authority) make(name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	out, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return out, key
}

// write writes a pair of PEM files.
func (a *authority) write(dir, name string) (cert, key string) {
	a.t.Helper()
	c, k := a.make(name, false)
	raw, err := x509.MarshalECPrivateKey(k)
	require.NoError(a.t, err)
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	require.NoError(a.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600))
	require.NoError(a.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o600))
	return cert, key
}

func (a *authority) client(pairs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: pairs}, ForceAttemptHTTP2: true}
	a.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func TestHTTPWithClientCertificates(t *testing.T) {
	t.Parallel()
	h, a, stranger := emptyHouse(t), newAuthority(t), newAuthority(t)
	cert, key := a.write(h.dir, "server")
	ca := filepath.Join(h.dir, "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600))
	h.configure(fmt.Sprintf("http: {tls_cert: %s, tls_key: %s, client_ca: %s}\n", cert, key, ca))
	h.serve()
	require.Contains(t, h.url, "https://")

	mine, err := tls.LoadX509KeyPair(a.write(h.dir, "ann"))
	require.NoError(t, err)
	theirs, err := tls.LoadX509KeyPair(stranger.write(h.dir, "eve"))
	require.NoError(t, err)
	for name, c := range map[string]*http.Client{"without one": a.client(), "with a stranger's": a.client(theirs)} {
		_, err := c.Get(h.url + "/healthz")
		assert.Error(t, err, name)
	}
	h.client = a.client(mine)
	code, _, _ := h.post("none", "", initialize)
	assert.Equal(t, 401, code, "a certificate is no token")
	token, _ := h.token("--agent", "ann", "--max-tier", "L0")
	code, body, header := h.post(token, "", initialize)
	require.Equal(t, 200, code, body)
	assert.Contains(t, h.call(token, header.Get("Mcp-Session-Id"), "read_file", `{"path":"a.txt"}`), "hello over http")
	out, err := h.sallyport("audit", "list", "--json")
	require.NoError(t, err)
	assert.Contains(t, out, "certificate")
}

func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.write(dir, "server")
	c := &certificate{cert: cert, key: key}
	first, err := c.get(nil)
	require.NoError(t, err)
	a.write(dir, "server")
	require.NoError(t, os.Chtimes(cert, time.Now(), time.Now().Add(time.Minute)))
	second, err := c.get(nil)
	require.NoError(t, err)
	assert.NotEqual(t, first.Certificate, second.Certificate)
	require.NoError(t, os.WriteFile(cert, []byte("half"), 0o600))
	require.NoError(t, os.Chtimes(cert, time.Now(), time.Now().Add(2*time.Minute)))
	third, err := c.get(nil)
	require.NoError(t, err)
	assert.Equal(t, second.Certificate, third.Certificate, "the old pair is good until the new one is whole")
}

func TestHTTPWithJWT(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t)
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	key, err := jwk.Import(raw)
	require.NoError(t, err)
	pub, err := key.PublicKey()
	require.NoError(t, err)
	set := jwk.NewSet()
	require.NoError(t, set.AddKey(pub))
	doc, err := json.Marshal(set)
	require.NoError(t, err)
	keys := filepath.Join(h.dir, "jwks.json")
	require.NoError(t, os.WriteFile(keys, doc, 0o600))
	h.configure(fmt.Sprintf("http:\n  url: https://gate.example/mcp\n  jwt: {issuer: https://idp.example, jwks: %s, workspaces: [%s]}\n", keys, h.workspace))
	h.serve()

	sign := func(claims map[string]any) string {
		tok := jwt.New()
		for k, v := range claims {
			require.NoError(t, tok.Set(k, v))
		}
		b, err := jwt.Sign(tok, jwt.WithKey(jwa.ES256(), key))
		require.NoError(t, err)
		return string(b)
	}
	good := map[string]any{"iss": "https://idp.example", "aud": "https://gate.example/mcp", "sub": "ann@example.org", "exp": time.Now().Add(time.Hour), "max_tier": "L0"}
	token := sign(good)
	code, body, header := h.post(token, "", initialize)
	require.Equal(t, 200, code, body)
	assert.Contains(t, h.call(token, header.Get("Mcp-Session-Id"), "read_file", `{"path":"a.txt"}`), "hello over http")

	good["workspace"] = "/"
	code, _, header = h.post(sign(good), "", initialize)
	assert.Equal(t, 401, code, "an issuer does not choose what this host opens")
	assert.Equal(t, `Bearer realm="sallyport", error="invalid_token", resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp"`,
		header.Get("WWW-Authenticate"))
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		resp, err := http.Get(h.url + path)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Contains(t, string(b), `"authorization_servers":["https://idp.example"]`, path)
	}
}

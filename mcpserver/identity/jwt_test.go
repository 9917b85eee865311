package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
)

// issuer signs with its own key.
type issuer struct {
	key    jwk.Key
	public []byte // the key set
}

func newIssuer(t *testing.T, kid string) issuer {
	t.Helper()
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	key, err := jwk.Import(raw)
	require.NoError(t, err)
	require.NoError(t, key.Set(jwk.KeyIDKey, kid))
	pub, err := key.PublicKey()
	require.NoError(t, err)
	set := jwk.NewSet()
	require.NoError(t, set.AddKey(pub))
	doc, err := json.Marshal(set)
	require.NoError(t, err)
	return issuer{key, doc}
}

func (i issuer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	tok := jwt.New()
	base := map[string]any{"iss": "https://idp.example", "aud": []string{"https://gate.example/mcp"}, "sub": "ann", "exp": noon.Add(time.Hour), "max_tier": "L1"}
	for k, v := range claims {
		base[k] = v
	}
	for k, v := range base {
		if v != nil {
			require.NoError(t, tok.Set(k, v))
		}
	}
	b, err := jwt.Sign(tok, jwt.WithKey(jwa.ES256(), i.key))
	require.NoError(t, err)
	return string(b)
}

func options(jwks string) JWTOptions {
	return JWTOptions{
		Issuer: "https://idp.example", Audience: "https://gate.example/mcp", JWKS: jwks, Workspaces: []string{"/work/a"},
		Now: func() time.Time { return noon },
	}
}

func TestJWTProvesItsRights(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, "k1")
	path := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(path, i.public, 0o600))
	v, err := NewVerifier(t.Context(), options(path))
	require.NoError(t, err)
	id, err := v.Check(t.Context(), i.sign(t, map[string]any{"workspace": "/work/a/sub", "tools": []string{"grep"}}))
	require.NoError(t, err)
	assert.Equal(t, Identity{
		Rights: Rights{Agent: "ann", Workspace: "/work/a/sub", MaxTier: policy.L1, Tools: []string{"grep"}},
		User:   "ann", Credential: "jwt:ann", Expires: noon.Add(time.Hour),
	}, id)
	id, err = v.Check(t.Context(), i.sign(t, map[string]any{"max_tier": nil}))
	require.NoError(t, err)
	assert.Equal(t, policy.L0, id.MaxTier, "who is granted nothing may read")
	assert.Equal(t, "/work/a", id.Workspace)
}

func TestJWTIsRefused(t *testing.T) {
	t.Parallel()
	i, stranger := newIssuer(t, "k1"), newIssuer(t, "k1")
	path := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(path, i.public, 0o600))
	v, err := NewVerifier(t.Context(), options(path))
	require.NoError(t, err)
	good := i.sign(t, nil)
	part := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp.example","aud":["https://gate.example/mcp"],"sub":"root","exp":9999999999,"max_tier":"L3"}`))
	for name, text := range map[string]string{
		"empty":                  "",
		"not a JWT":              "a.b.c",
		"another's signature":    stranger.sign(t, nil),
		"alg none":               none + "." + part[1] + ".",
		"alg none, signed":       none + "." + part[1] + "." + part[2],
		"another body":           part[0] + "." + forged + "." + part[2],
		"another issuer":         i.sign(t, map[string]any{"iss": "https://evil.example"}),
		"another audience":       i.sign(t, map[string]any{"aud": []string{"https://else.example"}}),
		"no audience":            i.sign(t, map[string]any{"aud": nil}),
		"no expiry":              i.sign(t, map[string]any{"exp": nil}),
		"expired":                i.sign(t, map[string]any{"exp": noon.Add(-time.Minute)}),
		"not yet valid":          i.sign(t, map[string]any{"nbf": noon.Add(time.Hour)}),
		"valid for a year":       i.sign(t, map[string]any{"exp": noon.AddDate(1, 0, 0)}),
		"no subject":             i.sign(t, map[string]any{"sub": nil}),
		"another workspace":      i.sign(t, map[string]any{"workspace": "/work/b"}),
		"a way out":              i.sign(t, map[string]any{"workspace": "/work/a/../b"}),
		"the root":               i.sign(t, map[string]any{"workspace": "/"}),
		"a fifth tier":           i.sign(t, map[string]any{"max_tier": "L9"}),
		"a numeric tier":         i.sign(t, map[string]any{"max_tier": 3}),
		"tools that are no list": i.sign(t, map[string]any{"tools": "all"}),
		"oversized":              i.sign(t, map[string]any{"pad": strings.Repeat("x", maxJWT)}),
	} {
		_, err := v.Check(t.Context(), text)
		assert.ErrorIs(t, err, ErrUnknown, name)
	}
	_, err = v.Check(t.Context(), good)
	assert.NoError(t, err)
}

func TestJWTFollowsTheIssuersKeys(t *testing.T) {
	t.Parallel()
	first, second := newIssuer(t, "k1"), newIssuer(t, "k2")
	var doc atomic.Pointer[[]byte]
	doc.Store(&first.public)
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if b := doc.Load(); b != nil {
			_, _ = w.Write(*b)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer srv.Close()
	o, now := options(srv.URL), noon
	o.Now = func() time.Time { return now }
	v, err := NewVerifier(t.Context(), o)
	require.NoError(t, err)

	doc.Store(&second.public)
	for range 20 {
		_, err = v.Check(t.Context(), second.sign(t, nil))
		assert.Error(t, err, "asked a moment ago")
	}
	assert.EqualValues(t, 1, asked.Load(), "bad tokens do not make us ask the issuer each time")
	now = now.Add(keysRetry)
	_, err = v.Check(t.Context(), second.sign(t, nil))
	assert.NoError(t, err)
	_, err = v.Check(t.Context(), first.sign(t, nil))
	assert.Error(t, err)

	doc.Store(nil)
	now = noon.Add(50 * time.Minute)
	_, err = v.Check(t.Context(), second.sign(t, nil))
	assert.NoError(t, err, "an issuer may be away for a while")
	now = noon.Add(keysOld + keysRetry)
	_, err = v.Check(t.Context(), second.sign(t, map[string]any{"exp": now.Add(time.Hour)}))
	assert.Error(t, err, "but not for ever")
}

func TestVerifierRefusesAConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := file("good", string(newIssuer(t, "k").public))
	for name, change := range map[string]func(*JWTOptions){
		"no issuer":     func(o *JWTOptions) { o.Issuer = "" },
		"no audience":   func(o *JWTOptions) { o.Audience = "" },
		"no workspaces": func(o *JWTOptions) { o.Workspaces = nil },
		"plain http":    func(o *JWTOptions) { o.JWKS = "http://idp.example/keys" },
		"no file":       func(o *JWTOptions) { o.JWKS = filepath.Join(dir, "none") },
		"no keys":       func(o *JWTOptions) { o.JWKS = file("empty", `{"keys":[]}`) },
		"not JSON":      func(o *JWTOptions) { o.JWKS = file("bad", `keys`) },
		"shared secret": func(o *JWTOptions) {
			o.JWKS = file("oct", `{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`)
		},
	} {
		o := options(good)
		change(&o)
		_, err := NewVerifier(t.Context(), o)
		assert.Error(t, err, name)
	}
}

// A key of another type than the token's algorithm must not be tried as if it
// were a secret: the classic confusion of RS256 with HS256.
func TestJWTAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	raw, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	pub, err := jwk.Import(&raw.PublicKey)
	require.NoError(t, err)
	set := jwk.NewSet()
	require.NoError(t, set.AddKey(pub))
	doc, err := json.Marshal(set)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(path, doc, 0o600))
	v, err := NewVerifier(t.Context(), options(path))
	require.NoError(t, err)

	pem, err := jwk.Pem(pub)
	require.NoError(t, err)
	tok := jwt.New()
	for k, c := range map[string]any{"iss": "https://idp.example", "aud": "https://gate.example/mcp", "sub": "root", "exp": noon.Add(time.Hour), "max_tier": "L3"} {
		require.NoError(t, tok.Set(k, c))
	}
	for _, secret := range [][]byte{pem, doc, raw.PublicKey.N.Bytes()} {
		forged, err := jwt.Sign(tok, jwt.WithKey(jwa.HS256(), secret))
		require.NoError(t, err)
		_, err = v.Check(t.Context(), string(forged))
		assert.ErrorIs(t, err, ErrUnknown)
	}
}

func TestResourceNamesItsOwnPlace(t *testing.T) {
	t.Parallel()
	r := NewResource("https://gate.example/mcp", "https://idp.example")
	assert.Equal(t, "https://gate.example/.well-known/oauth-protected-resource/mcp", r.URL())
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", r.URL(), nil))
	assert.JSONEq(t, `{"resource":"https://gate.example/mcp","authorization_servers":["https://idp.example"],"bearer_methods_supported":["header"],"resource_name":"Sallyport"}`, w.Body.String())
	assert.Empty(t, NewResource("gate").URL())
}

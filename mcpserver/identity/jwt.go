package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// JWTOptions say whose JWTs are accepted and what their claims mean.
type JWTOptions struct {
	Issuer   string // the "iss" a token must have
	Audience string // must be among a token's "aud": the URL of this server
	JWKS     string // path or https URL of the issuer's keys
	// Workspaces are the folders that a workspace claim may name or lie in. At
	// least one is needed: an issuer does not choose what this host opens.
	Workspaces []string
	// Claims name the claims to read, by default "sub" for the agent, and
	// "workspace", "max_tier" and "tools". Without max_tier an identity may only
	// read (L0); without tools it may use all that its tier allows; without a
	// workspace it gets the only one configured, and none where there are more.
	Claims struct{ Agent, Workspace, MaxTier, Tools string }
	Now    func() time.Time
}

// Verifier checks JWTs.
type Verifier struct {
	o JWTOptions

	mu     sync.Mutex
	keys   jwk.Set
	loaded time.Time // when the keys last arrived
	tried  time.Time
}

const (
	keysFresh   = 5 * time.Minute  // after this keys are loaded again
	keysOld     = time.Hour        // after this keys that cannot be loaded again count no more
	keysRetry   = 30 * time.Second // between two loads
	keysTime    = 5 * time.Second  // for one load
	maxKeys     = 1 << 20          // bytes of a key set
	maxJWT      = 16 << 10         // bytes of a token
	clockSkew   = 30 * time.Second
	maxLifetime = 24 * time.Hour // a token that lives longer cannot be taken back
)

// NewVerifier loads the keys once, so that a wrong configuration shows at the
// start.
func NewVerifier(ctx context.Context, o JWTOptions) (*Verifier, error) {
	switch {
	case o.Issuer == "" || o.Audience == "":
		return nil, errors.New("accept JWTs: issuer and audience are needed, or any service's token would be good here")
	case len(o.Workspaces) == 0:
		return nil, errors.New("accept JWTs: name the workspaces that they may open")
	}
	if u, err := url.Parse(o.JWKS); err == nil && u.Scheme == "http" && !loopbackName(u.Hostname()) {
		return nil, fmt.Errorf("accept JWTs: keys from %s could be anybody's; use https", o.JWKS)
	}
	c := &o.Claims
	c.Agent, c.Workspace, c.MaxTier, c.Tools = orElse(c.Agent, "sub"), orElse(c.Workspace, "workspace"), orElse(c.MaxTier, "max_tier"), orElse(c.Tools, "tools")
	v := &Verifier{o: o}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v, v.load(ctx)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Check is the identity that a JWT proves. A token that is not good is
// ErrUnknown, wrapped with why for the log.
func (v *Verifier) Check(ctx context.Context, text string) (Identity, error) {
	if len(text) > maxJWT || strings.Count(text, ".") != 2 {
		return Identity{}, ErrUnknown
	}
	t, err := v.parse(ctx, text, false)
	if err != nil { // perhaps the issuer has new keys
		t, err = v.parse(ctx, text, true)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	id, err := v.identity(t)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return id, nil
}

func (v *Verifier) parse(ctx context.Context, text string, again bool) (jwt.Token, error) {
	keys, err := v.current(ctx, again)
	if err != nil {
		return nil, err
	}
	return jwt.ParseString(text,
		jwt.WithKeySet(keys, jws.WithInferAlgorithmFromKey(true), jws.WithRequireKid(false)),
		jwt.WithIssuer(v.o.Issuer), jwt.WithAudience(v.o.Audience), jwt.WithRequiredClaim("exp"),
		jwt.WithAcceptableSkew(clockSkew), jwt.WithClock(jwt.ClockFunc(v.o.Now)))
}

// current is the key set, loaded again when it has aged, or when again asks for
// it and the last load is some time ago.
func (v *Verifier) current(ctx context.Context, again bool) (jwk.Set, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.o.Now()
	if now.Sub(v.tried) >= keysRetry && (again || now.Sub(v.loaded) >= keysFresh) {
		if err := v.load(ctx); err != nil && now.Sub(v.loaded) >= keysOld {
			return nil, err
		}
	}
	if now.Sub(v.loaded) >= keysOld {
		return nil, errors.New("the issuer's keys cannot be loaded")
	}
	return v.keys, nil
}

// load reads the keys. v.mu is held.
func (v *Verifier) load(ctx context.Context) error {
	v.tried = v.o.Now()
	raw, err := read(ctx, v.o.JWKS)
	if err != nil {
		return fmt.Errorf("load the keys of %s: %w", v.o.Issuer, err)
	}
	set, err := jwk.Parse(raw)
	if err != nil {
		return fmt.Errorf("load the keys of %s: %w", v.o.Issuer, err)
	}
	for i := range set.Len() {
		if k, _ := set.Key(i); k.KeyType() == jwa.OctetSeq() {
			return fmt.Errorf("load the keys of %s: a shared secret in a key set would let its readers sign: use public keys", v.o.Issuer)
		}
	}
	if set.Len() == 0 {
		return fmt.Errorf("load the keys of %s: there are none", v.o.Issuer)
	}
	v.keys, v.loaded = set, v.tried
	return nil
}

func read(ctx context.Context, from string) ([]byte, error) {
	if !strings.HasPrefix(from, "https://") && !strings.HasPrefix(from, "http://") {
		return os.ReadFile(from)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTime) // others wait for it too
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", from, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxKeys))
}

// identity maps the claims.
func (v *Verifier) identity(t jwt.Token) (Identity, error) {
	c, id := v.o.Claims, Identity{}
	sub, _ := t.Subject()
	id.User, id.Credential = sub, "jwt:"+sub
	if sub == "" || len(sub) > 4*maxName || strings.ContainsFunc(sub, odd) {
		return id, errors.New("the subject is empty or no name")
	}
	id.Expires, _ = t.Expiration()
	if id.Expires.Sub(v.o.Now()) > maxLifetime {
		return id, fmt.Errorf("it lives for more than %s", maxLifetime)
	}
	if err := t.Get(c.Agent, &id.Agent); err != nil {
		return id, fmt.Errorf("claim %s: %w", c.Agent, err)
	}
	if len(v.o.Workspaces) == 1 {
		id.Workspace = v.o.Workspaces[0]
	}
	if t.Has(c.Workspace) {
		if err := t.Get(c.Workspace, &id.Workspace); err != nil {
			return id, fmt.Errorf("claim %s: %w", c.Workspace, err)
		}
	}
	if t.Has(c.MaxTier) {
		var tier string
		if err := t.Get(c.MaxTier, &tier); err != nil {
			return id, fmt.Errorf("claim %s: %w", c.MaxTier, err)
		}
		if err := id.MaxTier.UnmarshalText([]byte(tier)); err != nil {
			return id, fmt.Errorf("claim %s: %w", c.MaxTier, err)
		}
	}
	tools, err := toolsOf(t, c.Tools)
	if err != nil {
		return id, err
	}
	id.Tools = tools
	if err := id.valid(); err != nil {
		return id, err
	}
	for _, w := range v.o.Workspaces {
		if beneath(id.Workspace, filepath.Clean(w)) {
			return id, nil
		}
	}
	return id, fmt.Errorf("workspace %s is not one that JWTs may open", id.Workspace)
}

// toolsOf reads a claim that lists names; nil when there is none.
func toolsOf(t jwt.Token, claim string) ([]string, error) {
	if !t.Has(claim) {
		return nil, nil
	}
	var list []any
	if err := t.Get(claim, &list); err != nil {
		return nil, fmt.Errorf("claim %s: %w", claim, err)
	}
	names := []string{}
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("claim %s holds %v, which is no name", claim, v)
		}
		names = append(names, name)
	}
	return names, nil
}

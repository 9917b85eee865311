package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"sallyport/mcpserver"
	"sallyport/mcpserver/identity"
	"sallyport/policy/approval"
	"sallyport/policy/approval/console"
	"sallyport/policy/approval/webhook"
)

// front is the daemon's face to the network.
type front struct {
	d        *daemon
	c        httpConfig
	verifier *identity.Verifier // nil where no JWT is accepted
	resource identity.Resource
	health   health
	endpoint *mcpserver.Endpoint
	server   *http.Server
	addr     net.Addr
	served   chan struct{}
	refusals *rate.Limiter // of records of attempts at people's doors
}

// serveHTTP starts to serve what the configuration asks for; stop ends it. Both
// are no-ops without http.listen.
func (d *daemon) serveHTTP(ctx context.Context) (stop func(), err error) {
	c := d.config.HTTP
	if c.Listen == "" {
		return func() {}, nil
	}
	f := &front{d: d, c: c, served: make(chan struct{}), health: health{d: d}, refusals: rate.NewLimiter(1, 20)}
	if err := f.trust(ctx); err != nil {
		return nil, err
	}
	l, err := c.open()
	if err != nil {
		return nil, err
	}
	f.addr = l.Addr()
	o := mcpserver.HTTPOptions{
		Authenticate: f.authenticate, Hosts: c.Hosts, Origins: c.Origins,
		MaxSessions: c.MaxSessions, SessionIdle: time.Duration(c.SessionIdle),
	}
	if f.verifier != nil {
		o.ResourceMetadata = f.resource.URL()
	}
	f.endpoint = d.mcp.HTTP(o)
	if err := d.gauges(f.endpoint); err != nil {
		l.Close()
		return nil, err
	}
	page, err := d.page.publish()
	if err != nil {
		l.Close()
		return nil, err
	}
	f.server = networkBounds().server(d.touching(doors(mcpserver.Guard(o, f.routes()), page)))
	f.server.ErrorLog = slog.NewLogLogger(d.logger.Handler(), slog.LevelDebug)
	go func() {
		defer close(f.served)
		if err := f.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.logger.Error("serve HTTP", "err", err)
		}
	}()
	d.logger.Info("sallyport serves HTTP", "addr", f.addr.String(), "tls", c.TLSCert != "")
	return f.stop, nil
}

// bounds are those of an HTTP server. A request's body and each write of its
// answer have time-outs of their own; one for all of it would end a long call.
type bounds struct {
	header      time.Duration // for a request's head to arrive
	idle        time.Duration // of a connection between requests
	headerBytes int
}

func networkBounds() bounds {
	return bounds{header: 10 * time.Second, idle: 2 * time.Minute, headerBytes: 64 << 10}
}

func (b bounds) server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: b.header, IdleTimeout: b.idle, MaxHeaderBytes: b.headerBytes}
}

// doors leads people to the page, where there is one, and all else to what agents
// call. The page looks after Host and origin itself: a form of it names no origin.
func doors(agents, page http.Handler) http.Handler {
	if page == nil {
		return agents
	}
	m := http.NewServeMux()
	m.Handle(console.DefaultPrefix, page)
	m.Handle(console.DefaultPrefix+"/", page)
	m.Handle("/", agents)
	return m
}

// routes are what the network sees.
func (f *front) routes() http.Handler {
	m := http.NewServeMux()
	for _, path := range []string{"/mcp", "/sse", "/message"} {
		m.Handle(path, f.endpoint)
	}
	if f.d.webhooks != nil { // answers are signed; they need no token
		m.Handle(webhook.DefaultPrefix+"/", f.d.webhooks)
	}
	for _, path := range []string{"/v1/", console.DefaultPrefix, console.DefaultPrefix + "/"} {
		m.HandleFunc(path, f.peopleOnly)
	}
	m.HandleFunc("GET /healthz", f.health.healthz)
	m.HandleFunc("GET /readyz", f.health.readyz)
	m.Handle("GET /metrics", f.scraped(f.d.telemetry.handler()))
	if f.verifier != nil {
		m.Handle("GET "+identity.ResourcePath, f.resource)
		if u, err := url.Parse(f.resource.URL()); err == nil && u.Path != "" && u.Path != identity.ResourcePath {
			m.Handle("GET "+u.Path, f.resource)
		}
	}
	return m
}

// peopleOnly turns away whoever tries the doors of people, which are the control
// socket and the console, at the agents'. The attempt is recorded, as many a minute
// as a reader of the log bears.
func (f *front) peopleOnly(w http.ResponseWriter, r *http.Request) {
	who := approval.Person{Name: "somebody without a valid token", Channel: "agent", From: r.RemoteAddr, UID: -1}
	if p, err := f.authenticate(r); err == nil {
		who.Name = p.Agent
	}
	if f.refusals.Allow() {
		if err := f.d.desk.Refuse(who, "tried "+name(r.Method)+" "+name(r.URL.Path)+" at the agents' door"); err != nil {
			f.d.logger.Error("record a refused attempt", "err", err)
		}
	}
	http.Error(w, "people decide through the control socket: `sallyport approvals`, `sallyport console`", http.StatusForbidden)
}

// drainTime is how long calls in flight may take when the daemon stops.
const drainTime = 5 * time.Second

func (f *front) stop() {
	drain, enough := context.WithTimeout(context.Background(), drainTime)
	defer enough()
	f.endpoint.Close(drain) // Shutdown waits for streams, which this ends
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := f.server.Shutdown(ctx); err != nil {
		f.server.Close()
	}
	<-f.served
}

// trust prepares what JWTs are checked against.
func (f *front) trust(ctx context.Context) (err error) {
	j := f.c.JWT
	if j.Issuer == "" && j.JWKS == "" {
		return nil
	}
	roots := make([]string, len(j.Workspaces))
	for i, w := range j.Workspaces {
		if roots[i], err = f.d.place.checkWorkspace(w); err != nil {
			return fmt.Errorf("http.jwt.workspaces: %w", err)
		}
	}
	o := identity.JWTOptions{Issuer: j.Issuer, Audience: f.c.URL, JWKS: j.JWKS, Workspaces: roots, Now: time.Now}
	o.Claims.Agent, o.Claims.Workspace, o.Claims.MaxTier, o.Claims.Tools = j.Claims.Agent, j.Claims.Workspace, j.Claims.MaxTier, j.Claims.Tools
	servers := j.Servers
	if len(servers) == 0 {
		servers = []string{j.Issuer}
	}
	f.resource = identity.NewResource(f.c.URL, servers...)
	f.verifier, err = identity.NewVerifier(ctx, o)
	return err
}

// authenticate establishes who sends a request.
func (f *front) authenticate(r *http.Request) (*mcpserver.Peer, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") || text == "" {
		return nil, errors.New("there is no bearer token")
	}
	var id identity.Identity
	var err error
	source := "token"
	switch {
	case strings.HasPrefix(text, identity.Prefix):
		id, err = f.d.tokens.Check(time.Now(), text)
	case f.verifier != nil:
		source = "jwt"
		id, err = f.verifier.Check(r.Context(), text)
	default:
		err = identity.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	root, err := f.d.place.checkWorkspace(id.Workspace)
	if err != nil {
		return nil, err
	}
	if root != id.Workspace {
		return nil, fmt.Errorf("workspace %s leads to %s: the credential has to name that", id.Workspace, root)
	}
	p := &mcpserver.Peer{
		Agent: id.Agent, User: id.User, Workspace: root, MaxTier: id.MaxTier, Tools: id.Tools, Credential: id.Credential,
		Sources: map[string]string{"agent": source, "workspace": source, "credential": id.Credential},
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		p.Sources["certificate"] = name(r.TLS.PeerCertificates[0].Subject.CommonName)
	}
	return p, nil
}

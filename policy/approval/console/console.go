// Package console is the web page of the approvals desk: what waits, what it
// would do, and the answer. A person comes in by a one-time link that the
// control socket hands out; an agent's token opens nothing here. Deciding works
// without JavaScript.
package console

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"sallyport/policy/approval"
)

// The defaults of Options.
const (
	DefaultPrefix     = "/console"
	DefaultLinkTTL    = 2 * time.Minute
	DefaultSessionTTL = time.Hour
)

// Options configure a console. Desk is needed; the rest has defaults.
type Options struct {
	Desk   *approval.Desk
	Prefix string           // path the console is served beneath, without a trailing slash
	Now    func() time.Time // nil: time.Now
	Rand   io.Reader        // source of tokens; nil: crypto/rand

	LinkTTL    time.Duration // how long a login link can be used
	SessionTTL time.Duration // how long a login lasts without a decision

	// Hosts are the host names the console answers to besides loopback ones; any
	// other Host header is refused, which keeps foreign names from rebinding.
	Hosts []string
	// Secure marks the cookie for TLS only.
	Secure bool
}

// Console is the web page. It is an http.Handler to be mounted at Prefix.
type Console struct {
	o        Options
	handler  http.Handler
	pages    map[string]*template.Template
	sessions *sessions
	refusals *rate.Limiter // of records of refused logins, so that none can flood the log
}

//go:embed assets
var assets embed.FS

// New makes a console over a desk.
func New(o Options) (*Console, error) {
	if o.Desk == nil {
		return nil, errors.New("make the console: it needs a desk")
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.LinkTTL <= 0 {
		o.LinkTTL = DefaultLinkTTL
	}
	if o.SessionTTL <= 0 {
		o.SessionTTL = DefaultSessionTTL
	}
	c := &Console{o: o, sessions: newSessions(o), refusals: rate.NewLimiter(1, 20)}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	static, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	c.handler = c.routes(static)
	return c, nil
}

// routes is the one list of what the console answers.
func (c *Console) routes(static fs.FS) http.Handler {
	mux := http.NewServeMux()
	p := c.o.Prefix
	file := http.FileServerFS(static)
	mux.Handle("GET "+p+"/style.css", http.StripPrefix(p, file))
	mux.Handle("GET "+p+"/live.js", http.StripPrefix(p, file))
	mux.Handle("GET "+p+"/icon.svg", http.StripPrefix(p, file))
	mux.HandleFunc("GET "+p+"/login", c.loginPage)
	mux.HandleFunc("POST "+p+"/login", c.login)
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request, *session){
		"GET " + p + "/{$}":                    c.list,
		"GET " + p + "/requests/{id}":          c.request,
		"GET " + p + "/batches/{id}":           c.batch,
		"POST " + p + "/requests/{id}/approve": c.approve,
		"POST " + p + "/requests/{id}/deny":    c.deny,
		"GET " + p + "/grants":                 c.grants,
		"POST " + p + "/grants":                c.addGrant,
		"POST " + p + "/grants/{id}/revoke":    c.revoke,
		"POST " + p + "/freeze":                c.freeze,
		"POST " + p + "/lift":                  c.lift,
		"POST " + p + "/logout":                c.logout,
		"GET " + p + "/events":                 c.events,
	} {
		mux.HandleFunc(pattern, c.signedIn(h))
	}
	mux.HandleFunc("GET "+p, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p+"/", http.StatusSeeOther)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.message(w, nil, http.StatusNotFound, "There is no such page.")
	})
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.refused(r, "a form sent from another site")
		c.message(w, nil, http.StatusForbidden, "This form came from another site. Nothing was decided.")
	}))
	return c.guard(cross.Handler(mux))
}

// policy forbids every source but the console itself, inline scripts and styles
// included.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm bounds a posted form, in bytes.
const maxForm = 64 << 10

// guard sets the headers every answer has and refuses foreign host names.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !c.knownHost(r.Host) {
			http.Error(w, "this console does not answer to that host name; add it to the configuration", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

func (c *Console) knownHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost") {
		return true
	}
	for _, h := range c.o.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

// ServeHTTP answers a request beneath Prefix.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// refused records that somebody was turned away.
func (c *Console) refused(r *http.Request, note string) {
	if c.refusals.Allow() {
		// The person is turned away whether or not the desk can record it.
		_ = c.o.Desk.Refuse(approval.Person{Name: "unknown", Channel: "console", From: r.RemoteAddr, UID: -1}, note)
	}
}

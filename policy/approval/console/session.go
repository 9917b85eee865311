package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"sallyport/policy/approval"
)

const cookieName = "sallyport_console"

// session is one person's login in one browser.
type session struct {
	person  approval.Person
	csrf    string // proves that a form is one of this session's pages
	expires time.Time
	streams int // open event streams
}

// sessions are the links handed out and the logins made of them, by the SHA-256
// of their token. They live in memory: after a restart people log in again.
type sessions struct {
	o    Options
	mu   sync.Mutex
	link map[[32]byte]link
	live map[[32]byte]*session
}

type link struct {
	person  approval.Person
	expires time.Time
}

func newSessions(o Options) *sessions {
	return &sessions{o: o, link: map[[32]byte]link{}, live: map[[32]byte]*session{}}
}

// Link mints a one-time login for a person whom the caller knows by other means,
// such as peer credentials. The answer is a path with query, to be put behind the
// console's scheme and host; it works once and for LinkTTL.
func (c *Console) Link(p approval.Person) (string, error) {
	if p.Name == "" {
		return "", fmt.Errorf("make a login link: it needs a person's name")
	}
	token, err := c.sessions.token()
	if err != nil {
		return "", fmt.Errorf("make a login link: %w", err)
	}
	p.Channel = "console"
	s := c.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.link[sha256.Sum256([]byte(token))] = link{p, s.o.Now().Add(s.o.LinkTTL)}
	return c.o.Prefix + "/login?token=" + url.QueryEscape(token), nil
}

func (s *sessions) token() (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(s.o.Rand, b[:]); err != nil {
		return "", fmt.Errorf("draw a token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// sweep forgets what has expired; s.mu is held.
func (s *sessions) sweep() {
	now := s.o.Now()
	for k, l := range s.link {
		if !now.Before(l.expires) {
			delete(s.link, k)
		}
	}
	for k, l := range s.live {
		if !now.Before(l.expires) {
			delete(s.live, k)
		}
	}
}

// known is the person a link is for, without using it.
func (s *sessions) known(token string) (approval.Person, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	l, ok := s.link[sha256.Sum256([]byte(token))]
	return l.person, ok
}

// redeem turns a link into a login and gives the cookie's value.
func (s *sessions) redeem(token, from string) (string, bool) {
	cookie, err := s.token()
	if err != nil {
		return "", false
	}
	csrf, err := s.token()
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	key := sha256.Sum256([]byte(token))
	l, ok := s.link[key]
	if !ok {
		return "", false
	}
	delete(s.link, key)
	l.person.From = from
	s.live[sha256.Sum256([]byte(cookie))] = &session{person: l.person, csrf: csrf, expires: s.o.Now().Add(s.o.SessionTTL)}
	return cookie, true
}

// of is the session of a request, its life prolonged; nil when there is none.
func (s *sessions) of(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	l := s.live[sha256.Sum256([]byte(c.Value))]
	if l != nil && r.Method != http.MethodGet {
		l.expires = s.o.Now().Add(s.o.SessionTTL)
	}
	return l
}

func (s *sessions) end(r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, sha256.Sum256([]byte(c.Value)))
	}
}

// alive reports whether a session has neither ended nor expired.
func (s *sessions) alive(l *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for _, o := range s.live {
		if o == l {
			return true
		}
	}
	return false
}

// signedIn lets h see requests of a session only, and forms that carry its token.
func (c *Console) signedIn(h func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessions.of(r)
		if s == nil {
			if r.Method == http.MethodPost {
				c.refused(r, "a form without a login")
			}
			c.message(w, nil, http.StatusUnauthorized, "You are not signed in. Run `sallyport console` in a terminal and open the link it prints; it works once.")
			return
		}
		if r.Method == http.MethodPost && subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(s.csrf)) != 1 {
			c.refused(r, "a form without this login's token")
			c.message(w, s, http.StatusForbidden, "This form is not of your present login. Reload the page and try again; nothing was decided.")
			return
		}
		h(w, r, s)
	}
}

// loginPage asks for a click, so that a program that merely fetches the link does
// not use it up.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	p, ok := c.sessions.known(token)
	if !ok {
		c.refused(r, "a login link that is used, old or forged")
		c.message(w, nil, http.StatusUnauthorized, "This link is used or too old. Run `sallyport console` for a new one.")
		return
	}
	c.render(w, http.StatusOK, "login", page{Title: "Sign in", Body: map[string]string{"Token": token, "Name": p.Name}})
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	cookie, ok := c.sessions.redeem(r.PostFormValue("token"), r.RemoteAddr)
	if !ok {
		c.refused(r, "a login link that is used, old or forged")
		c.message(w, nil, http.StatusUnauthorized, "This link is used or too old. Run `sallyport console` for a new one.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: cookie, Path: c.o.Prefix + "/",
		HttpOnly: true, Secure: c.o.Secure, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, c.o.Prefix+"/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, _ *session) {
	c.sessions.end(r)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: c.o.Prefix + "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	c.message(w, nil, http.StatusOK, "You are signed out.")
}

package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
	"sallyport/policy/approval/console"
)

// Whoever is not a signed-in person on the console's own page decides nothing.
func TestWhoIsTurnedAway(t *testing.T) {
	t.Parallel()
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	for name, tc := range map[string]struct {
		signedIn bool
		csrf     string
		change   func(*http.Request)
		status   int
	}{
		"nobody":                       {false, "", func(*http.Request) {}, http.StatusUnauthorized},
		"an agent with its own token":  {false, "", header("Authorization", "Bearer agent-token"), http.StatusUnauthorized},
		"a forged cookie":              {false, "", header("Cookie", "sallyport_console=AAAA"), http.StatusUnauthorized},
		"a form without token":         {true, "-", func(*http.Request) {}, http.StatusForbidden},
		"a form from another site":     {true, "", header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"a form of another origin":     {true, "", header("Origin", "http://evil.test"), http.StatusForbidden},
		"a form from another port":     {true, "", header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"a name bound to this address": {true, "", func(r *http.Request) { r.Host = "evil.test" }, http.StatusMisdirectedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := f.ask(t)
			b := f.browser(t)
			if tc.signedIn {
				b = f.signIn(t, ann)
			}
			form := url.Values{"scope": {"once"}}
			if tc.csrf != "" {
				form.Set("csrf", tc.csrf)
			}
			status, _ := b.post(t, "/console/requests/"+r.ID+"/approve", form, tc.change)
			require.Equal(t, tc.status, status)
			got, err := f.desk.Get(r.ID)
			require.NoError(t, err)
			require.Equal(t, approval.StatePending, got.State)
			if status != http.StatusMisdirectedRequest {
				require.Equal(t, approval.Refused, f.last().Kind, "the attempt is recorded")
			}
		})
	}
}

func TestALinkWorksOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link, err := f.page.Link(ann)
	require.NoError(t, err)
	u, err := url.Parse(link)
	require.NoError(t, err)
	secret := u.Query().Get("token")
	for range 3 {
		status, _ := f.browser(t).get(t, link)
		require.Equal(t, http.StatusOK, status, "looking at it does not use it")
	}
	status, _ := f.browser(t).post(t, "/console/login", url.Values{"token": {secret}})
	require.Equal(t, http.StatusOK, status)
	status, body := f.browser(t).post(t, "/console/login", url.Values{"token": {secret}})
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "used or too old")
	require.Equal(t, approval.Refused, f.last().Kind)

	link, err = f.page.Link(ann)
	require.NoError(t, err)
	f.pass(console.DefaultLinkTTL)
	status, _ = f.browser(t).get(t, link)
	require.Equal(t, http.StatusUnauthorized, status)
	_, err = f.page.Link(approval.Person{})
	require.Error(t, err)
}

func TestALoginEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signIn(t, ann)
	f.pass(console.DefaultSessionTTL - time.Second)
	status, _ := b.post(t, "/console/freeze", url.Values{})
	require.Equal(t, http.StatusOK, status)
	f.pass(console.DefaultSessionTTL - time.Second)
	status, _ = b.get(t, "/console/")
	require.Equal(t, http.StatusOK, status, "a decision prolongs it")
	f.pass(time.Second)
	status, _ = b.get(t, "/console/")
	require.Equal(t, http.StatusUnauthorized, status)

	b = f.signIn(t, ann)
	_, _ = b.post(t, "/console/logout", url.Values{})
	status, _ = b.get(t, "/console/")
	require.Equal(t, http.StatusUnauthorized, status)
}

// The requester signs in at the console under its own name, or by its session.
func TestTheRequesterCannotApproveFromThePage(t *testing.T) {
	t.Parallel()
	for _, p := range []approval.Person{{Name: "claude-code"}, {Name: "x", Session: "s1"}} {
		f := newFixture(t)
		r := f.ask(t)
		status, body := f.signIn(t, p).post(t, "/console/requests/"+r.ID+"/approve", url.Values{"scope": {"once"}, "shown": {r.Shown}})
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "the requester cannot approve its own call")
		require.Equal(t, approval.Refused, f.last().Kind)
	}
}

func TestThePageTrustsNothingButItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link, err := f.page.Link(ann)
	require.NoError(t, err)
	for _, path := range []string{"/console/", link, "/console/nothing", "/console/style.css"} {
		res, err := http.Get(f.url + path)
		require.NoError(t, err)
		res.Body.Close()
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
		require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
		require.Equal(t, "DENY", res.Header.Get("X-Frame-Options"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	}
	b := f.browser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u, err := url.Parse(link)
	require.NoError(t, err)
	res, err := b.PostForm(f.url+"/console/login", url.Values{"token": {u.Query().Get("token")}})
	require.NoError(t, err)
	res.Body.Close()
	c := res.Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, "/console/", c.Path)
}

func TestAHugeFormIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	b := f.signIn(t, ann)
	big := make([]byte, 128<<10)
	for i := range big {
		big[i] = 'x'
	}
	status, _ := b.post(t, "/console/requests/"+r.ID+"/deny", url.Values{"note": {string(big)}})
	require.Equal(t, http.StatusForbidden, status)
	got, err := f.desk.Get(r.ID)
	require.NoError(t, err)
	require.Equal(t, approval.StatePending, got.State)
}

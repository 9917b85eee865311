package console_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/console"
)

var ann = approval.Person{Name: "ann", UID: 1000}

type fixture struct {
	desk *approval.Desk
	page *console.Console
	url  string

	mu     sync.Mutex
	now    time.Time
	events []approval.Event
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { f.mu.Lock(); defer f.mu.Unlock(); return f.now }
	desk, err := approval.Open(filepath.Join(t.TempDir(), "state.db"), approval.Options{Now: clock, Record: func(e approval.Event) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
		return nil
	}})
	require.NoError(t, err)
	page, err := console.New(console.Options{Desk: desk, Now: clock})
	require.NoError(t, err)
	server := httptest.NewServer(page)
	t.Cleanup(func() { desk.Close(); server.Close() })
	f.desk, f.page, f.url = desk, page, server.URL
	return f
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) last() approval.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events[len(f.events)-1]
}

// ask puts a request on the desk.
func (f *fixture) ask(t *testing.T, change ...func(*approval.Ask)) approval.Request {
	t.Helper()
	a := approval.Ask{
		Subject: approval.Subject{Agent: "claude-code", Session: "s1", User: "ann", Tool: "edit_file", Workspace: "/work/demo", Args: json.RawMessage(`{}`)},
		Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask, Rules: []policy.RuleHit{
			{ID: "code.edit", Tier: policy.L2, Verdict: policy.Ask, Reason: "changes code"},
		}},
		Show: approval.Show{
			Summary: "edit_file: edit <main>.go\u202e", Files: []approval.Touch{{Op: "edit", Path: "main.go"}},
			Diff: "--- a/main.go\n+++ b/main.go\n@@ -3 +3 @@\n-old <script>alert(1)</script>\n+new\n",
		},
	}
	for _, c := range change {
		c(&a)
	}
	out, err := f.desk.Settle(t.Context(), a)
	require.NoError(t, err)
	return out.Request
}

// browser is a client with cookies that does not run scripts.
type browser struct {
	*http.Client
	base string
	csrf string
}

var token = regexp.MustCompile(`name="(?:csrf|token)" value="([^"]+)"`)

func (f *fixture) browser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{Client: &http.Client{Jar: jar}, base: f.url}
}

func (f *fixture) signIn(t *testing.T, p approval.Person) *browser {
	t.Helper()
	link, err := f.page.Link(p)
	require.NoError(t, err)
	b := f.browser(t)
	status, body := b.get(t, link)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "Continue as "+p.Name)
	status, body = b.post(t, "/console/login", url.Values{"token": {token.FindStringSubmatch(body)[1]}})
	require.Equal(t, http.StatusOK, status)
	b.csrf = token.FindStringSubmatch(body)[1]
	return b
}

func (b *browser) do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	res, err := b.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func (b *browser) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+path, nil)
	require.NoError(t, err)
	return b.do(t, r)
}

func (b *browser) post(t *testing.T, path string, form url.Values, change ...func(*http.Request)) (int, string) {
	t.Helper()
	if b.csrf != "" && !form.Has("csrf") {
		form.Set("csrf", b.csrf)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range change {
		c(r)
	}
	return b.do(t, r)
}

func TestAPersonSeesAndApproves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	b := f.signIn(t, ann)

	_, list := b.get(t, "/console/")
	require.Contains(t, list, "Waiting for you")
	require.Contains(t, list, r.ID)
	require.Contains(t, list, `edit &lt;main&gt;.go<mark class="code">‹U+202E›</mark>`)

	_, show := b.get(t, "/console/requests/"+r.ID)
	require.Contains(t, show, "changes code")
	require.Contains(t, show, `<tr class="del"><td class="n" data-n="3"></td><td class="n" data-n=""></td><td class="t">-old &lt;script&gt;`)
	require.Contains(t, show, `<tr class="add"><td class="n" data-n=""></td><td class="n" data-n="3"></td><td class="t">+new`)
	require.Contains(t, show, `href="vscode://file/work/demo/main.go"`)
	require.NotContains(t, show, "<script>alert")

	status, after := b.post(t, "/console/requests/"+r.ID+"/approve", url.Values{"scope": {"once"}, "note": {"fine"}, "shown": {r.Shown}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, after, "is approved")
	got, err := f.desk.Get(r.ID)
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, got.State)
	require.Equal(t, "ann", got.Votes[0].Person.Name)
	require.Equal(t, "console", got.Votes[0].Person.Channel)
	require.Contains(t, got.Votes[0].Person.From, "127.0.0.1:")
	require.Equal(t, "fine", got.Votes[0].Note)

	status, again := b.post(t, "/console/requests/"+r.ID+"/deny", url.Values{"note": {"too late"}})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, again, "is approved by ann (console)")
}

func TestDenyWithAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	status, _ := f.signIn(t, ann).post(t, "/console/requests/"+r.ID+"/deny", url.Values{"note": {"use the config package"}})
	require.Equal(t, http.StatusOK, status)
	got, err := f.desk.Get(r.ID)
	require.NoError(t, err)
	require.Equal(t, approval.StateDenied, got.State)
	require.Equal(t, "use the config package", got.Advice)
}

func TestSessionGrantAndRevoke(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	b := f.signIn(t, ann)
	_, show := b.get(t, "/console/requests/"+r.ID)
	require.Contains(t, show, "For this session")
	b.post(t, "/console/requests/"+r.ID+"/approve", url.Values{"scope": {"session"}, "shown": {r.Shown}})
	_, grants := b.get(t, "/console/grants")
	all, err := f.desk.Grants()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, grants, all[0].ID)
	status, _ := b.post(t, "/console/grants/"+all[0].ID+"/revoke", url.Values{})
	require.Equal(t, http.StatusOK, status)
	all, err = f.desk.Grants()
	require.NoError(t, err)
	require.Equal(t, "revoked", all[0].State(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)))

	l3 := f.ask(t, func(a *approval.Ask) { a.Decision.Tier = policy.L3 })
	_, show = b.get(t, "/console/requests/"+l3.ID)
	require.NotContains(t, show, "For this session")
	status, page := b.post(t, "/console/requests/"+l3.ID+"/approve", url.Values{"scope": {"once"}})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, page, "tick that you have looked at all of it")
	status, _ = b.post(t, "/console/requests/"+l3.ID+"/approve", url.Values{"scope": {"once"}, "read": {"1"}, "shown": {l3.Shown}})
	require.Equal(t, http.StatusOK, status)
	cut := f.ask(t, func(a *approval.Ask) { a.Subject.Tool, a.Show.Cut = "x", []string{"diff: half of it"} })
	_, show = b.get(t, "/console/requests/"+cut.ID)
	require.NotContains(t, show, "For this session")
	require.Contains(t, show, "Not shown in full: diff: half of it")
}

func TestApproveAndGrant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	b := f.signIn(t, ann)
	form := func(paths, uses, hours string) url.Values {
		return url.Values{"scope": {"grant"}, "paths": {paths}, "uses": {uses}, "hours": {hours}, "session": {"1"}, "shown": {r.Shown}}
	}
	status, body := b.post(t, "/console/requests/"+r.ID+"/approve", form("", "x", "4"))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "nothing was approved")
	status, body = b.post(t, "/console/requests/"+r.ID+"/approve", form("src/**", "5", "4"))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "would not cover the call it comes from")
	status, _ = b.post(t, "/console/requests/"+r.ID+"/approve", form("src/**, *.go", "5", "4"))
	require.Equal(t, http.StatusOK, status)
	all, err := f.desk.Grants()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []string{"src/**", "*.go"}, all[0].Paths)
	require.Equal(t, "s1", all[0].Session)
	require.Equal(t, 5, all[0].Uses)
	require.Equal(t, 4*time.Hour, all[0].Until.Sub(all[0].Created))
}

func TestFreezeAndLift(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signIn(t, ann)
	_, page := b.post(t, "/console/freeze", url.Values{})
	require.Contains(t, page, "Every agent is frozen")
	frozen, _ := f.desk.Frozen("x")
	require.True(t, frozen)
	_, page = b.post(t, "/console/lift", url.Values{"agent": {""}})
	require.NotContains(t, page, "is frozen")
	frozen, _ = f.desk.Frozen("x")
	require.False(t, frozen)
}

func TestABatchIsOnePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ask := func(n string) approval.Ask {
		return approval.Ask{
			Subject:  approval.Subject{Agent: "claude-code", Session: "s1", Tool: "edit_file", Args: json.RawMessage(n)},
			Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask}, Show: approval.Show{Summary: "edit number " + n},
		}
	}
	batch, err := f.desk.Announce(t.Context(), []approval.Ask{ask("1"), ask("2"), ask("3")})
	require.NoError(t, err)
	b := f.signIn(t, ann)
	_, list := b.get(t, "/console/")
	require.Equal(t, 1, strings.Count(list, `<li class="card`))
	_, page := b.get(t, "/console/batches/"+batch.ID)
	for _, want := range []string{"edit number 1", "edit number 2", "edit number 3", "Approve all 3"} {
		require.Contains(t, page, want)
	}
	whole, err := f.desk.Batch(batch.ID)
	require.NoError(t, err)
	require.Contains(t, page, whole.Shown, "the answer is to what was shown")
	status, _ := b.post(t, "/console/requests/"+batch.ID+"/approve", url.Values{"scope": {"once"}, "shown": {whole.Calls[0].Shown}})
	require.Equal(t, http.StatusForbidden, status, "an answer to one call of it is none to all")
	status, _ = b.post(t, "/console/requests/"+batch.ID+"/approve", url.Values{"scope": {"once"}, "shown": {whole.Shown}})
	require.Equal(t, http.StatusOK, status)
	waiting, err := f.desk.List(approval.Filter{States: []approval.State{approval.StateApproved}})
	require.NoError(t, err)
	require.Len(t, waiting, 3)
}

func TestASuggestedGrantIsOneClick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	by := approval.Person{Name: "bob", Channel: "cli"}
	for i := range 8 {
		r := f.ask(t, func(a *approval.Ask) { a.Subject.Args = json.RawMessage{byte('0' + i)} })
		_, err := f.desk.Approve(r.ID, by, approval.ApproveOptions{Shown: r.Shown})
		require.NoError(t, err)
	}
	b := f.signIn(t, ann)
	_, list := b.get(t, "/console/")
	require.Contains(t, list, "The same answer 8 times in an hour")
	grant := regexp.MustCompile(`name="grant" value="([^"]+)"`).FindStringSubmatch(list)[1]
	grant = strings.NewReplacer("&#34;", `"`, "&amp;", "&").Replace(grant)
	status, _ := b.post(t, "/console/grants", url.Values{"grant": {grant}})
	require.Equal(t, http.StatusOK, status)
	all, err := f.desk.Grants()
	require.NoError(t, err)
	require.Equal(t, "ann", all[0].By.Name, "who clicks is who grants")
	status, _ = b.post(t, "/console/grants", url.Values{"grant": {`{"tool":"x","l3":true}`}})
	require.Equal(t, http.StatusForbidden, status)
	status, _ = b.post(t, "/console/grants", url.Values{"grant": {`{`}})
	require.Equal(t, http.StatusBadRequest, status)
}

func TestEventsAreLive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signIn(t, ann)
	res, err := b.Get(f.url + "/console/events")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	require.True(t, lines.Scan()) // the stream has begun
	r := f.ask(t)
	var data string
	for lines.Scan() && data == "" {
		data, _ = strings.CutPrefix(lines.Text(), "data: ")
		if !strings.HasPrefix(lines.Text(), "data: ") {
			data = ""
		}
	}
	require.JSONEq(t, `{"kind":"approval.requested","request":"`+r.ID+`"}`, data)
}

func TestOneLoginHasSoManyStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signIn(t, ann)
	for range 16 {
		res, err := b.Get(f.url + "/console/events")
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	status, _ := b.get(t, "/console/events")
	require.Equal(t, http.StatusTooManyRequests, status)
}

func TestFreezeOneAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.ask(t)
	b := f.signIn(t, ann)
	_, page := b.get(t, "/console/requests/"+r.ID)
	require.Contains(t, page, "Freeze this agent")
	b.post(t, "/console/freeze", url.Values{"agent": {"claude-code"}})
	frozen, _ := f.desk.Frozen("claude-code")
	require.True(t, frozen)
	frozen, _ = f.desk.Frozen("codex")
	require.False(t, frozen)
}

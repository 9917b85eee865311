package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
)

var secret = []byte("0123456789abcdef")

// post is one request a target got.
type post struct {
	header http.Header
	raw    []byte
	body   map[string]any
}

func (p post) at(keys ...any) any {
	var v any = p.body
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// receiver is the other system: it keeps what it is sent, and answers what it is
// told to.
type receiver struct {
	*httptest.Server
	got     chan post
	answers func(w http.ResponseWriter, n int)
}

func newReceiver(t *testing.T, answers func(w http.ResponseWriter, n int)) *receiver {
	r := &receiver{got: make(chan post, 100), answers: answers}
	n := 0
	var mu sync.Mutex
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := post{header: req.Header}
		p.raw, _ = io.ReadAll(req.Body)
		assert.NoError(t, json.Unmarshal(p.raw, &p.body))
		select {
		case r.got <- p:
		default:
			t.Error("the target was told more than the test reads")
		}
		mu.Lock()
		n++
		k := n
		mu.Unlock()
		if r.answers != nil {
			r.answers(w, k)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) next(t *testing.T) post {
	t.Helper()
	select {
	case p := <-r.got:
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("the target was not told")
		return post{}
	}
}

// fixture is a desk with a hook that runs, and the hook's callback server.
type fixture struct {
	desk *approval.Desk
	hook *webhook.Hook
	url  string

	mu     sync.Mutex
	now    time.Time
	events []approval.Event
}

func (f *fixture) clock() time.Time { f.mu.Lock(); defer f.mu.Unlock(); return f.now }

func (f *fixture) pass(d time.Duration) { f.mu.Lock(); defer f.mu.Unlock(); f.now = f.now.Add(d) }

func (f *fixture) refused() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == approval.Refused {
			out = append(out, e.Note)
		}
	}
	return out
}

func newFixture(t *testing.T, o webhook.Options) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	desk, err := approval.Open(filepath.Join(t.TempDir(), "state.db"), approval.Options{Now: f.clock, Record: func(e approval.Event) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
		return nil
	}})
	require.NoError(t, err)
	o.Desk, o.Now, o.Backoff, o.Log = desk, f.clock, time.Millisecond, slog.New(slog.DiscardHandler)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	if o.Public == "" {
		o.Public = server.URL
	}
	o.Console = "https://host.example/console"
	f.hook, err = webhook.New(o)
	require.NoError(t, err)
	handler = f.hook
	f.desk, f.url = desk, server.URL
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.hook.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		server.Close()
		desk.Close()
	})
	return f
}

func (f *fixture) ask(t *testing.T, change ...func(*approval.Ask)) approval.Request {
	t.Helper()
	a := approval.Ask{
		Subject: approval.Subject{Agent: "claude-code", Session: "s1", Tool: "edit_file", Workspace: "/work/demo", Args: json.RawMessage(`{}`)},
		Decision: policy.Decision{Tier: policy.L2, Verdict: policy.Ask, Rules: []policy.RuleHit{
			{ID: "code.edit", Tier: policy.L2, Verdict: policy.Ask, Reason: "changes code"},
		}},
		Show: approval.Show{
			Summary: "edit_file: edit <!channel> main.go", Files: []approval.Touch{{Op: "edit", Path: "src/main file.go"}},
			Diff: "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-token=hunter2\n+new\n",
		},
	}
	for _, c := range change {
		c(&a)
	}
	out, err := f.desk.Settle(t.Context(), a)
	require.NoError(t, err)
	return out.Request
}

func target(r *receiver, change ...func(*webhook.Target)) webhook.Target {
	t := webhook.Target{Name: "ops", URL: r.URL, Secret: secret, People: map[string]approval.Person{
		"bob@example.com": {Name: "bob", Roles: []string{"release"}}, "U1": {Name: "ann"},
	}}
	for _, c := range change {
		c(&t)
	}
	return t
}

func TestATargetIsToldAndAnswers(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r)}})
	req := f.ask(t)

	p := r.next(t)
	require.Equal(t, "waiting", p.at("kind"))
	require.Equal(t, req.ID, p.at("request", "id"))
	require.Contains(t, p.at("text"), "-token=hunter2")
	require.Equal(t, "https://host.example/console/requests/"+req.ID, p.at("console"))
	require.Equal(t, "vscode://file/work/demo/src/main%20file.go", p.at("editor"))
	seconds, err := strconv.ParseInt(p.header.Get(webhook.HeaderTimestamp), 10, 64)
	require.NoError(t, err)
	require.Equal(t, webhook.SignMessage(secret, time.Unix(seconds, 0), p.raw), p.header.Get(webhook.HeaderSignature))

	status, body := f.answer(t, webhook.Answer{Request: req.ID, Action: "approve", Person: "bob@example.com", Note: "fine", Shown: p.at("answer", "shown").(string)})
	require.Equal(t, http.StatusOK, status, body)
	got, err := f.desk.Get(req.ID)
	require.NoError(t, err)
	require.Equal(t, approval.StateApproved, got.State)
	require.Equal(t, "bob (webhook)", got.Votes[0].Person.String())
	require.Equal(t, []string{"release"}, got.Votes[0].Person.Roles)
	require.Contains(t, got.Votes[0].Person.From, "ops 127.0.0.1")

	p = r.next(t)
	require.Equal(t, "decided", p.at("kind"))
	require.Contains(t, p.at("title"), "is approved")
}

// answer posts a signed answer, changed on its way.
func (f *fixture) answer(t *testing.T, a webhook.Answer, change ...func(*http.Request)) (int, string) {
	t.Helper()
	body, err := json.Marshal(a)
	require.NoError(t, err)
	return f.send(t, body, f.clock(), change...)
}

func (f *fixture) send(t *testing.T, body []byte, at time.Time, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/webhook/ops", strings.NewReader(string(body)))
	require.NoError(t, err)
	r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	r.Header.Set(webhook.HeaderSignature, webhook.SignAnswer(secret, at, body))
	for _, c := range change {
		c(r)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func TestDeliveryIsRetriedAndGivenUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers func(w http.ResponseWriter, n int)
		posts   int // of the first request
	}{
		"server error twice": {func(w http.ResponseWriter, n int) {
			if n <= 2 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}, 3},
		"too many, soon again": {func(w http.ResponseWriter, n int) {
			if n == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}, 2},
		"broken for good": {func(w http.ResponseWriter, n int) {
			if n <= 4 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, 4},
		"not found": {func(w http.ResponseWriter, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusNotFound)
			}
		}, 1},
		"sent elsewhere": {func(w http.ResponseWriter, n int) {
			if n == 1 {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(http.StatusFound)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, tc.answers)
			f := newFixture(t, webhook.Options{Tries: 4, Targets: []webhook.Target{target(r)}})
			first := f.ask(t)
			f.pass(time.Second)
			second := f.ask(t, func(a *approval.Ask) { a.Subject.Args = json.RawMessage(`2`) })
			var delivery any
			for i := range tc.posts {
				p := r.next(t)
				require.Equal(t, first.ID, p.at("request", "id"))
				if i > 0 {
					require.Equal(t, delivery, p.at("delivery"), "a message sent again says that it is")
				}
				delivery = p.at("delivery")
			}
			require.Equal(t, second.ID, r.next(t).at("request", "id"), "then the next message, in order")
		})
	}
}

func TestEscalation(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r, func(t *webhook.Target) { t.After = 10 * time.Minute })}})
	bob := approval.Person{Name: "bob", Channel: "cli"}
	for i := range 4 {
		old := f.ask(t, func(a *approval.Ask) { a.Subject.Args = json.RawMessage(fmt.Sprint(i)) })
		_, err := f.desk.Deny(old.ID, bob, "no "+fmt.Sprint(i), "")
		require.NoError(t, err)
	}
	req := f.ask(t)
	f.pass(9 * time.Minute)
	f.ask(t, func(a *approval.Ask) { a.Subject.Tool = "other" })
	f.pass(time.Minute)
	f.ask(t, func(a *approval.Ask) { a.Subject.Tool = "another" }) // an event, so that the hook looks at the clock
	p := r.next(t)
	require.Equal(t, "still_waiting", p.at("kind"))
	require.Equal(t, req.ID, p.at("request", "id"))
	require.Contains(t, p.at("title"), "waits for 10m")
	require.Len(t, p.at("similar"), 3)
	require.Equal(t, "no 3", p.at("similar", 0, "note"))
	require.NotEmpty(t, p.at("editor"))
	require.Empty(t, r.got, "what was denied, or waits less long, is not told")
}

func TestSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r, func(t *webhook.Target) { t.Format = webhook.Slack })}})
	req := f.ask(t)
	p := r.next(t)
	require.Equal(t, req.ID+" L2: edit_file: edit &lt;!channel&gt; main.go", p.at("text"))
	require.Equal(t, "plain_text", p.at("blocks", 0, "text", "type"))
	require.Equal(t, "rich_text_preformatted", p.at("blocks", 1, "elements", 0, "type"))
	require.Equal(t, "https://host.example/console/requests/"+req.ID, p.at("blocks", 2, "elements", 0, "url"))
	require.Equal(t, "approve", p.at("blocks", 2, "elements", 1, "action_id"))

	click := func(action, user string, at time.Time) (int, string) {
		payload, err := json.Marshal(map[string]any{"type": "block_actions", "user": map[string]any{"id": user}, "actions": []any{
			map[string]any{"action_id": action, "value": p.at("blocks", 2, "elements", 1, "value")},
		}})
		require.NoError(t, err)
		body := url.Values{"payload": {string(payload)}}.Encode()
		stamp := strconv.FormatInt(at.Unix(), 10)
		m := hmac.New(sha256.New, secret)
		fmt.Fprintf(m, "v0:%s:%s", stamp, body)
		return f.send(t, []byte(body), at, func(r *http.Request) {
			r.Header.Set("X-Slack-Request-Timestamp", stamp)
			r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(m.Sum(nil)))
		})
	}
	status, _ := click("open", "U1", f.clock())
	require.Equal(t, http.StatusOK, status, "a click on the link decides nothing")
	status, _ = click("approve", "U2", f.clock())
	require.Equal(t, http.StatusForbidden, status)
	status, _ = click("approve", "U1", f.clock().Add(-time.Hour))
	require.Equal(t, http.StatusUnauthorized, status)
	status, text := click("approve", "U1", f.clock())
	require.Equal(t, http.StatusOK, status, text)
	got, err := f.desk.Get(req.ID)
	require.NoError(t, err)
	require.Equal(t, "ann", got.Votes[0].Person.Name)

	status, _ = f.answer(t, webhook.Answer{Request: req.ID, Action: "deny", Person: "U1", Shown: req.Shown})
	require.Equal(t, http.StatusUnauthorized, status, "a plain answer is none for Slack")
}

func TestFeishu(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			fmt.Fprint(w, `{"code":11232,"msg":"frequency limited"}`)
			return
		}
		fmt.Fprint(w, `{"code":0}`)
	})
	f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r, func(t *webhook.Target) { t.Format = webhook.Feishu })}})
	req := f.ask(t, func(a *approval.Ask) { a.Decision.Tier = policy.L3 })
	r.next(t)
	p := r.next(t)
	m := hmac.New(sha256.New, []byte(p.at("timestamp").(string)+"\n"+string(secret)))
	require.Equal(t, base64.StdEncoding.EncodeToString(m.Sum(nil)), p.at("sign"))
	require.Equal(t, "interactive", p.at("msg_type"))
	require.Equal(t, "red", p.at("card", "header", "template"))
	require.Contains(t, p.at("card", "elements", 0, "text", "content"), "changes code")
	require.Equal(t, "https://host.example/console/requests/"+req.ID, p.at("card", "elements", 1, "actions", 0, "url"))
	status, _ := f.answer(t, webhook.Answer{Request: req.ID, Action: "approve", Person: "U1", Shown: req.Shown})
	require.Equal(t, http.StatusNotFound, status, "a custom bot takes no answers")
}

func TestWhatLeavesTheMachine(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{
		Redact:  func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") },
		Targets: []webhook.Target{target(r)},
	})
	f.ask(t, func(a *approval.Ask) {
		a.Show.Summary = "login hunter2"
		a.Decision.Rules[0].Cmd = "login hunter2"
		a.Subject.Args = json.RawMessage(`"hunter2"`)
	})
	require.NotContains(t, string(r.next(t).raw), "hunter2")

	long := f.ask(t, func(a *approval.Ask) { a.Show.Diff = strings.Repeat("+line\n", 5000) })
	p := r.next(t)
	require.Equal(t, long.ID, p.at("request", "id"))
	require.Contains(t, p.at("text"), "cut here")
	require.Nil(t, p.at("answer"), "what is not shown whole is not decided from here")
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	good := webhook.Target{Name: "ops", URL: "https://example.com/x", Secret: secret}
	for want, change := range map[string]func(*webhook.Target){
		"name of letters":       func(t *webhook.Target) { t.Name = "a/b" },
		"not an http or https":  func(t *webhook.Target) { t.URL = "file:///etc/passwd" },
		"give it 16 at least":   func(t *webhook.Target) { t.Secret = []byte("short") },
		`format "teams" is not`: func(t *webhook.Target) { t.Format = "teams" },
	} {
		bad := good
		change(&bad)
		_, err := webhook.New(webhook.Options{Desk: &approval.Desk{}, Targets: []webhook.Target{bad}})
		require.ErrorContains(t, err, want)
	}
	_, err := webhook.New(webhook.Options{Desk: &approval.Desk{}, Targets: []webhook.Target{good, good}})
	require.ErrorContains(t, err, "two targets")
	_, err = webhook.New(webhook.Options{})
	require.Error(t, err)
}

// A target that does not answer holds up so many messages and no more.
func TestABacklogIsBounded(t *testing.T) {
	t.Parallel()
	dropped := 0
	h, err := webhook.New(webhook.Options{
		Desk: &approval.Desk{}, Log: slog.New(slog.DiscardHandler), Dropped: func(string, string) { dropped++ },
		Targets: []webhook.Target{{Name: "ops", URL: "http://127.0.0.1/", Secret: secret}},
	})
	require.NoError(t, err)
	h.Fill("ops", 1024)
	require.Zero(t, dropped)
	h.Fill("ops", 3)
	require.Equal(t, 3, dropped)
}

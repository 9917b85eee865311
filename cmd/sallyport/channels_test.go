package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
)

// chat is another system's real HTTP server that is told what waits.
type chat struct {
	*httptest.Server
	got chan string
	bad int // how many of the first messages it fails
}

func newChat(t *testing.T, bad int) *chat {
	t.Helper()
	c := &chat{got: make(chan string, 64), bad: bad}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if c.bad > 0 {
			c.bad--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		c.got <- string(body)
	}))
	t.Cleanup(c.Close)
	return c
}

// next is the next message that holds a text, within a minute.
func (c *chat) next(t *testing.T, text string) string {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case m := <-c.got:
			if strings.Contains(m, text) {
				return m
			}
		case <-end:
			t.Fatalf("no message with %q came", text)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// desk is a daemon with three chats, one of them an escalation, and its page at
// http.listen.
func serveChats(t *testing.T, plain, slack, feishu *chat, prepare ...func(*house)) (*house, *wire) {
	t.Helper()
	h := emptyHouse(t)
	secret := filepath.Join(h.dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte(chatSecret), 0o600))
	port := freePort(t)
	h.configure(fmt.Sprintf(`http: {listen: "127.0.0.1:%[1]d", url: "http://127.0.0.1:%[1]d/mcp"}
console: {url: "http://127.0.0.1:%[1]d/console"}
webhooks:
  - {name: team, url: %[2]q, secret_file: %[5]q, people: {ann@example.com: ann}}
  - {name: oncall, url: %[3]q, format: slack, secret_file: %[5]q, after: 3s, people: {U1: ann}}
  - {name: lark, url: %[4]q, format: feishu, secret_file: %[5]q, after: 3s}
`, port, plain.URL, slack.URL, feishu.URL, secret))
	for _, p := range prepare {
		p(h)
	}
	h.serve("serve")
	w := &world{t: t, dir: h.dir, state: filepath.Join(h.dir, "state"), work: h.workspace}
	return h, w.over(w.command("mcp", "--workspace", h.workspace))
}

const chatSecret = "0123456789abcdef0123456789abcdef"

// The chats of the configuration are told by the daemon, the next one when nobody
// decided; whoever answers first wins and the others are told.
func TestChatsAndEscalation(t *testing.T) {
	t.Parallel()
	plain, slack, feishu := newChat(t, 1), newChat(t, 0), newChat(t, 0)
	h, c := serveChats(t, plain, slack, feishu)
	id := 0
	write := func(name string) string {
		id++
		c.send(call(id, "write_file", `{"path":"`+name+`","content":"text\n"}`))
		return c.recv()
	}
	for i := range 4 { // what the escalation will call similar
		write(fmt.Sprintf("past%d.txt", i))
		_, err := h.sallyport("approvals", "deny", h.request(fmt.Sprintf("past%d", i)), "reason", fmt.Sprint(i))
		require.NoError(t, err)
	}
	write("now.txt")
	asked := time.Now()
	m := plain.next(t, "now.txt") // the first message was lost and sent again
	var told struct {
		Kind, Console, Editor string
		Request               approval.Request
		Answer                struct{ URL, Shown string }
	}
	require.NoError(t, json.Unmarshal([]byte(m), &told))
	assert.Equal(t, "waiting", told.Kind)
	assert.Equal(t, h.url+"/console/requests/"+told.Request.ID, told.Console)
	assert.Equal(t, "vscode://file"+h.workspace+"/now.txt", told.Editor)
	assert.Equal(t, h.url+"/webhook/team", told.Answer.URL)

	still := slack.next(t, "now.txt")
	assert.GreaterOrEqual(t, time.Since(asked), 2*time.Second, "not before its time")
	lark := feishu.next(t, "now.txt")
	for _, text := range []string{still, lark} {
		for _, want := range []string{"past3.txt denied by", "reason 3", "past2.txt", "past1.txt", "vscode://file" + h.workspace + "/now.txt", told.Console} {
			assert.Contains(t, text, want)
		}
		assert.NotContains(t, text, "past0.txt", "the last three")
	}
	assert.Contains(t, still, "Approve once")
	assert.NotContains(t, lark, "Approve once", "its bot takes no answers")

	require.Equal(t, http.StatusOK, h.answerChat(told.Answer.URL,
		webhook.Answer{Request: told.Request.ID, Action: "approve", Person: "ann@example.com", Shown: told.Answer.Shown}))
	slack.next(t, "is approved")
	feishu.next(t, "is approved")
	assert.NotContains(t, write("now.txt"), "pending")
	assert.FileExists(t, filepath.Join(h.workspace, "now.txt"))
	_, err := h.sallyport("approvals", "deny", told.Request.ID)
	assert.Error(t, err, "the first answer stands")
}

// The page at http.listen: in by the one-time link, decided by a form, and nothing of
// it opens to an agent's token.
func TestThePageAtHTTPListen(t *testing.T) {
	t.Parallel()
	h, c := serveChats(t, newChat(t, 0), newChat(t, 0), newChat(t, 0))
	c.send(call(1, "write_file", `{"path":"page.txt","content":"seen on the page\n"}`))
	require.Contains(t, c.recv(), "pending")
	id := h.request("page.txt")

	token, _ := h.token("--agent", "remote", "--max-tier", "L3")
	r, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/console/requests/"+id, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := h.client.Do(r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)

	link, err := h.sallyport("console")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(link, h.url+"/console/login?token="), link)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	form := func(path string, v url.Values) (int, string) {
		resp, err := browser.PostForm(h.url+path, v)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	u, err := url.Parse(link)
	require.NoError(t, err)
	status, page := form("/console/login", url.Values{"token": {u.Query().Get("token")}})
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, "page.txt")
	status, _ = form("/console/login", url.Values{"token": {u.Query().Get("token")}})
	assert.Equal(t, http.StatusUnauthorized, status, "the link works once")

	resp, err = browser.Get(h.url + "/console/requests/" + id)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.NoError(t, err)
	assert.Contains(t, string(b), "seen on the page")
	hidden := func(name string) string {
		m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(string(b))
		require.NotNil(t, m, name)
		return m[1]
	}
	status, page = form("/console/requests/"+id+"/approve", url.Values{"csrf": {hidden("csrf")}, "shown": {hidden("shown")}, "scope": {"once"}})
	require.Equal(t, http.StatusOK, status, page)
	assert.Contains(t, page, "is approved")
	c.send(call(2, "write_file", `{"path":"page.txt","content":"seen on the page\n"}`))
	assert.NotContains(t, c.recv(), "pending")
}

// A rule asks for two people: one on the command line and one in a chat are two, one
// person on both is not.
func TestTwoPeopleOnTwoChannels(t *testing.T) {
	t.Parallel()
	plain := newChat(t, 0)
	h, c := serveChats(t, plain, newChat(t, 0), newChat(t, 0), func(h *house) {
		dir := filepath.Join(h.dir, "config", "policy")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "two.rego"), []byte(`package sallyport.user

# METADATA
# title: Releases
# custom:
#   id: user.release
#   tier: L2
#   obligations: {approvers: 2}
#   reason: it makes a release
#   remedy: ask two people
hit contains rego.metadata.rule().custom if {
	some f in input.files
	f.path == "RELEASE"
}
`), 0o644))
	})
	release := call(1, "write_file", `{"path":"RELEASE","content":"1.4\n"}`)
	c.send(release)
	require.Contains(t, c.recv(), "user.release")
	id := h.request("RELEASE")
	_, err := h.sallyport("approvals", "approve", id)
	require.NoError(t, err)
	assert.Equal(t, id, h.request("RELEASE"), "one is not enough")
	_, err = h.sallyport("approvals", "approve", id)
	require.Error(t, err, "one person twice is one person")

	var told struct{ Answer struct{ URL, Shown string } }
	require.NoError(t, json.Unmarshal([]byte(plain.next(t, "RELEASE")), &told))
	require.Equal(t, http.StatusOK, h.answerChat(told.Answer.URL, webhook.Answer{Request: id, Action: "approve", Person: "ann@example.com", Shown: told.Answer.Shown}))
	c.send(strings.Replace(release, `"id":1`, `"id":2`, 1))
	assert.NotContains(t, c.recv(), "pending")
	assert.FileExists(t, filepath.Join(h.workspace, "RELEASE"))
}

// answerChat posts a signed answer, as the other system does, and gives the status.
func (h *house) answerChat(address string, a webhook.Answer) int {
	h.t.Helper()
	body, err := json.Marshal(a)
	require.NoError(h.t, err)
	now := time.Now()
	r, err := http.NewRequestWithContext(h.t.Context(), "POST", address, strings.NewReader(string(body)))
	require.NoError(h.t, err)
	r.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
	r.Header.Set(webhook.HeaderSignature, webhook.SignAnswer([]byte(chatSecret), now, body))
	resp, err := h.client.Do(r)
	require.NoError(h.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

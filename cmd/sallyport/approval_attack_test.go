package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
)

// siege is a real daemon with every door open: sockets, HTTP, a webhook target, the
// console. The agent is one host on a real shim.
type siege struct {
	*house
	agent  *wire
	token  string // of an agent over HTTP
	secret []byte // of the webhook target
	calls  int
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	h := emptyHouse(t)
	told := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(told.Close)
	s := &siege{house: h, secret: []byte("0123456789abcdef0123456789abcdef")}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "secret"), s.secret, 0o600))
	for name, text := range map[string]string{"deploy.sh": "echo ship >shipped.txt\n", "config.yaml": "a: 1\n", "main.txt": "old\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(h.workspace, name), []byte(text), 0o644))
	}
	h.configure(fmt.Sprintf(`http: {url: "http://127.0.0.1:1/mcp"}
webhooks:
  - {name: ops, url: %q, secret_file: %q, people: {ann@example.com: ann}}
`, told.URL, filepath.Join(h.dir, "secret")))
	h.serve()
	s.token, _ = h.house().token("--agent", "remote", "--max-tier", "L3")
	w := &world{t: t, dir: h.dir, state: filepath.Join(h.dir, "state"), work: h.workspace}
	s.agent = w.over(w.command("mcp", "--workspace", h.workspace))
	return s
}

func (h *house) house() *house { return h }

// says makes one call of the agent and returns its answer.
func (s *siege) says(tool string, args any) string {
	s.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(s.t, err)
	s.calls++
	s.agent.send(call(s.calls, tool, string(raw)))
	return s.agent.recv()
}

// pending is the request that a call of the agent left.
func (s *siege) asks(tool string, args map[string]any) approval.Request {
	s.t.Helper()
	answer := s.says(tool, args)
	m := requestID.FindStringSubmatch(answer)
	require.NotNil(s.t, m, answer)
	return s.get(m[1])
}

func (s *siege) get(id string) approval.Request {
	s.t.Helper()
	out, err := s.sallyport("approvals", "show", "--json", id)
	require.NoError(s.t, err)
	var r approval.Request
	require.NoError(s.t, json.Unmarshal([]byte(out), &r))
	return r
}

func (s *siege) approve(id string) {
	s.t.Helper()
	_, err := s.sallyport("approvals", "approve", id)
	require.NoError(s.t, err)
}

// records are what the log holds after a number of records.
func (s *siege) records(after audit.Seq) []audit.Record {
	s.t.Helper()
	out, err := s.sallyport("audit", "list", "--json", "--limit", "0")
	require.NoError(s.t, err)
	var all []audit.Record
	d := json.NewDecoder(strings.NewReader(out))
	if strings.HasPrefix(out, "[") {
		require.NoError(s.t, json.Unmarshal([]byte(out), &all))
	} else {
		for d.More() {
			var r audit.Record
			require.NoError(s.t, d.Decode(&r))
			all = append(all, r)
		}
	}
	var out2 []audit.Record
	for _, r := range all {
		if r.Seq > after {
			out2 = append(out2, r)
		}
	}
	return out2
}

// post sends a body to the daemon's HTTP door.
func (s *siege) post(path string, body []byte, header map[string]string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+path, strings.NewReader(string(body)))
	require.NoError(s.t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func (s *siege) answerOf(r approval.Request, action string) []byte {
	b, _ := json.Marshal(webhook.Answer{Request: r.ID, Action: action, Person: "ann@example.com", Shown: r.Shown})
	return b
}

func (s *siege) signed(body []byte, secret []byte) map[string]string {
	now := time.Now()
	return map[string]string{
		webhook.HeaderTimestamp: fmt.Sprint(now.Unix()), webhook.HeaderSignature: webhook.SignAnswer(secret, now, body),
	}
}

// write puts a file into the workspace as somebody outside of Sallyport does.
func (s *siege) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o644))
}

// refused is a record of a refused attempt whose note holds a text.
func refused(text string) func(audit.Record) bool {
	return func(r audit.Record) bool {
		return r.Event == string(approval.Refused) && strings.Contains(string(r.Detail), text)
	}
}

// turnedAway is the record of a call that did not get through.
func turnedAway(tool string) func(audit.Record) bool {
	return func(r audit.Record) bool {
		return r.Tool == tool && (r.Status == audit.StatusPending || r.Status == audit.StatusDenied || r.Status == audit.StatusFailed || r.Status == audit.StatusInvalid)
	}
}

// TestNobodyApprovesForTheAgent attacks the desk of a real daemon by every door that
// an agent has. Each attack leaves the target undone and a record behind.
func TestNobodyApprovesForTheAgent(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	state := filepath.Join(s.dir, "state")
	undone := func(file string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(s.workspace, file)); return os.IsNotExist(err) }
	}
	attacks := []struct {
		name    string
		do      func(t *testing.T) (refusal string)
		want    string      // in the refusal
		holds   func() bool // the target is unharmed
		records func(audit.Record) bool
	}{
		{
			name: "the control socket from inside the cell",
			do: func(*testing.T) string {
				r := s.asks("write_file", written("a1.txt", "x"))
				return s.says("run_command", map[string]any{"argv": []string{"python3", "-c",
					"import os,socket\ns=socket.socket(socket.AF_UNIX)\ns.connect(os.path.join('" + filepath.Dir(state) + "','sta'+'te','control.sock'))\n" +
						"s.send(b'POST /v1/approvals/" + r.ID + "/approve HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nprint('let in')"}})
			},
			want: "FileNotFoundError|PermissionError|denied|pending", holds: undone("a1.txt"), records: turnedAway("run_command"),
		},
		{
			name: "the agents' socket from inside the cell",
			do: func(*testing.T) string {
				return s.says("run_command", map[string]any{"argv": []string{"python3", "-c",
					"import os,socket\ns=socket.socket(socket.AF_UNIX)\ns.connect(os.path.join('" + filepath.Dir(state) + "','sta'+'te','agent.sock'))\nprint('let in')"}})
			},
			want: "FileNotFoundError|PermissionError|denied|pending", records: turnedAway("run_command"),
		},
		{
			name: "the command line from inside the cell",
			do: func(t *testing.T) string {
				r := s.asks("write_file", written("a2.txt", "x"))
				b, err := os.ReadFile(filepath.Join(binaries, "sallyport"))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(s.workspace, "sp"), b, 0o755))
				return s.says("run_command", map[string]any{"command": "./sp --state " + state + " approvals approve " + r.ID})
			},
			want: "no such request|denied|pending|read-only|permission|mkdir", holds: undone("a2.txt"), records: turnedAway("run_command"),
		},
		{
			name: "the people's API over HTTP with the agent's own token",
			do: func(*testing.T) string {
				r := s.asks("write_file", written("a3.txt", "x"))
				return fmt.Sprint(s.post("/v1/approvals/"+r.ID+"/approve", []byte(`{"shown":"`+r.Shown+`"}`), map[string]string{"Authorization": "Bearer " + s.token}))
			},
			want: "403", holds: undone("a3.txt"), records: refused("tried POST /v1/approvals/"),
		},
		{
			name: "a preset over HTTP with the agent's own token",
			do: func(*testing.T) string {
				return fmt.Sprint(s.post("/v1/presets", []byte(`{"workspace":"`+s.workspace+`","preset":"solo"}`), map[string]string{"Authorization": "Bearer " + s.token}))
			},
			want: "403", records: refused("tried POST /v1/presets"),
		},
		{
			name: "the console with the agent's own token",
			do: func(*testing.T) string {
				r := s.asks("write_file", written("a4.txt", "x"))
				return fmt.Sprint(s.post("/console/requests/"+r.ID+"/approve", []byte("scope=once&shown="+r.Shown),
					map[string]string{"Authorization": "Bearer " + s.token, "Content-Type": "application/x-www-form-urlencoded"}))
			},
			want: "403", holds: undone("a4.txt"), records: refused("tried POST /console/requests/"),
		},
		{
			name: "a form posted to the console's own port without a login",
			do: func(t *testing.T) string {
				r := s.asks("write_file", written("a5.txt", "x"))
				link, err := s.sallyport("console")
				require.NoError(t, err)
				u, err := url.Parse(link)
				require.NoError(t, err)
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+u.Host+"/console/requests/"+r.ID+"/approve", strings.NewReader("scope=once&shown="+r.Shown))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				req.Header.Set("Authorization", "Bearer "+s.token)
				resp, err := s.client.Do(req)
				require.NoError(t, err)
				resp.Body.Close()
				return fmt.Sprint(resp.StatusCode)
			},
			want: "401", holds: undone("a5.txt"), records: refused("without a login"),
		},
		{
			name: "a forged callback",
			do: func(*testing.T) string {
				r := s.asks("write_file", written("a6.txt", "x"))
				body := s.answerOf(r, "approve")
				return fmt.Sprint(s.post("/webhook/ops", body, s.signed(body, []byte("not the secret, but as long..."))))
			},
			want: "401", holds: undone("a6.txt"), records: refused("signature does not fit"),
		},
		{
			name: "a replayed callback",
			do: func(t *testing.T) string {
				r := s.asks("write_file", written("a7.txt", "x"))
				body := s.answerOf(r, "approve")
				seal := s.signed(body, s.secret)
				require.Equal(t, http.StatusOK, s.post("/webhook/ops", body, seal))
				require.NotContains(t, s.says("write_file", written("a7.txt", "x")), "pending")
				require.NoError(t, os.Remove(filepath.Join(s.workspace, "a7.txt")))
				next := s.asks("write_file", written("a7.txt", "x"))
				require.NotEqual(t, r.ID, next.ID)
				return fmt.Sprint(s.post("/webhook/ops", body, seal))
			},
			want: "401", holds: undone("a7.txt"), records: refused("used before"),
		},
		{
			name: "a callback for somebody who may not",
			do: func(*testing.T) string {
				r := s.asks("write_file", written("a8.txt", "x"))
				body := []byte(strings.Replace(string(s.answerOf(r, "approve")), "ann@", "mallory@", 1))
				return fmt.Sprint(s.post("/webhook/ops", body, s.signed(body, s.secret)))
			},
			want: "403", holds: undone("a8.txt"), records: refused("is not a person"),
		},
		{
			name: "a callback for L3",
			do: func(*testing.T) string {
				r := s.asks("write_file", written(".github/workflows/ci.yml", "x"))
				body := s.answerOf(r, "approve")
				return fmt.Sprint(s.post("/webhook/ops", body, s.signed(body, s.secret)))
			},
			want: "403", holds: undone(".github/workflows/ci.yml"), records: refused("decides up to L2"),
		},
		{
			name: "an approver by the requester's own name",
			do: func(t *testing.T) string {
				w := &world{t: t, dir: s.dir, state: state, work: s.workspace}
				c := w.over(w.command("mcp", "--workspace", s.workspace, "--agent", self().user))
				c.send(call(1, "write_file", `{"path":"a9.txt","content":"x"}`))
				m := requestID.FindStringSubmatch(c.recv())
				require.NotNil(t, m)
				out, err := w.run("approvals", "approve", m[1])
				require.Error(t, err)
				return out
			},
			want: "cannot approve its own call", holds: undone("a9.txt"), records: refused("cannot approve its own call"),
		},
		{
			name: "changed arguments after the approval",
			do: func(*testing.T) string {
				s.approve(s.asks("write_file", written("b1.txt", "good")).ID)
				return s.says("write_file", written("b1.txt", "evil"))
			},
			want: "pending", holds: undone("b1.txt"), records: turnedAway("write_file"),
		},
		{
			name: "another file under an approved name",
			do: func(*testing.T) string {
				edit := map[string]any{"path": "main.txt", "old_string": "old", "new_string": "new"}
				s.approve(s.asks("edit_file", edit).ID)
				s.write("main.txt", "old, and something nobody saw\n")
				return s.says("edit_file", edit)
			},
			want: "pending.*file main.txt has other content",
			holds: func() bool {
				b, _ := os.ReadFile(filepath.Join(s.workspace, "main.txt"))
				return !strings.Contains(string(b), "new")
			},
			records: turnedAway("edit_file"),
		},
		{
			name: "a link in place of an approved file",
			do: func(t *testing.T) string {
				s.write("real.txt", "old\n")
				edit := map[string]any{"path": "real.txt", "old_string": "old", "new_string": "new"}
				s.approve(s.asks("edit_file", edit).ID)
				s.write("other.txt", "old\n")
				require.NoError(t, os.Remove(filepath.Join(s.workspace, "real.txt")))
				require.NoError(t, os.Symlink("other.txt", filepath.Join(s.workspace, "real.txt")))
				return s.says("edit_file", edit)
			},
			want: "pending",
			holds: func() bool {
				b, _ := os.ReadFile(filepath.Join(s.workspace, "other.txt"))
				return string(b) == "old\n"
			},
			records: turnedAway("edit_file"),
		},
		{
			name: "an edited script after the approval",
			do: func(*testing.T) string {
				run := map[string]any{"command": "sh deploy.sh", "write": true}
				s.approve(s.asks("run_command", run).ID)
				s.write("deploy.sh", "echo else >shipped.txt\n")
				return s.says("run_command", run)
			},
			want: "pending.*script deploy.sh has other content", holds: undone("shipped.txt"), records: turnedAway("run_command"),
		},
		{
			name: "a script edited while the call waits for its approval",
			do: func(t *testing.T) string {
				s.write("wait.sh", "echo one >waited.txt\n")
				s.calls++
				s.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_command",`+
					`"arguments":{"command":"sh wait.sh","write":true},"_meta":{"sallyport/wait_ms":60000}}}`, s.calls))
				id := ""
				waitFor(t, "the call waits", func() bool {
					out, err := s.sallyport("approvals", "list", "--json")
					var all []approval.Request
					if err != nil || json.Unmarshal([]byte(out), &all) != nil {
						return false
					}
					for _, r := range all {
						if strings.Contains(r.Summary, "wait.sh") {
							id = r.ID
						}
					}
					return id != ""
				})
				s.write("wait.sh", "echo two >waited.txt\n")
				s.approve(id)
				return s.agent.recv()
			},
			want: "pending.*script wait.sh has other content", holds: undone("waited.txt"), records: turnedAway("run_command"),
		},
		{
			name: "a path that only looks like the approved one",
			do: func(t *testing.T) string {
				s.approve(s.asks("write_file", written("notes.txt", "x")).ID)
				answer := s.says("write_file", written("n\u043etes.txt", "x")) // Cyrillic
				m := requestID.FindStringSubmatch(answer)
				require.NotNil(t, m, answer)
				out, err := s.sallyport("approvals", "show", m[1])
				require.NoError(t, err)
				assert.Contains(t, out, "n\u043e‹U+043E›tes.txt", "the person sees which letter it is")
				return answer
			},
			want: "pending", holds: undone("n\u043etes.txt"), records: turnedAway("write_file"),
		},
		{
			name: "a very long argument, approved for the session",
			do: func(t *testing.T) string {
				r := s.asks("write_file", written("long.txt", strings.Repeat("harmless\n", 60_000)+"evil\n"))
				assert.NotEmpty(t, r.Cut, "what is not shown is said")
				show, err := s.sallyport("approvals", "show", r.ID)
				require.NoError(t, err)
				assert.Contains(t, show, "Not shown in full")
				assert.NotContains(t, show, "approve "+r.ID+" --session", "no always for what was cut")
				w := &world{t: t, dir: s.dir, state: state, work: s.workspace}
				out, err := w.run("approvals", "approve", "--session", r.ID)
				require.Error(t, err)
				return out[strings.LastIndex(out, "sallyport:"):]
			},
			want: "can be approved once only", holds: undone("long.txt"), records: refused("approved once only"),
		},
		{
			name: "a command too long to read",
			do: func(*testing.T) string {
				return s.says("run_command", map[string]any{"command": "echo " + strings.Repeat("x", 40<<10) + "; touch long2.txt", "write": true})
			},
			want: "maxLength", holds: undone("long2.txt"), records: turnedAway("run_command"),
		},
		{
			name: "another session's request",
			do: func(t *testing.T) string {
				r := s.asks("write_file", written("c1.txt", "x"))
				_, _, header := s.house.post(s.token, "", initialize)
				return s.call(s.token, header.Get("Mcp-Session-Id"), "approval_status", `{"id":"`+r.ID+`"}`)
			},
			want: "has no request", holds: undone("c1.txt"),
			records: func(r audit.Record) bool { return r.Tool == "approval_status" && r.Status != audit.StatusOK },
		},
	}
	for _, a := range attacks { // one after another: each looks at the records of its own
		t.Run(a.name, func(t *testing.T) {
			var last audit.Seq
			for _, r := range s.records(0) {
				last = max(last, r.Seq)
			}
			refusal := a.do(t)
			assert.Regexp(t, "(?s)"+a.want, refusal)
			assert.NotContains(t, refusal, "let in")
			if a.holds != nil {
				assert.True(t, a.holds(), "what was attacked is as it was")
			}
			found := false
			for _, r := range s.records(last) {
				found = found || a.records(r)
			}
			assert.True(t, found, "it is on record")
		})
	}
	out, err := s.sallyport("audit", "verify")
	require.NoError(t, err, out)
	out, err = s.sallyport("preset")
	require.NoError(t, err)
	assert.Contains(t, out, "strict")
}

// Where the configuration asks for it, nothing that the agent's host started decides.
func TestTheAgentsHostDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "config"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "config", "config.yaml"), []byte("approvers: other-process\n"), 0o600))
	c := w.connect() // this test is the host, and what it starts is the host's
	c.send(call(1, "write_file", `{"path":"b.txt","content":"x"}`))
	m := requestID.FindStringSubmatch(c.recv())
	require.NotNil(t, m)
	for _, args := range [][]string{{"approvals", "approve", m[1]}, {"preset", "solo"}, {"grants", "add", "--session", "wire"}} {
		out, err := w.run(args...)
		require.Error(t, err, args)
		assert.Regexp(t, "may not decide it", out, args)
	}
	n := 0
	for _, r := range w.records() {
		if r.Event == string(approval.Refused) {
			n++
		}
	}
	assert.Equal(t, 3, n, "each attempt is on record")
	assert.NoFileExists(t, filepath.Join(w.work, "b.txt"))
}

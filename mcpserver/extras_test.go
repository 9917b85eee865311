package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/sandbox"
)

// talker is a client on a connection: it writes lines and reads lines.
type talker struct {
	t  *testing.T
	c  net.Conn
	in *json.Decoder
}

func talk(t *testing.T, s *Server, p *Peer) *talker {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(context.Background(), there, p); there.Close() }()
	t.Cleanup(func() { here.Close(); <-done })
	k := &talker{t, here, json.NewDecoder(here)}
	k.send(hello)
	assert.Contains(t, k.next(), "serverInfo")
	return k
}

func (k *talker) send(line string) {
	k.t.Helper()
	_, err := io.WriteString(k.c, line+"\n")
	require.NoError(k.t, err)
}

func (k *talker) next() string {
	k.t.Helper()
	require.NoError(k.t, k.c.SetReadDeadline(time.Now().Add(10*time.Second)))
	var m json.RawMessage
	require.NoError(k.t, k.in.Decode(&m))
	return string(m)
}

func (k *talker) ask(line string) string {
	k.t.Helper()
	k.send(line)
	return k.next()
}

func ann(t *testing.T) *Peer {
	return &Peer{Agent: "ann", Session: "s1", Conn: t.Name(), Workspace: t.TempDir(), MaxTier: policy.L2}
}

func readOf(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":%q}}`, uri)
}

func TestResourcesShowOnesOwn(t *testing.T) {
	t.Parallel()
	run, log := &slowRunner{let: make(chan struct{})}, &memoryLog{}
	s := New(Options{
		Gate: openGate{}, Desk: noDesk{}, Runner: run, Log: log, Limits: noLimits{}, Now: time.Now, ID: func() string { return "c1" },
		Rules: func() []Rule { return []Rule{{ID: "r.one", Tier: policy.L3, Verdict: policy.Ask}} },
		History: func(context.Context, string, int) ([]audit.Record, error) {
			return []audit.Record{
				{Call: "mine", Agent: "ann", Session: "s1", Tool: "grep", Status: audit.StatusOK},
				{Call: "another agent's", Agent: "bob", Session: "s1", Status: audit.StatusOK},
				{Call: "another session's", Agent: "ann", Session: "s2", Status: audit.StatusOK},
			}, nil
		},
	})
	k := talk(t, s, ann(t))
	assert.Contains(t, k.ask(readOf(uriWorkspace)), `\"max_tier\": \"L2\"`)
	assert.Contains(t, k.ask(readOf(uriPolicy)), "r.one")
	got := k.ask(readOf(uriSession))
	assert.Contains(t, got, "mine")
	assert.NotContains(t, got, "another")
	assert.Contains(t, k.ask(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`), uriSession)
	assert.Contains(t, k.ask(`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`), "why-refused")
	assert.Contains(t, k.ask(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"why-refused"}}`), uriSession)
}

func TestOutputPagesAreTheSessions(t *testing.T) {
	t.Parallel()
	s, _, _ := gated()
	text := strings.Repeat("ä", pageSize)
	c := &call{id: "c7", peer: &Peer{Session: "s1"}, result: sandbox.Result{Ran: true, Stdout: sandbox.Output{Data: []byte(text)}}}
	s.keep(c)
	assert.Contains(t, c.answer.Text, "sallyport://output/c7/1 (2 pages)")
	k := talk(t, s, ann(t))
	both := ""
	for n := 1; n <= 2; n++ {
		var m struct {
			Result struct{ Contents []struct{ Text string } }
		}
		require.NoError(t, json.Unmarshal([]byte(k.ask(readOf(fmt.Sprintf("sallyport://output/c7/%d", n)))), &m))
		require.Len(t, m.Result.Contents, 1)
		both += m.Result.Contents[0].Text
	}
	assert.Equal(t, text, both, "nothing is lost between pages")
	for _, uri := range []string{"sallyport://output/c7/3", "sallyport://output/c7/0", "sallyport://output/c7/x", "sallyport://output/c8/1"} {
		assert.Contains(t, k.ask(readOf(uri)), `"error"`, uri)
	}
	other := ann(t)
	other.Session, other.Conn = "s2", "other"
	assert.Contains(t, talk(t, s, other).ask(readOf("sallyport://output/c7/1")), `"error"`, "another session's")
}

func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	var p pages
	for i := range 10 {
		p.add(kept{fmt.Sprint(i), "s", strings.Repeat("x", pagesKept/4)})
	}
	assert.LessOrEqual(t, p.size, pagesKept)
	_, ok := p.find("9", "s")
	assert.True(t, ok)
	_, ok = p.find("0", "s")
	assert.False(t, ok)
}

func TestCallCarriesTraceAndKey(t *testing.T) {
	t.Parallel()
	s, run, log := gated()
	close(run.let)
	k := talk(t, s, ann(t))
	meta := `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","claudecode/toolUseId":"toolu_1"},`
	k.ask(strings.Replace(callOf(1, "read_file", readIt), `"params":{`, `"params":{`+meta, 1))
	k.ask(strings.Replace(callOf(2, "no_such_tool", readIt), `"params":{`, `"params":{`+meta, 1))
	k.ask(strings.Replace(callOf(3, "read_file", readIt), `"params":{`, `"params":{"_meta":{"traceparent":"00-zz-1-01","claudecode/toolUseId":7},`, 1))
	rec := log.all()
	require.Len(t, rec, 3)
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", rec[0].Trace)
	assert.Equal(t, "toolu_1", rec[0].Key)
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", rec[1].Trace)
	assert.Empty(t, rec[2].Trace)
	assert.Empty(t, rec[2].Key)
}

func TestLongCallSaysSo(t *testing.T) {
	t.Parallel()
	run := &slowRunner{let: make(chan struct{})}
	s := New(Options{
		Gate: openGate{}, Desk: noDesk{}, Runner: run, Log: &memoryLog{}, Limits: noLimits{}, Now: time.Now, ID: func() string { return "c1" },
		Progress: time.Millisecond,
	})
	k := talk(t, s, ann(t))
	k.send(strings.Replace(callOf(1, "read_file", readIt), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1))
	for range 3 {
		got := k.next()
		assert.Contains(t, got, "notifications/progress")
		assert.Contains(t, got, `"progressToken":"p"`)
	}
	close(run.let)
	for !strings.Contains(k.next(), `"id":1`) {
	}
	assert.Contains(t, k.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`), `"id":2`, "no progress follows an answer")
}

func TestListsAreDeterministicAndOnesOwn(t *testing.T) {
	t.Parallel()
	s, _, _ := gated()
	p := ann(t)
	k := talk(t, s, p)
	first := k.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for range 5 {
		assert.Equal(t, first, k.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	}
	q := ann(t)
	q.Conn, q.Tools = "few", []string{"grep"}
	few := talk(t, s, q).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	assert.Contains(t, few, `"grep"`)
	assert.NotContains(t, few, `"read_file"`)
}

func TestMetricsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	reader, err := otelprom.New(otelprom.WithRegisterer(reg))
	require.NoError(t, err)
	run := &slowRunner{let: make(chan struct{})}
	close(run.let)
	s := New(Options{
		Gate: openGate{}, Desk: noDesk{}, Runner: run, Log: &memoryLog{}, Limits: noLimits{}, Now: time.Now, ID: func() string { return "c1" },
		Metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	k := talk(t, s, ann(t))
	for i := range 20 {
		k.ask(callOf(i, "read_file", readIt))
		k.ask(callOf(i, fmt.Sprintf("made_up_%d", i), readIt))
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	seen := false
	for _, f := range families {
		if f.GetName() == "sallyport_calls_total" {
			seen = true
			assert.LessOrEqual(t, len(f.GetMetric()), 2)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				assert.NotContains(t, l.GetValue(), "made_up")
				assert.NotEqual(t, "ann", l.GetValue(), "agents are no label of %s", f.GetName())
			}
		}
	}
	assert.True(t, seen)
}

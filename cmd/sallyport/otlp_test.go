package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP over HTTP as a collector does, and keeps it.
type collector struct {
	mu      sync.Mutex
	raw     []byte
	keys    []string
	spans   []*spanpb.Span
	metrics map[string]bool
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.keys = append(c.raw, body...), append(c.keys, r.Header.Get("Authorization"))
	switch r.URL.Path {
	case "/v1/traces":
		var in tracepb.ExportTraceServiceRequest
		if err = proto.Unmarshal(body, &in); err == nil {
			for _, from := range in.ResourceSpans {
				for _, scope := range from.ScopeSpans {
					c.spans = append(c.spans, scope.Spans...)
				}
			}
		}
	case "/v1/metrics":
		var in metricspb.ExportMetricsServiceRequest
		if err = proto.Unmarshal(body, &in); err == nil {
			for _, from := range in.ResourceMetrics {
				for _, scope := range from.ScopeMetrics {
					for _, m := range scope.Metrics {
						c.metrics[m.Name] = true
					}
				}
			}
		}
	default:
		err = fmt.Errorf("no such path: %s", r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// attributesOf are a span's attributes as text.
func attributesOf(s *spanpb.Span) map[string]string {
	all := map[string]string{}
	for _, kv := range s.Attributes {
		all[kv.Key] = strings.Trim(regexp.MustCompile(`^\w+_value:`).ReplaceAllString(strings.TrimSpace(kv.Value.String()), ""), `"`)
	}
	return all
}

// called is a tools/call within a trace.
func called(id int, traceparent, tool, args string) string {
	return strings.Replace(call(id, tool, args), `"params":{`, `"params":{"_meta":{"traceparent":"`+traceparent+`","tracestate":"vendor=x"},`, 1)
}

// TestOTLPReceivesEveryPhase sends a call of each kind to a receiver of OTLP.
func TestOTLPReceivesEveryPhase(t *testing.T) {
	t.Parallel()
	c := &collector{metrics: map[string]bool{}}
	srv := httptest.NewServer(c)
	defer srv.Close()
	h := emptyHouse(t)
	h.configure("telemetry:\n  otlp: " + srv.URL + "\n  headers: {authorization: of-the-collector}\n")
	h.serve()
	token, _ := h.token("--agent", "ci", "--max-tier", "L2")
	_, _, header := h.post(token, "", initialize)
	session := header.Get("Mcp-Session-Id")

	secret := "ghp_" + strings.Repeat("A1b2C3d4", 5)[:36]
	require.NoError(t, os.WriteFile(filepath.Join(h.workspace, "env.txt"), []byte("TOKEN="+secret+"\n"), 0o644))
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ask := func(id int, tool, args string) string {
		code, body, _ := h.post(token, session, called(id, "00-"+trace+"-"+parent+"-01", tool, args))
		require.Equal(t, 200, code, body)
		return body
	}
	ask(1, "read_file", `{"path":"env.txt"}`)
	ask(2, "run_command", `{"command":"python3 -c 'print(\"`+secret+`\")'"}`)
	ask(3, "read_file", `{"path":"`+secret+`"}`)
	write := `{"command":"echo made > made.txt","write":true}`
	for id := 4; id < 8; id++ { // asked, perhaps asked again for what it did, and landed
		m := askedFor.FindStringSubmatch(ask(id, "run_command", write))
		if m == nil {
			break
		}
		out, err := h.sallyport("approvals", "approve", m[1])
		require.NoError(t, err, out)
	}
	assert.FileExists(t, filepath.Join(h.workspace, "made.txt"))
	_, err := h.sallyport("stop") // sends what is left
	require.NoError(t, err)

	c.mu.Lock()
	defer c.mu.Unlock()
	roots, phases := map[string]*spanpb.Span{}, map[string][]string{}
	for _, s := range c.spans {
		if strings.HasPrefix(s.Name, "tools/call ") {
			roots[hex.EncodeToString(s.SpanId)] = s
		}
	}
	for _, s := range c.spans {
		if root := roots[hex.EncodeToString(s.ParentSpanId)]; root != nil {
			assert.Equal(t, trace, hex.EncodeToString(s.TraceId))
			name := root.Name + " " + attributesOf(root)["sallyport.status"]
			phases[name] = append(phases[name], s.Name)
		}
	}
	for name, want := range map[string][]string{
		"tools/call read_file ok":        {"plan", "judge", "run", "record"},
		"tools/call read_file failed":    {"plan", "judge", "run", "record"},
		"tools/call run_command ok":      {"plan", "judge", "ask", "record", "run", "effects", "land"},
		"tools/call run_command pending": {"plan", "judge", "ask", "record"},
	} {
		for _, phase := range want {
			assert.True(t, slices.Contains(phases[name], phase), "%s has %v and no %s", name, phases[name], phase)
		}
	}
	for _, s := range roots {
		a := attributesOf(s)
		assert.Equal(t, []string{trace, parent}, []string{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.ParentSpanId)})
		assert.Equal(t, spanpb.Span_SPAN_KIND_SERVER, s.Kind)
		assert.Equal(t, []string{"tools/call", "execute_tool", "ci"}, []string{a["mcp.method.name"], a["gen_ai.operation.name"], a["gen_ai.agent.name"]})
		assert.NotEmpty(t, a["mcp.session.id"])
		if a["sallyport.status"] == "failed" {
			assert.Equal(t, "failed", a["error.type"])
		}
	}
	for _, name := range []string{"mcp.server.operation.duration", "sallyport.calls", "sallyport.sessions"} {
		assert.True(t, c.metrics[name], "%s is missing of %v", name, c.metrics)
	}
	assert.Contains(t, c.keys, "of-the-collector")
	for what, text := range map[string]string{
		"a secret": secret, "a token": token[strings.LastIndex(token, "_")+1:], "a session id": session, "a path": "made.txt", "a command": "print(",
	} {
		assert.NotContains(t, string(c.raw), text, "%s left with the telemetry", what)
	}
}

// TestAbsentCollectorSlowsNothing names collectors that refuse, that take
// connections and never answer, and that answer with errors.
func TestAbsentCollectorSlowsNothing(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	shut.Close()
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer angry.Close()
	for name, url := range map[string]string{
		"refuses": "http://" + shut.Addr().String(), "is mute": "http://" + mute.Addr().String(), "is angry": angry.URL,
	} {
		h := emptyHouse(t)
		h.configure("telemetry:\n  otlp: " + url + "\n")
		h.serve()
		token, _ := h.token("--agent", "ci")
		_, _, header := h.post(token, "", initialize)
		begun := time.Now()
		for i := range 30 {
			assert.Contains(t, h.call(token, header.Get("Mcp-Session-Id"), "read_file", fmt.Sprintf(`{"path":"a.txt","limit":%d}`, i+1)), "hello over http")
		}
		// One call that waited for a collector would wait for seconds: the export's
		// time-out is 10 s.
		assert.Less(t, time.Since(begun), 8*time.Second, "a collector that %s", name)
		_, err := h.sallyport("stop")
		assert.NoError(t, err, "the daemon ends with a collector that %s", name)
	}
}

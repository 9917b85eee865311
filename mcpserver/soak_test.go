package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/cmd/bench"
	"sallyport/policy"
)

// The measurements of this file put our server and a bare one of the library
// side by side, each in a process of its own on loopback. SALLYPORT_TEST_LONG
// makes them as large as the promises; without it they only show that they run.

const soakRole = "SALLYPORT_SOAK_SERVER"

// TestSoakServer is such a process: it serves until its input ends.
func TestSoakServer(t *testing.T) {
	role := os.Getenv(soakRole)
	if role == "" {
		t.Skip("only run by the benchmarks of this file")
	}
	var h http.Handler
	if role == "ours" {
		s, run, _ := gated()
		s.o.Log = &forgetful{}
		close(run.let)
		root := t.TempDir()
		h = s.HTTP(HTTPOptions{MaxOwnSessions: 1 << 20, Authenticate: func(*http.Request) (*Peer, error) {
			return &Peer{Agent: "soak", Credential: "token:soak", Workspace: root, MaxTier: policy.L3}, nil
		}})
	} else {
		m := server.NewMCPServer("bare", "1", server.WithToolCapabilities(true))
		m.AddTool(mcp.NewTool("read_file", mcp.WithString("path")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("text"), nil
		})
		h = server.NewStreamableHTTPServer(m, server.WithStateful(true))
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.HandleFunc("/trim", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	mux.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_, _ = fmt.Fprint(w, runtime.NumGoroutine(), " ", m.HeapAlloc)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()
	fmt.Printf("url=http://%s\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	srv.Close()
}

// forgetful keeps no records: what is measured are sessions.
type forgetful struct{ memoryLog }

func (*forgetful) Append(context.Context, audit.Record) (audit.Seq, error) { return 0, nil }

// soak is such a process as its parent sees it.
type soak struct {
	b    testing.TB
	url  string
	pid  int
	http *http.Client
}

func startSoak(b testing.TB, role string) *soak {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSoakServer$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), soakRole+"="+role)
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "url="); ok {
			t := &http.Transport{MaxIdleConnsPerHost: 64}
			b.Cleanup(t.CloseIdleConnections)
			return &soak{b: b, url: url, pid: cmd.Process.Pid, http: &http.Client{Transport: t}}
		}
	}
	b.Fatal("the server did not start")
	return nil
}

// resident is the server's memory in bytes, after it gave back what it could.
func (s *soak) resident() int64 {
	s.b.Helper()
	r, err := s.http.Get(s.url + "/trim")
	require.NoError(s.b, err)
	r.Body.Close()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	require.NoError(s.b, err)
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kb, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
			require.NoError(s.b, err)
			return kb << 10
		}
	}
	s.b.Fatal("no VmRSS")
	return 0
}

func (s *soak) post(session, body string) (string, error) {
	r, err := http.NewRequest("POST", s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answered %s", resp.Status)
	}
	return resp.Header.Get("Mcp-Session-Id"), nil
}

// open opens n sessions and, with streams, a standing stream for each.
func (s *soak) open(n int, streams bool) {
	s.b.Helper()
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range work {
				id, err := s.post("", hello)
				if err == nil && streams {
					err = s.stand(id)
				}
				if err != nil {
					s.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// stand opens a standing stream over a connection of its own and leaves it open.
func (s *soak) stand(id string) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	s.b.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", id); err != nil {
		return err
	}
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 200" {
		return fmt.Errorf("open a stream: %q, %w", status, err)
	}
	return nil
}

func size(long, short int) int {
	if os.Getenv("SALLYPORT_TEST_LONG") != "" {
		return long
	}
	return short
}

// BenchmarkSessionMemory is the resident memory of an open session, with and
// without a standing stream.
func BenchmarkSessionMemory(b *testing.B) {
	for _, c := range []struct {
		name    string
		n       int
		streams bool
	}{{"idle", size(30_000, 1000), false}, {"streaming", size(8000, 500), true}} {
		b.Run(c.name, func(b *testing.B) {
			each := map[string]float64{}
			for _, role := range []string{"ours", "bare"} {
				s := startSoak(b, role)
				before := s.resident()
				s.open(c.n, c.streams)
				each[role] = float64(s.resident()-before) / float64(c.n) / 1024
			}
			bench.Row(b, fmt.Sprintf("mcpserver/session/%s/%d", c.name, c.n), "KiB/session", each["ours"], each["bare"], "bare mcp-go")
		})
	}
}

// BenchmarkBusyAgents is how long a call takes while 64 agents call at once and
// many more are only connected.
func BenchmarkBusyAgents(b *testing.B) {
	p50, p99 := map[string]float64{}, map[string]float64{}
	for _, role := range []string{"ours", "bare"} {
		s := startSoak(b, role)
		s.open(size(30_000, 500), false)
		took := make([][]time.Duration, 64)
		until := time.Now().Add(time.Duration(size(10_000, 500)) * time.Millisecond)
		var wg sync.WaitGroup
		for i := range took {
			wg.Go(func() {
				id, err := s.post("", hello)
				for n := 0; err == nil && time.Now().Before(until); n++ {
					at := time.Now()
					_, err = s.post(id, callOf(n, "read_file", readIt))
					took[i] = append(took[i], time.Since(at))
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		all := slices.Concat(took...)
		slices.Sort(all)
		ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
		p50[role], p99[role] = ms(.5), ms(.99)
		b.Logf("%s: %d calls, p50 %.2f ms, p99 %.2f ms, p99/p50 %.1f", role, len(all), ms(.5), ms(.99), ms(.99)/ms(.5))
	}
	bench.Row(b, "mcpserver/busy64/p50", "ms", p50["ours"], p50["bare"], "bare mcp-go")
	bench.Row(b, "mcpserver/busy64/p99", "ms", p99["ours"], p99["bare"], "bare mcp-go")
}

// TestSessionsLeaveNothing opens and ends many sessions and looks for what is
// left of them.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{MaxOwnSessions: 1 << 20})
	for range 200 {
		id := s.session("ann")
		r := s.request(context.Background(), "ann", "DELETE", "/mcp", "", "Mcp-Session-Id", id)
		require.Equal(t, 200, r.StatusCode)
	}
	require.Zero(t, s.end.Sessions())
	left := 0
	for _, l := range s.end.table.all() {
		if l.id != "" {
			left++
		}
	}
	require.Zero(t, left)
	require.Len(t, s.end.table.owners, 1)
}

// state is the server's goroutines and its bytes on the heap after a collection.
func (s *soak) state() (goroutines, heap int) {
	s.b.Helper()
	s.http.CloseIdleConnections()
	r, err := s.http.Get(s.url + "/state")
	require.NoError(s.b, err)
	defer r.Body.Close()
	_, err = fmt.Fscan(r.Body, &goroutines, &heap)
	require.NoError(s.b, err)
	return goroutines, heap
}

// TestMemoryReturnsWhenSessionsGo opens many sessions, some with a standing stream,
// calls in each, ends them and looks at what the server still holds. What stays
// must not grow with the number of sessions: the second crowd leaves no more than
// the first did.
func TestMemoryReturnsWhenSessionsGo(t *testing.T) {
	t.Parallel()
	s := startSoak(t, "ours")
	crowd := func(n int) {
		work := make(chan int, n)
		for i := range n {
			work <- i
		}
		close(work)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := range work {
					if err := s.visit(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	n := size(30_000, 600)
	crowd(n)
	var goroutines, heap int
	settled := func(most int) func() bool {
		return func() bool { goroutines, heap = s.state(); return most == 0 || goroutines <= most }
	}
	require.Eventually(t, settled(100), time.Minute, 100*time.Millisecond, "goroutines of sessions that have gone")
	first, before := heap, goroutines
	crowd(n)
	require.Eventually(t, settled(before+20), time.Minute, 100*time.Millisecond, "goroutines")
	t.Logf("after %d sessions %d goroutines and %d KiB of heap, after as many again %d and %d", n, before, first>>10, goroutines, heap>>10)
	require.Less(t, heap, first+max(first/4, 1<<20), "the heap grows with sessions that have gone")
}

// visit is one session from its begin to its end.
func (s *soak) visit(i int) error {
	id, err := s.post("", hello)
	if err == nil {
		_, err = s.post(id, callOf(i, "read_file", readIt))
	}
	if err == nil && i%20 == 0 {
		err = s.glance(id)
	}
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodDelete, s.url+"/mcp", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Mcp-Session-Id", id)
	resp, err := s.http.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// glance opens a standing stream and hangs up.
func (s *soak) glance(id string) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", id)
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 12))
	}
	return err
}

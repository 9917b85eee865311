package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"sallyport/cmd/bench"
)

// bare is a server of the library alone whose read_file reads a file: what
// BenchmarkGate measures the whole gate against. It runs in this process, which
// spares it a switch of processes.
func bare(root string) *server.MCPServer {
	m := server.NewMCPServer("bare", "1", server.WithToolCapabilities(true))
	m.AddTool(mcp.NewTool("read_file", mcp.WithString("path")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b, err := os.ReadFile(filepath.Join(root, r.GetString("path", "")))
		return mcp.NewToolResultText(string(b)), err
	})
	return m
}

func bareHTTP(b *testing.B, root string) string {
	b.Helper()
	srv := httptest.NewServer(server.NewStreamableHTTPServer(bare(root)))
	b.Cleanup(srv.Close)
	return srv.URL
}

func bareStdio(b *testing.B, root string) *piped {
	b.Helper()
	inR, inW, err := os.Pipe()
	require.NoError(b, err)
	outR, outW, err := os.Pipe()
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.NewStdioServer(bare(root)).Listen(context.Background(), inR, outW)
	}()
	b.Cleanup(func() { inW.Close(); <-done; inR.Close(); outW.Close(); outR.Close() })
	return &piped{inW, bufio.NewReader(outR)}
}

// piped talks to a command by lines.
type piped struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func pipe(b *testing.B, env []string, dir string, argv ...string) *piped {
	b.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return &piped{in, bufio.NewReader(out)}
}

func (p *piped) ask(b *testing.B, line string) string {
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(b, err)
	got, err := p.out.ReadString('\n')
	require.NoError(b, err)
	return got
}

// median is the median time of op in microseconds; between is called now and
// then and not timed.
func median(n int, op func(i int), between func(i int)) float64 {
	took := make([]time.Duration, n)
	for i := range took {
		if i%20 == 19 {
			between(n + i)
		}
		at := time.Now()
		op(i)
		took[i] = time.Since(at)
	}
	slices.Sort(took)
	return float64(took[n/2].Nanoseconds()) / 1000
}

// BenchmarkGate is what the whole gate adds to a read_file, per transport: the
// real daemon beside a bare server of the library, one call after the other.
func BenchmarkGate(b *testing.B) {
	h := &house{dir: b.TempDir()}
	h.workspace = filepath.Join(h.dir, "work")
	require.NoError(b, os.Mkdir(h.workspace, 0o755))
	for i := range calls {
		require.NoError(b, os.WriteFile(filepath.Join(h.workspace, fmt.Sprintf("%d.txt", i)), []byte(strings.Repeat("a line of text\n", 100)), 0o644))
	}
	h.env = append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(h.dir, "state"), "SALLYPORT_CONFIG="+filepath.Join(h.dir, "config"),
		"HOME="+filepath.Join(h.dir, "home"))
	daemon := exec.Command(filepath.Join(binaries, "sallyport"), "serve", "--http", "127.0.0.1:0")
	daemon.Env = h.env
	log, err := daemon.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, daemon.Start())
	b.Cleanup(func() { _ = daemon.Process.Signal(os.Interrupt); _ = daemon.Wait() })
	url := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "addr="); ok {
			url = "http://" + strings.Fields(rest)[0]
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	create := exec.Command(filepath.Join(binaries, "sallyport"), "token", "create", "--agent", "bench", "--workspace", h.workspace)
	create.Env = h.env
	token, err := create.Output()
	require.NoError(b, err)

	sync := syncTime(b, h.dir)
	compare(b, "http", sync, byHTTP(b, url, strings.TrimSpace(string(token))), byHTTP(b, bareHTTP(b, h.workspace), ""))
	compare(b, "stdio", sync,
		byPipe(b, pipe(b, h.env, h.workspace, filepath.Join(binaries, "sallyport"), "mcp")), byPipe(b, bareStdio(b, h.workspace)))
}

// calls is how many calls a median is taken of.
const calls = 100

// lookAround is another call: reads alone, one after the other, are stopped as a
// loop.
func lookAround(i int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_directory","arguments":{"path":"."}}}`, i+1)
}

// readFile is the call, of another file each time.
func readFile(i int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"%d.txt"}}}`, i+1, i)
}

func byPipe(b *testing.B, p *piped) float64 {
	b.Helper()
	p.ask(b, initialize)
	return median(calls, func(i int) { require.Contains(b, p.ask(b, readFile(i)), "a line of text") }, func(i int) { p.ask(b, lookAround(i)) })
}

func byHTTP(b *testing.B, url, token string) float64 {
	b.Helper()
	session := ""
	ask := func(body string) string {
		r, err := http.NewRequest("POST", url+"/mcp", strings.NewReader(body))
		require.NoError(b, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Mcp-Session-Id", session)
		if session == "" {
			r.Header.Del("Mcp-Session-Id")
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.NoError(b, err)
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		return string(got)
	}
	ask(initialize)
	return median(calls, func(i int) { require.Contains(b, ask(readFile(i)), "a line of text") }, func(i int) { ask(lookAround(i)) })
}

// syncTime is the median time of one durable write, in microseconds.
func syncTime(b *testing.B, dir string) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "sync"))
	require.NoError(b, err)
	defer f.Close()
	block := make([]byte, 4096)
	return median(200, func(int) {
		_, err := f.Write(block)
		require.NoError(b, err)
		require.NoError(b, syscall.Fdatasync(int(f.Fd())))
	}, func(int) {})
}

func compare(b *testing.B, transport string, sync, ours, bare float64) {
	b.Helper()
	b.Logf("%s: added %.0f us; a durable write takes %.0f us, the promise is %.0f us", transport, ours-bare, sync, 2*sync+300)
	bench.Row(b, "gate/read_file/"+transport, "us", ours, bare, "bare mcp-go")
}

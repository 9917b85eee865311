package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bound of the sockets has a test here that hits it, with its time made short.

const blink = 50 * time.Millisecond

// bounded is a server with short times, and a connection to it.
func bounded(t *testing.T, b bounds) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := b.server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	return c
}

func TestSlowHeadIsHungUpOn(t *testing.T) {
	t.Parallel()
	b := networkBounds()
	b.header = blink
	c := bounded(t, b)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-")
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	require.NoError(t, err, "the server hangs up")
	assert.NotContains(t, string(got), "served")
}

func TestIdleConnectionIsHungUpOn(t *testing.T) {
	t.Parallel()
	b := networkBounds()
	b.idle = blink
	c := bounded(t, b)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	require.NoError(t, err, "the server hangs up")
	assert.Contains(t, string(got), "served")
}

func TestLongHeadIsRefused(t *testing.T) {
	t.Parallel()
	c := bounded(t, networkBounds())
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 128<<10)+"\r\n\r\n")
	}()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer r.Body.Close()
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
}

// private is a state folder.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

// silent is a socket of the daemon's whose owner, this process, answers nobody.
func silent(t *testing.T, socket func(place) string, wait patience) place {
	t.Helper()
	p := place{state: private(t), config: t.TempDir(), wait: wait}
	l, err := listen(socket(p))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return p
}

func TestDaemonThatDoesNotGreetIsGivenUp(t *testing.T) {
	t.Parallel()
	p := silent(t, place.agentSock, patience{greet: blink, froze: blink / 4})
	_, _, err := connect(t.Context(), p, hello{})
	assert.ErrorContains(t, err, "did not greet back within 50ms")
}

func TestDaemonThatDoesNotListenIsGivenUp(t *testing.T) {
	t.Parallel()
	p := place{state: private(t), wait: patience{start: blink}}
	give, ok := takeTurn(p.state) // it is ours to start one, and we start none
	require.True(t, ok)
	defer give()
	_, err := reach(t.Context(), p)
	assert.ErrorContains(t, err, "no daemon listened within 50ms")
}

func TestHostsCallThatIsNotJudgedInTimeIsBlocked(t *testing.T) {
	t.Parallel()
	p := silent(t, place.controlSock, patience{hook: blink})
	_, err := askHook(t.Context(), p, hookIn{})
	assert.ErrorContains(t, err, "did not answer within 50ms")
}

func TestLongHookEventIsBlocked(t *testing.T) {
	t.Parallel()
	cmd := newWorld(t).command("hook")
	cmd.Stdin = io.LimitReader(zeros{}, maxEvent+1)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, exitBlock, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "longer than 16 MiB")
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestAnswersAreNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	r := newRelay(place{wait: patience{last: blink}}, hello{}, io.Discard)
	r.open["n1"] = &request{}
	begun := time.Now()
	r.finish(t.Context())
	assert.GreaterOrEqual(t, time.Since(begun), blink)
}

// greeted is what a daemon answers a client that says what write writes.
func greeted(t *testing.T, say func(io.Writer)) welcome {
	t.Helper()
	p := place{state: private(t)}
	l, err := listen(p.agentSock())
	require.NoError(t, err)
	defer l.Close()
	d := &daemon{place: p, helloTime: blink, hosts: map[string]int{}}
	ended := make(chan error, 1)
	go func() {
		c, err := l.AcceptUnix()
		if err == nil {
			err = d.agent(context.Background(), c)
			c.Close()
		}
		ended <- err
	}()
	c, err := dial(p.agentSock())
	require.NoError(t, err)
	defer c.Close()
	go say(c)
	var w welcome
	require.NoError(t, json.NewDecoder(c).Decode(&w))
	assert.Error(t, <-ended)
	return w
}

func TestClientThatSaysNothingIsHungUpOn(t *testing.T) {
	t.Parallel()
	w := greeted(t, func(io.Writer) {})
	assert.False(t, w.OK)
	assert.Contains(t, w.Error, os.ErrDeadlineExceeded.Error())
}

func TestLongHelloIsRefused(t *testing.T) {
	t.Parallel()
	w := greeted(t, func(to io.Writer) { _, _ = to.Write(make([]byte, maxHello+1)) })
	assert.Equal(t, "handshake line too long", w.Error)
}

func TestControlRequestIsBounded(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := `{"note":"` + strings.Repeat("x", 1<<20) + `"}`
	var in verdictIn
	assert.False(t, read(w, httptest.NewRequest("POST", "/", strings.NewReader(body)), &in))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "too large")
}

// TestFullQueueIsSaid fills the queue of a socket that nobody takes connections from.
func TestFullQueueIsSaid(t *testing.T) {
	t.Parallel()
	p := place{state: private(t), wait: patience{start: blink}}
	l, err := listen(p.agentSock())
	require.NoError(t, err)
	defer l.Close()
	for err == nil {
		var c *net.UnixConn
		if c, err = dial(p.agentSock()); err == nil {
			defer c.Close()
		}
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	_, err = reach(t.Context(), p)
	assert.ErrorContains(t, err, "takes no more connections")
}

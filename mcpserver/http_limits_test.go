package mcpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bound of the edge has a test here that hits it, with its time made short.

const (
	blink = 100 * time.Millisecond
	long  = time.Minute // what a test that is right never waits
)

// head is a request's head, of a body of that many bytes.
func head(agent, method, path string, length int, headers ...string) string {
	h := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
		method, path, agent)
	for i := 0; i+1 < len(headers); i += 2 {
		h += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n", h, length)
}

// answerOf reads one answer's head from a raw connection.
func answerOf(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(long)))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return r
}

func TestSlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{BodyTime: blink})
	c := s.raw(t)
	_, err := io.WriteString(c, head("ann", "POST", "/mcp", 100)+"{")
	require.NoError(t, err)
	r := answerOf(t, c)
	defer r.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, r.StatusCode)
	for _, l := range s.end.table.all() {
		require.Eventually(t, func() bool { return len(l.slots) == 0 }, long, time.Millisecond, "its slot is free again")
	}
	require.NotEmpty(t, s.end.table.all())
}

// deaf is a connection whose client never reads, with small buffers.
func (s *site) deaf(t *testing.T) net.Conn {
	t.Helper()
	c := s.raw(t)
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
	return c
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestClientThatDoesNotReadItsAnswersIsHungUpOn(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{WriteTime: time.Second})
	id := s.session("ann")
	c := s.deaf(t)
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(long)))
	request := head("ann", "POST", "/mcp", len(listing), "Mcp-Session-Id", id) + listing
	var err error
	for err == nil {
		_, err = io.WriteString(c, request)
	}
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server hangs up, it does not just stop reading")
	s.quick("ann", id)
}

func TestClientThatDoesNotReadItsStreamIsHungUpOn(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{WriteTime: time.Second})
	c := s.deaf(t)
	_, err := io.WriteString(c, head("ann", "GET", "/sse", 0))
	require.NoError(t, err)
	in := bufio.NewReaderSize(c, 512)
	to := ""
	for to == "" {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			to = strings.TrimSpace(data)
		}
	}
	end := time.Now().Add(long) // and from here on it reads nothing
	for s.request(t.Context(), "ann", "POST", to, listing).StatusCode != http.StatusNotFound {
		require.True(t, time.Now().Before(end), "the stream and its session end")
	}
	require.Eventually(t, func() bool { return s.end.Sessions() == 0 }, long, time.Millisecond)
}

// TestWaitingIsNotWriting answers after longer than a write may take: a deadline
// that ran from the request's begin would have cut the answer off.
func TestWaitingIsNotWriting(t *testing.T) {
	t.Parallel()
	s, run, _ := gated()
	root := t.TempDir()
	e := s.HTTP(HTTPOptions{WriteTime: time.Second, SlotTime: 2 * time.Second, Authenticate: func(*http.Request) (*Peer, error) {
		return &Peer{Agent: "ann", Credential: "token:ann", Workspace: root}, nil
	}})
	srv := httptest.NewUnstartedServer(e)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() { e.Close(ended()); srv.Close() })
	one := srv.Client().Transport.(*http.Transport).Clone()
	one.ForceAttemptHTTP2, one.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	one.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.Cleanup(one.CloseIdleConnections)
	for proto, client := range map[int]*http.Client{2: srv.Client(), 1: {Transport: one}} {
		ask := func(session, body string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/mcp", strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			resp, err := client.Do(r)
			require.NoError(t, err, "HTTP/%d", proto)
			t.Cleanup(func() { resp.Body.Close() })
			assert.Equal(t, proto, resp.ProtoMajor)
			return resp
		}
		id := ask("", hello).Header.Get("Mcp-Session-Id")
		answers := make(chan *http.Response, inFlight)
		before := run.begun.Load()
		for i := range inFlight {
			go func() { answers <- ask(id, callOf(i, "read_file", readIt)) }()
		}
		require.Eventually(t, func() bool { return run.begun.Load() == before+inFlight }, long, time.Millisecond)
		assert.Equal(t, http.StatusTooManyRequests, ask(id, callOf("late", "read_file", readIt)).StatusCode, "after SlotTime")
		for range inFlight {
			run.let <- struct{}{}
		}
		for range inFlight {
			assert.Contains(t, text(t, <-answers), `"result"`)
		}
	}
}

func TestCallWithoutASlotIsToldToComeBack(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{SlotTime: blink})
	id := s.session("ann")
	for i := range inFlight {
		s.post("ann", callOf(i, "read_file", readIt), "Mcp-Session-Id", id)
	}
	s.started(inFlight)
	r := s.request(t.Context(), "ann", "POST", "/mcp", callOf("late", "read_file", readIt), "Mcp-Session-Id", id)
	assert.Equal(t, http.StatusTooManyRequests, r.StatusCode)
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	assert.EqualValues(t, inFlight, s.run.begun.Load())
}

func TestMemoryOfOneIdentityIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{SlotTime: blink})
	ann, bob := s.session("ann"), s.session("bob")
	for range ownMemory / MaxLine {
		_, err := io.WriteString(s.raw(t), head("ann", "POST", "/mcp", MaxLine, "Mcp-Session-Id", ann)+"{")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		return s.request(t.Context(), "ann", "POST", "/mcp", listing, "Mcp-Session-Id", ann).StatusCode == http.StatusTooManyRequests
	}, long, time.Millisecond)
	s.quick("bob", bob)
}

func TestStreamsOfOneIdentityAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{})
	listen := modern(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`)
	open := func() int {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		return s.request(ctx, "ann", "POST", "/mcp", listen, modernHeaders("subscriptions/listen", "")...).StatusCode
	}
	for range ownStreams {
		require.Equal(t, 200, open())
	}
	assert.Equal(t, http.StatusTooManyRequests, open())
}

func TestSilentStreamBeats(t *testing.T) {
	t.Parallel()
	s := open(t, HTTPOptions{BeatTime: time.Millisecond})
	id := s.session("ann")
	r := s.request(t.Context(), "ann", "GET", "/mcp", "", "Mcp-Session-Id", id)
	s.end.s.ToolsChanged() // the stream opens with its first event
	in, beats := bufio.NewScanner(r.Body), 0
	for beats < 3 && in.Scan() {
		if in.Text() == ": still here" {
			beats++
		}
	}
	assert.Equal(t, 3, beats)
}

// piped is a peer that sends its lines and closes, and never reads.
type piped struct {
	io.Reader
	io.Writer
}

func TestCallsOfAPeerThatSendsNoMoreAreCutOff(t *testing.T) {
	t.Parallel()
	s, run, log := gated()
	s.o.Drain = blink
	err := s.Serve(t.Context(), piped{strings.NewReader(hello + "\n" + callOf(1, "read_file", readIt) + "\n"), io.Discard}, ann(t))
	require.NoError(t, err)
	assert.EqualValues(t, 1, run.cancelled.Load())
	assert.Len(t, log.all(), 1, "and recorded")
}

func TestConnectionRunsSoManyCallsAtATime(t *testing.T) {
	t.Parallel()
	s, run, _ := gated()
	k := talk(t, s, ann(t))
	go func() {
		for i := range inFlight + 5 {
			if _, err := io.WriteString(k.c, callOf(i, "read_file", readIt)+"\n"); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return run.begun.Load() >= inFlight }, long, time.Millisecond)
	time.Sleep(blink)
	assert.EqualValues(t, inFlight, run.begun.Load())
	close(run.let)
	for range inFlight + 5 {
		assert.Contains(t, k.next(), `"result"`)
	}
}

func TestLineIsBounded(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]error{MaxLine: nil, MaxLine + 1: ErrTooLong, 64 << 20: ErrTooLong} {
		in := bufio.NewReaderSize(io.MultiReader(io.LimitReader(endless{}, int64(size)-1), strings.NewReader("\nnext\n")), 64<<10)
		line, err := ReadLine(in)
		assert.ErrorIs(t, err, want, size)
		assert.True(t, err != nil || len(line) == size)
		line, err = ReadLine(in)
		assert.NoError(t, err)
		assert.Equal(t, "next\n", string(line), "what follows is read again")
	}
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]time.Duration{-5: 0, 0: 0, 1500: 1500 * time.Millisecond, 1e12: maxWait} {
		assert.Equal(t, want, waitOf(&mcp.Meta{AdditionalFields: map[string]any{MetaWait: ms}}), ms)
	}
}

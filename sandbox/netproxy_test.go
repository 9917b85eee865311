//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndpointsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"example.com:443":                 "example.com:443",
		"EXAMPLE.com:443":                 "example.com:443",
		"example.com.:443":                "example.com:443",
		"[::1]:80":                        "::1:80",
		"[::ffff:10.0.0.1]:80":            "10.0.0.1:80",
		"127.0.0.1:1":                     "127.0.0.1:1",
		"example.com":                     "",
		"example.com:":                    "",
		"example.com:0443":                "",
		"example.com:+443":                "",
		"example.com:65536":               "",
		"example.com:0":                   "",
		"example.com\x00.evil.org:443":    "",
		"example.com%00.evil.org:443":     "",
		"user@example.com:443":            "",
		"exаmple.com:443":                 "", // Cyrillic а
		"example.com/evil:443":            "",
		"[fe80::1%eth0]:80":               "",
		":443":                            "",
		strings.Repeat("a", 300) + ":443": "",
		"example.com..:443":               "example.com.:443", // matches nothing allowed
		"2130706433:80":                   "2130706433:80",    // a name, not 127.0.0.1
		"0x7f.1:80":                       "0x7f.1:80",
	} {
		e, err := parseEndpoint(in, 0)
		got := ""
		if err == nil {
			got = fmt.Sprintf("%s:%d", e.Host, e.Port)
		}
		assert.Equal(t, want, got, "%q", in)
	}
}

func TestOnlyInternetAddressesArePublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200",
		"168.63.129.16", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1",
		"::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
		"64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "::127.0.0.1", "fec0::1",
	} {
		assert.False(t, public(netip.MustParseAddr(a)), a)
	}
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"} {
		assert.True(t, public(netip.MustParseAddr(a)), a)
	}
	assert.False(t, public(netip.Addr{}))
}

// startProxy serves a proxy on the test's own loopback.
func startProxy(t *testing.T, allow []Endpoint, names map[string]string) (*netproxy, string) {
	t.Helper()
	p := newNetproxy(allow)
	p.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		if a, ok := names[host]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { p.serve(l); close(done) }()
	t.Cleanup(func() { l.Close(); p.close(); <-done })
	return p, l.Addr().String()
}

func hello(t *testing.T) (*httptest.Server, Endpoint) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "hello %s %s%s", r.Host, body, r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(srv.Close)
	at := netip.MustParseAddrPort(srv.Listener.Addr().String())
	return srv, Endpoint{at.Addr().String(), int(at.Port())}
}

func viaProxy(proxy string) *http.Client {
	u := &url.URL{Scheme: "http", Host: proxy}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

func TestProxyLetsAllowedEndpointsThrough(t *testing.T) {
	t.Parallel()
	srv, at := hello(t)
	p, proxy := startProxy(t, []Endpoint{at}, nil)
	resp, err := viaProxy(proxy).Post(srv.URL+"/x", "text/plain", strings.NewReader("body"))
	require.NoError(t, err)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.Equal(t, fmt.Sprintf("hello %s:%d body", at.Host, at.Port), string(body))

	c := talk(t, proxy, fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\n\r\n", at.Host, at.Port))
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "200")

	c = talk(t, proxy, "\x05\x01\x00")
	_, err = io.ReadFull(c, make([]byte, 2))
	require.NoError(t, err)
	_, err = c.Write([]byte{5, 1, 0, 1, 127, 0, 0, 1, byte(at.Port >> 8), byte(at.Port)})
	require.NoError(t, err)
	reply := make([]byte, 10)
	_, err = io.ReadFull(c, reply)
	require.NoError(t, err)
	assert.Zero(t, reply[1])

	use, denials := p.report()
	require.Len(t, use, 1)
	assert.Equal(t, 3, use[0].Conns)
	assert.Positive(t, use[0].Sent)
	assert.Positive(t, use[0].Received)
	assert.Empty(t, denials)
}

func talk(t *testing.T, addr, say string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.WriteString(c, say)
	require.NoError(t, err)
	return c
}

func TestProxyTricksAreRefused(t *testing.T) {
	t.Parallel()
	_, at := hello(t)
	port := strconv.Itoa(at.Port)
	names := map[string]string{"metadata.test": "169.254.169.254", "local.test": "127.0.0.1", "mapped.test": "::ffff:127.0.0.1", "nat.test": "64:ff9b::7f00:1"}
	allow := []Endpoint{{"metadata.test", 80}, {"local.test", at.Port}, {"mapped.test", at.Port}, {"nat.test", at.Port}, {"good.test", 443}}
	_, proxy := startProxy(t, allow, names)
	for name, say := range map[string]string{
		"not allowed":             "CONNECT 127.0.0.1:" + port + " HTTP/1.1\r\n\r\n",
		"rebinding to loopback":   "CONNECT local.test:" + port + " HTTP/1.1\r\n\r\n",
		"mapped loopback":         "CONNECT mapped.test:" + port + " HTTP/1.1\r\n\r\n",
		"NAT64 loopback":          "CONNECT nat.test:" + port + " HTTP/1.1\r\n\r\n",
		"metadata":                "GET http://metadata.test/ HTTP/1.1\r\nHost: metadata.test\r\n\r\n",
		"other port":              "CONNECT good.test:22 HTTP/1.1\r\n\r\n",
		"suffix":                  "CONNECT evil-good.test:443 HTTP/1.1\r\n\r\n",
		"sub domain":              "CONNECT a.good.test:443 HTTP/1.1\r\n\r\n",
		"NUL":                     "CONNECT good.test\x00.evil:443 HTTP/1.1\r\n\r\n",
		"user info":               "GET http://good.test:443@127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"origin form":             "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n\r\n",
		"https absolute form":     "GET https://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"allowed Host, other URL": "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"decimal address":         "CONNECT 2130706433:" + port + " HTTP/1.1\r\n\r\n",
		"huge head":               "GET http://good.test/ HTTP/1.1\r\nX: " + strings.Repeat("a", 200<<10),
		"two lengths":             "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	} {
		c, err := net.Dial("tcp", proxy)
		require.NoError(t, err)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, say) // the proxy may hang up first
		reply, _ := io.ReadAll(c)
		c.Close()
		assert.NotContains(t, string(reply), "200 ", name)
		assert.NotContains(t, string(reply), "hello", name)
	}
	for name, say := range map[string][]byte{
		"loopback":      {5, 1, 0, 1, 127, 0, 0, 1, byte(at.Port >> 8), byte(at.Port)},
		"bind":          {5, 2, 0, 1, 127, 0, 0, 1, 0, 80},
		"UDP":           {5, 3, 0, 1, 127, 0, 0, 1, 0, 80},
		"name to local": append(append([]byte{5, 1, 0, 3, 10}, "local.test"...), byte(at.Port>>8), byte(at.Port)),
		"NUL":           append(append([]byte{5, 1, 0, 3, 12}, "good.test\x00.x"...), 1, 0xbb),
		"empty name":    {5, 1, 0, 3, 0, 0, 80},
		"no such kind":  {5, 1, 0, 9, 1, 2, 3, 4, 0, 80},
	} {
		c := talk(t, proxy, "\x05\x01\x00")
		_, err := io.ReadFull(c, make([]byte, 2))
		require.NoError(t, err, name)
		_, _ = c.Write(say)
		reply, _ := io.ReadAll(c)
		if len(reply) > 1 {
			assert.NotZero(t, reply[1], name)
		}
	}
}

func TestCellReachesOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	_, at := hello(t)
	_, other := hello(t)
	r, ws := newRunner(t), newWorkspace(t)
	script := fmt.Sprintf(`
import urllib.request, socket
print(urllib.request.urlopen("http://%s:%d/").read().decode())
try: urllib.request.urlopen("http://%s:%d/")
except Exception as e: print("refused", getattr(e, "code", e))
try: socket.create_connection(("%s", %d), 2); print("direct")
except OSError as e: print("no way round")
`, at.Host, at.Port, other.Host, other.Port, at.Host, at.Port)
	e := &Exec{Argv: []string{"python3", "-c", script}, Env: map[string]string{"NO_PROXY": ""}, Net: []Endpoint{at, other}}
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: e}, Terms{Net: []Endpoint{at}})
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("hello %s:%d \nrefused 403\nno way round\n", at.Host, at.Port), string(res.Stdout.Data), "stderr: %s", res.Stderr.Data)
	require.Len(t, res.Net, 1)
	assert.Equal(t, at, res.Net[0].Endpoint)
	require.NotEmpty(t, res.Denials)
	assert.Equal(t, fmt.Sprintf("connection to %s:%d refused: it is not among the allowed hosts and ports", other.Host, other.Port), res.Denials[0].What)
	assert.Contains(t, res.Denials[0].Remedy, fmt.Sprintf(`{"host": %q, "port": %d}`, other.Host, other.Port))
	assert.Contains(t, res.Denials[0].Remedy, "network.allowed")
}

// FuzzEndpoint holds parseEndpoint to its promise: what it accepts it writes
// back in the one spelling that it accepts again as the same.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "a..:1", "[::ffff:1.2.3.4]:5", "x\x00y:1", "X.:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := parseEndpoint(s, 0)
		if err != nil {
			return
		}
		again, err := parseEndpoint(net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), 0)
		require.NoError(t, err)
		if strings.HasSuffix(e.Host, ".") {
			return // a doubled dot loses one more; no allowed host ends in one
		}
		assert.Equal(t, e, again)
		assert.False(t, bytes.ContainsAny([]byte(e.Host), "\x00/@%\r\n "))
	})
}

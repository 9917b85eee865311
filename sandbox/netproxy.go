package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds on one cell's proxy.
const (
	proxyConns   = 64               // at once; more wait in the listener's queue
	proxyHello   = 30 * time.Second // to say where one wants to go
	proxyDial    = 20 * time.Second // to resolve and connect
	proxyIdle    = 5 * time.Minute  // without a byte in either direction
	proxyHeader  = 64 << 10         // bytes of an HTTP request's head
	proxyRefusal = 32               // refused endpoints remembered
)

// netproxy is the one way out of a cell with network: it speaks HTTP (CONNECT
// and absolute-form) and SOCKS5, lets through the allowed endpoints and no
// other, resolves names itself, and connects to the very address it checked,
// so that a name cannot change its meaning in between. It reads no TLS.
type netproxy struct {
	allow   []Endpoint
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	mu      sync.Mutex
	use     map[Endpoint]*NetUse
	refused []refusedDial
	conns   map[net.Conn]struct{}
	closed  bool
	work    sync.WaitGroup
}

// refusedDial is an endpoint a command wanted and why it did not get it.
type refusedDial struct {
	Endpoint
	why string
}

func newNetproxy(allow []Endpoint) *netproxy {
	return &netproxy{
		allow: allow,
		resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		use:   map[Endpoint]*NetUse{},
		conns: map[net.Conn]struct{}{},
	}
}

// serve accepts until the listener closes.
func (p *netproxy) serve(l net.Listener) {
	slots := make(chan struct{}, proxyConns)
	for {
		slots <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !p.track(c) {
			return
		}
		go func() {
			defer func() { p.untrack(c); <-slots }()
			p.serveConn(c)
		}()
	}
}

func (p *netproxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	p.work.Add(1)
	return true
}

func (p *netproxy) untrack(c net.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	p.work.Done()
}

// close ends every connection and waits. The listener is the caller's.
func (p *netproxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// report is what went through and what was refused.
func (p *netproxy) report() ([]NetUse, []Denial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var use []NetUse
	for _, u := range p.use {
		use = append(use, *u)
	}
	slices.SortFunc(use, func(a, b NetUse) int {
		return strings.Compare(a.Host+strconv.Itoa(a.Port), b.Host+strconv.Itoa(b.Port))
	})
	var denials []Denial
	for _, r := range p.refused {
		denials = append(denials, Denial{
			What:   fmt.Sprintf("connection to %s:%d refused: %s", r.Host, r.Port, r.why),
			Remedy: r.remedy(),
		})
	}
	return use, denials
}

const notAllowed = "it is not among the allowed hosts and ports"

// remedy names the rules of the shipped policy that would let the dial through.
func (r refusedDial) remedy() string {
	if r.why != notAllowed {
		return fmt.Sprintf("work without %s: only an address that was itself allowed may be private", r.Host)
	}
	return fmt.Sprintf("ask for it: run_command with network [{\"host\": %q, \"port\": %d}], which is rule network.other (L3), "+
		"or network.allowed (L2) once a person put the host on allowed_hosts", r.Host, r.Port)
}

func (p *netproxy) serveConn(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(proxyHello))
	br := bufio.NewReader(c)
	first, err := br.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		p.socks(c, br)
		return
	}
	p.http(c, br)
}

// http serves one request; a proxy connection is not kept, so that every
// request is checked on its own.
func (p *netproxy) http(c net.Conn, br *bufio.Reader) {
	head := &io.LimitedReader{R: br, N: proxyHeader}
	limited := bufio.NewReader(head)
	req, err := http.ReadRequest(limited)
	if err != nil {
		answer(c, http.StatusBadRequest, "this is sallyport's proxy; the request could not be read")
		return
	}
	head.N = 1 << 62 // the body is not bounded by the head's limit
	connect := req.Method == http.MethodConnect
	to, err := target(req)
	if err != nil {
		answer(c, http.StatusBadRequest, err.Error())
		return
	}
	up, err := p.dial(to)
	if err != nil {
		answer(c, http.StatusForbidden, err.Error())
		return
	}
	defer up.Close()
	if connect {
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
			p.relay(c, limited, up, to)
		}
		return
	}
	req.Close, req.Host = true, req.URL.Host
	for h := range req.Header {
		if strings.HasPrefix(h, "Proxy-") || h == "Connection" || h == "Keep-Alive" || h == "Upgrade" {
			req.Header.Del(h)
		}
	}
	_ = c.SetDeadline(time.Now().Add(proxyIdle))
	counted := &countingConn{Conn: up, count: func(n int) { p.count(to, int64(n), 0) }}
	if err := req.Write(counted); err != nil {
		answer(c, http.StatusBadGateway, "the server took no request: "+err.Error())
		return
	}
	p.copy(c, up, func(n int64) { p.count(to, 0, n) })
}

// target is where an HTTP request wants to go.
func target(req *http.Request) (Endpoint, error) {
	if req.Method == http.MethodConnect {
		return parseEndpoint(req.RequestURI, 0)
	}
	if req.URL.Scheme != "http" || req.URL.Host == "" {
		return Endpoint{}, errors.New("this is sallyport's proxy; it takes CONNECT and http:// requests")
	}
	return parseEndpoint(req.URL.Host, 80)
}

func answer(c net.Conn, code int, text string) {
	body := "sallyport: " + text + "\n"
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), body)
}

// parseEndpoint reads host:port strictly: what it accepts has one spelling.
func parseEndpoint(s string, port int) (Endpoint, error) {
	host, num, err := net.SplitHostPort(s)
	if err != nil {
		if port == 0 {
			return Endpoint{}, fmt.Errorf("%q is no host and port", s)
		}
		host = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	} else if port, err = strconv.Atoi(num); err != nil || num != strconv.Itoa(port) {
		return Endpoint{}, fmt.Errorf("%q is no port", num)
	}
	return endpoint(host, port)
}

func endpoint(host string, port int) (Endpoint, error) {
	if port < 1 || port > 65535 {
		return Endpoint{}, fmt.Errorf("%d is no port", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		return Endpoint{ip.Unmap().String(), port}, nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || len(host) > 253 {
		return Endpoint{}, fmt.Errorf("%q is no host name", host)
	}
	for _, c := range []byte(host) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return Endpoint{}, fmt.Errorf("%q is no host name", host)
		}
	}
	return Endpoint{host, port}, nil
}

// dial connects to an allowed endpoint.
func (p *netproxy) dial(to Endpoint) (net.Conn, error) {
	if !slices.Contains(p.allow, to) {
		return nil, p.refuse(to, notAllowed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), proxyDial)
	defer cancel()
	addrs, err := p.addresses(ctx, to)
	if err != nil {
		return nil, err
	}
	literal := len(addrs) == 1 && addrs[0].String() == to.Host
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !literal && !public(at.Addr()) {
			return errors.New("not a public address")
		}
		return nil
	}}
	var c net.Conn
	for _, a := range addrs {
		if c, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(to.Port)).String()); err == nil {
			p.count(to, 0, 0)
			return c, nil
		}
	}
	return nil, fmt.Errorf("connect to %s:%d: %w", to.Host, to.Port, err)
}

// addresses are where an endpoint may be dialled. An address that was itself
// allowed is taken as it is; a name never leads into a private network.
func (p *netproxy) addresses(ctx context.Context, to Endpoint) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(to.Host); err == nil {
		return []netip.Addr{ip}, nil
	}
	all, err := p.resolve(ctx, to.Host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", to.Host, err)
	}
	var out []netip.Addr
	for _, a := range all {
		if a = a.Unmap(); public(a) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, p.refuse(to, "its name leads to a private, local or metadata address")
	}
	return out, nil
}

// notPublic are the ranges netip has no name for (IANA special-purpose
// registries, RFC 6890), and two cloud metadata addresses outside of those.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("168.63.129.16/32"), // Azure
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}

// public reports whether an address is out on the internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() ||
		a.IsInterfaceLocalMulticast() || a.IsMulticast() || a.IsUnspecified() || a.Zone() != "" {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(n netip.Prefix) bool { return n.Contains(a) })
}

func (p *netproxy) refuse(to Endpoint, why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := refusedDial{to, why}
	if len(p.refused) < proxyRefusal && !slices.Contains(p.refused, r) {
		p.refused = append(p.refused, r)
	}
	return fmt.Errorf("connection to %s:%d refused: %s", to.Host, to.Port, why)
}

// count adds to an endpoint's bytes; zero of both is a new connection.
func (p *netproxy) count(to Endpoint, sent, received int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.use[to]
	if u == nil {
		u = &NetUse{Endpoint: to}
		p.use[to] = u
	}
	u.Sent += sent
	u.Received += received
	if sent == 0 && received == 0 {
		u.Conns++
	}
}

// relay copies both ways until both have ended or nothing moves.
func (p *netproxy) relay(c net.Conn, from io.Reader, up net.Conn, to Endpoint) {
	_ = c.SetDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.copy(up, readerConn{c, from}, func(n int64) { p.count(to, n, 0) })
		halfClose(up)
	}()
	p.copy(c, up, func(n int64) { p.count(to, 0, n) })
	halfClose(c)
	<-done
}

// copy moves bytes until the source ends or is silent for too long.
func (p *netproxy) copy(dst net.Conn, src net.Conn, count func(int64)) {
	buf := make([]byte, 32<<10)
	for {
		_ = src.SetReadDeadline(time.Now().Add(proxyIdle))
		n, err := src.Read(buf)
		if n > 0 {
			count(int64(n))
			_ = dst.SetWriteDeadline(time.Now().Add(proxyIdle))
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func halfClose(c net.Conn) {
	if t, ok := c.(interface{ CloseWrite() error }); ok {
		_ = t.CloseWrite()
	}
}

// readerConn is a connection whose first bytes were read already.
type readerConn struct {
	net.Conn
	r io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// countingConn counts what is written.
type countingConn struct {
	net.Conn
	count func(int)
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.count(n)
	}
	return n, err
}

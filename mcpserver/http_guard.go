package mcpserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Guard lets only requests through that mean this server: the Host is its own
// (a web page that rebinds its name to 127.0.0.1 sends another), an Origin is
// its own or a configured one, and the body has at most MaxLine bytes. Each
// write to a client that does not read ends after o.WriteTime.
func Guard(o HTTPOptions, next http.Handler) http.Handler {
	o = o.withDefaults()
	cross := http.NewCrossOriginProtection()
	for _, origin := range o.Origins {
		if err := cross.AddTrustedOrigin(origin); err != nil {
			// Not a web origin: nothing can match it.
			continue
		}
	}
	h := http.MaxBytesHandler(next, MaxLine)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timed := &timedWriter{w, http.NewResponseController(w), o.WriteTime}
		w = timed
		defer timed.within(o.WriteTime) // what is still held back
		if len(r.TransferEncoding) > 0 {
			// Such a request may have carried a Content-Length too, of which net/http
			// does not tell (RFC 9112, section 6.1): serve nothing behind it.
			w.Header().Set("Connection", "close")
		}
		switch {
		case !rightHost(o, r):
			http.Error(w, "this server does not serve that Host", http.StatusForbidden)
		case !rightOrigin(o, r) || cross.Check(r) != nil:
			http.Error(w, "pages of that Origin may not call this server", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// timedWriter gives a client so long to read each write. Between writes there is no
// deadline: a call may take long to its answer, and over HTTP/2 a stream is reset
// the moment that one passes, written to or not.
type timedWriter struct {
	http.ResponseWriter
	rc   *http.ResponseController
	time time.Duration
}

func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// within sets the deadline; zero is none.
func (w *timedWriter) within(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = w.rc.SetWriteDeadline(at) // a writer without deadlines is a test's
}

func (w *timedWriter) Write(b []byte) (int, error) {
	w.within(w.time)
	defer w.within(0)
	return w.ResponseWriter.Write(b)
}

func (w *timedWriter) FlushError() error {
	w.within(w.time)
	defer w.within(0)
	return w.rc.Flush()
}

// rightHost reports whether the Host header is one that this server goes by.
func rightHost(o HTTPOptions, r *http.Request) bool {
	if slices.ContainsFunc(o.Hosts, func(h string) bool { return strings.EqualFold(h, r.Host) }) {
		return true
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && loopback(local.String()) {
		return loopback(r.Host)
	}
	return len(o.Hosts) == 0
}

// rightOrigin reports whether a request that names an Origin may come from
// there. CrossOriginProtection lets every GET through, and a stream is one.
func rightOrigin(o HTTPOptions, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(o.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// loopback reports whether a host, with or without a port, is this machine by a
// name that nobody else can own.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

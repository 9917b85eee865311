package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/audit"
)

// Syslog sends each record as an RFC 5424 message. Over tcp, tls and a unix
// stream a batch is one connection with octet counting (RFC 6587, RFC 5425), and
// counts as delivered when the receiver has read it to the end and closed: syslog
// has no other acknowledgement. Over udp and a unix datagram socket nothing tells
// whether a message came.
type Syslog struct {
	Network string // "udp", "tcp", "tls" or "unix"
	Address string // host:port, or a path
	TLS     *tls.Config
	Host    string // HOSTNAME of the messages; "" is this machine's
}

const (
	facilityAudit = 13 // log audit
	// enterprise is the number that RFC 5612 sets aside for examples; the data has
	// none of its own.
	enterprise = "sallyport@32473"
	// largest is the most bytes of one datagram.
	largest = 60 << 10
)

// Send implements Sink.
func (s Syslog) Send(ctx context.Context, b Batch) error {
	if err := s.send(ctx, b); err != nil {
		return fmt.Errorf("send the records to syslog at %s: %w", s.Address, err)
	}
	return nil
}

func (s Syslog) send(ctx context.Context, b Batch) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	c, stream, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	var out []byte
	for i := range b.Entries {
		m := s.message(&b.Entries[i].Record, b.Lines[i])
		if stream {
			out = strconv.AppendInt(out, int64(len(m)), 10)
			out = append(append(out, ' '), m...)
			continue
		}
		if err := s.datagram(c, &b.Entries[i].Record, m); err != nil {
			return err
		}
	}
	if !stream {
		return nil
	}
	if _, err := c.Write(out); err != nil {
		return err
	}
	return confirmed(c)
}

// confirmed ends our half of a connection and waits for the other to end.
func confirmed(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection cannot be half closed")
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c)
	var late net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &late) && late.Timeout():
		return errors.New("the receiver did not close the connection: whether it has the records is unknown")
	}
	return err
}

// datagram sends one message; one that is too large goes without its text.
func (s Syslog) datagram(c net.Conn, r *audit.Record, m []byte) error {
	if len(m) <= largest {
		_, err := c.Write(m)
		if !errors.Is(err, syscall.EMSGSIZE) {
			return err
		}
	}
	_, err := c.Write(s.message(r, fmt.Appendf(nil, `{"seq":%d,"cut":true}`, r.Seq)))
	return err
}

func (s Syslog) dial(ctx context.Context) (c net.Conn, stream bool, err error) {
	var d net.Dialer
	switch s.Network {
	case "udp":
		c, err = d.DialContext(ctx, "udp", s.Address)
		return c, false, err
	case "tcp":
		c, err = d.DialContext(ctx, "tcp", s.Address)
		return c, true, err
	case "tls":
		t := tls.Dialer{Config: s.TLS}
		c, err = t.DialContext(ctx, "tcp", s.Address)
		return c, true, err
	case "unix":
		if c, err = d.DialContext(ctx, "unixgram", s.Address); err == nil {
			return c, false, nil
		}
		c, err = d.DialContext(ctx, "unix", s.Address)
		return c, true, err
	}
	return nil, false, fmt.Errorf("%q is not udp, tcp, tls or unix", s.Network)
}

// message is a record as RFC 5424 has it, with the fields one filters by as
// structured data.
func (s Syslog) message(r *audit.Record, text []byte) []byte {
	host := s.Host
	if host == "" {
		host, _ = os.Hostname()
	}
	id := string(r.Kind)
	if r.Event != "" {
		id = r.Event
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<%d>1 %s %s sallyport %s %s [%s", facilityAudit*8+severity(r), r.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		field(host, 255), field(r.Boot, 128), field(id, 32), enterprise)
	for _, p := range []struct{ name, value string }{
		{"seq", strconv.FormatUint(uint64(r.Seq), 10)}, {"call", r.Call}, {"session", r.Session}, {"agent", r.Agent}, {"user", r.User},
		{"tool", r.Tool}, {"tier", r.Tier}, {"verdict", r.Verdict}, {"status", string(r.Status)}, {"person", r.Person},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=%q", p.name, escaped(p.value))
		}
	}
	b.WriteString("] ")
	b.Write(text)
	return []byte(b.String())
}

// severity: warning for what was refused, notice for L3, else informational.
func severity(r *audit.Record) int {
	switch {
	case r.Status == audit.StatusDenied || r.Status == audit.StatusInterrupted:
		return 4
	case r.Tier == "L3":
		return 5
	}
	return 6
}

// field is a header field: printable ASCII without spaces, "-" for nothing.
func field(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return -1
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// escaped is a parameter's value, quoted as RFC 5424 section 6.3.3 has it.
type escaped string

// Format writes the value within quotes.
func (e escaped) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`, "\n", " ", "\r", " ").Replace(strings.ToValidUTF8(string(e), "\uFFFD"))+`"`)
}

package audit

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"
)

// SyslogAnchor sends checkpoints to a system log, best to one on another
// machine. ReadAnchors finds them again in its text. The value is "" for the
// local system log, or udp://host:514 or tcp://host:514.
type SyslogAnchor string

// localLog is where the local system log listens.
const localLog = "/dev/log"

// priority is facility authpriv, severity notice.
const priority = 10<<3 | 5

// Anchor implements the interface of that name.
func (to SyslogAnchor) Anchor(ctx context.Context, checkpoint []byte) error {
	if err := to.send(ctx, checkpoint); err != nil {
		return fmt.Errorf("anchor the log in a system log: %w", err)
	}
	return nil
}

func (to SyslogAnchor) send(ctx context.Context, checkpoint []byte) error {
	network, address := "unixgram", localLog
	if to != "" {
		u, err := url.Parse(string(to))
		if err != nil || u.Port() == "" || u.Scheme != "udp" && u.Scheme != "tcp" {
			return fmt.Errorf("%q is not udp://host:port or tcp://host:port", string(to))
		}
		network, address = u.Scheme, u.Host
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTime/2)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	host, _ := os.Hostname()
	if host == "" {
		host = "-"
	}
	// RFC 5424; over TCP a line ends the message (RFC 6587, section 3.4.2).
	_, err = fmt.Fprintf(c, "<%d>1 %s %s sallyport %d - - %s\n", priority, time.Now().UTC().Format(time.RFC3339), host, os.Getpid(), anchorLine(checkpoint))
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}

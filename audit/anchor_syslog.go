//go:build unix

package audit

import (
	"context"
	"fmt"
	"log/syslog"
	"net/url"
)

// SyslogAnchor sends checkpoints to a system log, best to one on another
// machine. ReadAnchors finds them again in its text. The value is "" for the
// local system log, or udp://host:514 or tcp://host:514.
type SyslogAnchor string

// Anchor implements the interface of that name.
func (to SyslogAnchor) Anchor(_ context.Context, checkpoint []byte) error {
	network, address := "", ""
	if to != "" {
		u, err := url.Parse(string(to))
		if err != nil || u.Host == "" || u.Scheme != "udp" && u.Scheme != "tcp" {
			return fmt.Errorf("anchor the log in a system log: %q is not udp://host:port or tcp://host:port", string(to))
		}
		network, address = u.Scheme, u.Host
	}
	w, err := syslog.Dial(network, address, syslog.LOG_AUTHPRIV|syslog.LOG_NOTICE, "sallyport")
	if err != nil {
		return fmt.Errorf("anchor the log in a system log: %w", err)
	}
	err = w.Notice(anchorLine(checkpoint))
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("anchor the log in a system log: %w", err)
	}
	return nil
}

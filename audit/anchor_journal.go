package audit

import (
	"context"
	"fmt"
	"net"
)

// JournalAnchor sends checkpoints to systemd's journal, by its own protocol; the
// value is the journal's socket, "" for the usual one. `journalctl -t sallyport -o
// cat` gives them back. A journal is as safe as whoever owns it: one that is sent
// on to another machine, or sealed (journalctl --verify), is best.
type JournalAnchor string

const journalSocket = "/run/systemd/journal/socket"

// Anchor implements the interface of that name.
func (socket JournalAnchor) Anchor(ctx context.Context, checkpoint []byte) error {
	path := string(socket)
	if path == "" {
		path = journalSocket
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTime/2)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixgram", path)
	if err != nil {
		return fmt.Errorf("anchor the log in the journal: %w", err)
	}
	_, err = fmt.Fprintf(c, "MESSAGE=%s\nPRIORITY=5\nSYSLOG_IDENTIFIER=sallyport\n", anchorLine(checkpoint))
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("anchor the log in the journal: %w", err)
	}
	return nil
}

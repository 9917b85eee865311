package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"sallyport/mcpserver"
)

// newConformanceFixture serves what the MCP conformance suite is run against
// (`make conformance`).
func newConformanceFixture() *cobra.Command {
	return &cobra.Command{
		Use: "conformance-fixture [ADDR]", Short: "Serve the fixtures of the MCP conformance suite on loopback", Hidden: true,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := httpConfig{Listen: "127.0.0.1:0"}
			if len(args) == 1 {
				c.Listen = args[0]
			}
			l, err := c.open()
			if err != nil {
				return err
			}
			if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
				l.Close()
				return fmt.Errorf("the fixture lets everybody in: serve it on loopback, not on %s", ip)
			}
			e := mcpserver.NewFixture(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			srv := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s/mcp\n", l.Addr())
			done := make(chan struct{})
			go func() {
				defer close(done)
				<-cmd.Context().Done()
				e.Close(cmd.Context())
				srv.Close()
			}()
			_ = srv.Serve(l)
			<-done
			return nil
		},
	}
}

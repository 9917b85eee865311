package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
)

func newServe() *cobra.Command {
	var idle bool
	var httpAddr string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: log, approvals, policy and cells of this user",
		Long: `Run the daemon that owns the audit log, the approvals, the policy and the cells of this
user. ` + "`sallyport mcp`" + ` starts one by itself when none runs; start it by hand to watch it work.`,
		Example: "  sallyport serve\n  sallyport serve --http 127.0.0.1:7766",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			syscall.Umask(0o077)
			debug.SetGCPercent(400) // the heap is small; a decision is a fifth cheaper (BenchmarkAdmit)
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			d, err := openDaemon(cmd.Context(), p, logger)
			if errors.Is(err, audit.ErrLocked) {
				return &exit{exitServed, fmt.Errorf("another sallyport serves %s already (`sallyport status` shows it, `sallyport stop` ends it)", p.state)}
			}
			if err != nil {
				return err
			}
			defer d.close()
			if httpAddr != "" {
				d.config.HTTP.Listen = httpAddr
			}
			var wait time.Duration
			if idle {
				wait = time.Duration(d.config.IdleExit)
			}
			return d.serve(cmd.Context(), wait, func() {
				logger.Info("sallyport serves", "agents", p.agentSock(), "people", p.controlSock())
			})
		},
	}
	cmd.Flags().BoolVar(&idle, "idle-exit", false, "exit when nobody has used it for the configured idle_exit")
	cmd.Flags().StringVar(&httpAddr, "http", "", "serve MCP over HTTP too, on this address (as http.listen in config.yaml)")
	return cmd
}

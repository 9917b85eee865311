package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/mcpserver"
	"sallyport/policy/approval"
)

func newResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume SESSION", Short: "Say where a session stopped and what has changed since", Args: cobra.ExactArgs(1),
		Long: `Say where a session stopped: the last call that succeeded, calls that were interrupted or wait for a
person, files that are not as the session left them, and commits made since. Agents ask the same with the
tool session_resume.`,
		Example: "  sallyport resume cc-1f2e\n  sallyport resume cc-1f2e --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			steps, err := sessionSteps(cmd.Context(), b, args[0])
			if err != nil {
				return err
			}
			run, done, err := ownRunner("")
			if err != nil {
				return err
			}
			defer done()
			r, err := mcpserver.Resume(cmd.Context(), run, steps)
			if err != nil {
				return fmt.Errorf("resume %s: %w", args[0], err)
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), r)
			}
			for line := range lines(r.Text()) {
				fmt.Fprintln(cmd.OutOrStdout(), approval.Visible(line))
			}
			return nil
		},
	}
}

// sessionsIn are the sessions of a log.
type sessionsIn struct{ log *audit.Log }

func (s sessionsIn) Steps(ctx context.Context, session string) ([]audit.Step, error) {
	return s.log.Session(ctx, session)
}

// Newest looks through the agent's newest records only: an older session is none
// that anybody goes on with.
func (s sessionsIn) Newest(ctx context.Context, p *mcpserver.Peer) (string, error) {
	newest := ""
	most := 5000
	err := s.log.Select(ctx, audit.Filter{Agent: p.Agent, User: p.User, Newest: true, Limit: most}, func(r audit.Record) bool {
		switch {
		case r.Kind == audit.KindEvent || r.Workspace != p.Workspace || mcpserver.OwnTool(r.Tool):
		case r.Session == p.Session:
			newest = r.Session
		case newest == "":
			newest = r.Session
		}
		return newest != p.Session
	})
	return newest, err
}

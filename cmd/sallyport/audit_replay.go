package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"sallyport/audit"
)

func auditReplay() *cobra.Command {
	var cast, policyDir, failOn string
	var execute bool
	cmd := &cobra.Command{
		Use: "replay SESSION", Short: "Play a session again, step by step, or judge it by another policy", Args: cobra.ExactArgs(1),
		Long: `Show what happened in a session, step by step. With --cast the session is also written as an asciicast.
With --policy every recorded call is judged again from its recorded facts by another policy layer, and each is the same,
loosened, tightened or, where a fact was redacted, indeterminate. Nothing runs.

With --execute the calls that were allowed then run again, in cells, without network, in a copy of the
repository at the recorded commit, and what they do is compared: exit, output without times, ids and the
like, and the digests of changed files. Each call is

  same            as then
  different       in what the lines below it say (exit code 1 when there is one)
  not_comparable  something it needs is not there any more: uncommitted files, the network, redacted
                  arguments, an output of which only the beginning is kept
  refused         it was denied, invalid or never approved then

The workspace itself is only read.`,
		Example: "  sallyport audit replay cc-1f2e\n  sallyport audit replay cc-1f2e --policy ./policy --fail-on loosened\n  sallyport audit replay cc-1f2e --execute",
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
			if execute {
				return reexecute(cmd, b, steps)
			}
			if policyDir != "" {
				return rejudge(cmd, steps, policyDir, failOn)
			}
			if cast != "" {
				f, err := os.Create(cast)
				if err != nil {
					return fmt.Errorf("write the recording: %w", err)
				}
				if err := errors.Join(audit.Asciicast(f, steps, 0), f.Close()); err != nil {
					return fmt.Errorf("write the recording: %w", err)
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), steps)
			}
			return audit.Show(cmd.OutOrStdout(), steps)
		},
	}
	cmd.Flags().BoolVar(&execute, "execute", false, "run the allowed calls again in a copy and compare")
	cmd.Flags().StringVar(&cast, "cast", "", "also write the session as an asciicast to this file")
	cmd.Flags().StringVar(&policyDir, "policy", "", "judge the recorded calls by this policy layer")
	cmd.Flags().StringVar(&failOn, "fail-on", "", "exit 1 when a call is loosened (or tightened)")
	cmd.MarkFlagsMutuallyExclusive("execute", "policy", "cast")
	return cmd
}

// sessionSteps is what happened in a session; nothing is an error.
func sessionSteps(ctx context.Context, b *backend, session string) ([]audit.Step, error) {
	var steps []audit.Step
	if err := b.do(ctx, http.MethodGet, "/v1/audit/sessions/"+url.PathEscape(session), nil, &steps); err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("no session is called %s: `sallyport audit stats` lists them", session)
	}
	return steps, nil
}

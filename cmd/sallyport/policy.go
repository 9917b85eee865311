package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"sallyport/mcpserver"
	"sallyport/policy"
	"sallyport/policy/approval"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Ask, test and own the rules",
		Example: "  sallyport policy eval -- 'git push --force origin main'",
	}
	cmd.AddCommand(policyEval())
	return cmd
}

func policyEval() *cobra.Command {
	var dir string
	var write bool
	cmd := &cobra.Command{
		Use: "eval [flags] -- 'TEXT'", Short: "Say what policy decides on a command; nothing runs",
		Long: `Say what policy decides on a command, as shell text (one argument) or as an argument vector
(several). Nothing runs. A daemon that serves answers with the policy it has loaded.`,
		Example: "  sallyport policy eval --json -- 'rm -rf /'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			in := evalIn{Workspace: root, Write: write, Argv: args}
			if len(args) == 1 {
				in.Text, in.Argv = args[0], nil
			}
			j, err := ask(cmd, in)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), j)
			}
			printJudged(cmd.OutOrStdout(), j)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "folder the command would run in (default: the current one)")
	cmd.Flags().BoolVar(&write, "write", false, "as if the command asked to change the workspace")
	return cmd
}

// ask asks the daemon where one serves, else the configured policy in this
// process.
func ask(cmd *cobra.Command, in evalIn) (*mcpserver.Judged, error) {
	b, err := openBackend(cmd, needDaemon)
	if err == nil {
		defer b.close()
		var out mcpserver.Judged
		return &out, b.do(cmd.Context(), http.MethodPost, "/v1/policy/eval", in, &out)
	}
	if !errors.Is(err, errNobody) {
		return nil, err
	}
	p, err := placeOf(cmd)
	if err != nil {
		return nil, err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return nil, err
	}
	j, err := newJudge(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	return j.eval(cmd.Context(), in)
}

func printJudged(w io.Writer, j *mcpserver.Judged) {
	say := painter(w)
	fmt.Fprintf(w, "%s %s\n", say.bold(j.Tier.String()), say.verdict(j.Verdict.String()))
	for _, r := range j.Rules {
		fmt.Fprintf(w, "  %s %s  %s\n", r.Tier, say.bold(r.ID), approval.Visible(r.Reason))
		if r.Cmd != "" {
			fmt.Fprintf(w, "     %s\n", say.dim(approval.Visible(r.Cmd)))
		}
		if r.Remedy != "" && r.Verdict != policy.Allow {
			fmt.Fprintf(w, "     %s\n", say.dim("→ "+r.Remedy))
		}
	}
	fmt.Fprintln(w, say.dim("policy "+j.Revision))
}

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"sallyport/policy/approval"
)

func suggestions(ctx context.Context, b *backend) ([]approval.Suggestion, error) {
	list := []approval.Suggestion{}
	return list, b.do(ctx, http.MethodGet, "/v1/suggestions", nil, &list)
}

// hint says beneath the list that answers have become a reflex.
func hint(cmd *cobra.Command, b *backend) error {
	list, err := suggestions(cmd.Context(), b)
	if err != nil {
		return err
	}
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	for _, s := range list {
		fmt.Fprintln(out, say.yellow("! "+approval.Visible(s.Text)))
	}
	if len(list) > 0 {
		fmt.Fprintln(out, say.dim("  `sallyport approvals suggest` shows the grant, or the rule in Rego"))
	}
	return nil
}

func approvalsSuggest() *cobra.Command {
	return &cobra.Command{
		Use: "suggest", Short: "Suggest a grant or a rule for answers given too often", Args: cobra.NoArgs,
		Long: `Look at the last hour for answers that became a reflex: the same one, eight times or more, to
requests of one agent alike in tool and rules. For a yes it suggests a grant and, for good, a list
entry; for a no a rule in Rego that refuses without asking. Nothing is changed.`,
		Example: "  sallyport approvals suggest --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			list, err := suggestions(cmd.Context(), b)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), list)
			}
			out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
			if len(list) == 0 {
				fmt.Fprintln(out, "no answer was given too often in the last hour")
			}
			for i, s := range list {
				if i > 0 {
					fmt.Fprintln(out)
				}
				fmt.Fprintln(out, say.bold(approval.Visible(s.Text)))
				if s.Grant != nil {
					fmt.Fprintf(out, "\nfor a while:\n  %s\n", approval.Quote(s.Command()))
				}
				fmt.Fprintf(out, "\nfor good, in the policy of its owner (%s):\n%s", s.Language, approval.VisibleText(s.Policy))
			}
			return nil
		},
	}
}

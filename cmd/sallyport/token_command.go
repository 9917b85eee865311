package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/mcpserver/identity"
	"sallyport/policy"
	"sallyport/policy/approval"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke the tokens that agents use over HTTP",
		Long: `A token names an agent, the one workspace it works in, the highest tier of its calls and,
if you like, the only tools it may use. It is shown once. A child token can only do less
than its parent and ends with it.`,
		Example: `  sallyport token create --agent ci --workspace . --max-tier L1 --ttl 24h
  sallyport token create --agent ci/search --workspace . --max-tier L0 --tools read_file,grep --parent 4kq…
  sallyport token list
  sallyport token revoke 4kq…`,
	}
	cmd.AddCommand(tokenCreate(), tokenList(), tokenRevoke())
	return cmd
}

func tokenCreate() *cobra.Command {
	var in tokenIn
	var tier string
	cmd := &cobra.Command{
		Use: "create", Short: "Make a token and print it, once", Args: cobra.NoArgs,
		Example: "  sallyport token create --agent ci --workspace . --max-tier L1 --ttl 24h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.MaxTier.UnmarshalText([]byte(strings.ToUpper(tier))); err != nil {
				return &exit{exitUsage, err}
			}
			var err error
			if in.Workspace, err = workspace(in.Workspace); err != nil {
				return err
			}
			if !cmd.Flags().Changed("tools") {
				in.Tools = nil
			}
			b, err := openBackend(cmd, needTokens)
			if err != nil {
				return err
			}
			defer b.close()
			var out tokenOut
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/tokens", in, &out); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), out)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), describeToken(out.Token)+"\nKeep it now: it cannot be shown again.")
			fmt.Fprintln(cmd.OutOrStdout(), out.Text)
			return nil
		},
	}
	cmd.Flags().StringVar(&in.Agent, "agent", "", "what the agent is called in policy and in the log")
	cmd.Flags().StringVar(&in.Workspace, "workspace", "", "the folder it works in (default the current one)")
	cmd.Flags().StringVar(&tier, "max-tier", policy.L0.String(), "the highest tier of its calls: L0, L1, L2 or L3")
	cmd.Flags().StringSliceVar(&in.Tools, "tools", nil, "the only tools it may use (default all that its tier allows)")
	cmd.Flags().StringVar(&in.TTL, "ttl", "24h", "how long it is good for")
	cmd.Flags().StringVar(&in.Parent, "parent", "", "id of the token that this one narrows")
	_ = cmd.MarkFlagRequired("agent")
	return cmd
}

func describeToken(t identity.Token) string {
	s := fmt.Sprintf("%s  %s in %s, up to %s", t.ID, t.Agent, t.Workspace, t.MaxTier)
	if t.Tools != nil {
		s += ", tools " + strings.Join(t.Tools, ",")
	}
	if t.Parent != "" {
		s += ", child of " + t.Parent
	}
	if !t.Revoked.IsZero() {
		return s + ", revoked"
	}
	return s + ", until " + t.Expires.Local().Format(time.DateTime)
}

func tokenList() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens that are good", Args: cobra.NoArgs,
		Example: "  sallyport token list --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needTokens)
			if err != nil {
				return err
			}
			defer b.close()
			list, path := []identity.Token{}, "/v1/tokens"
			if all {
				path += "?all=true"
			}
			if err := b.do(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), list)
			}
			if len(list) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "there are none")
			}
			for _, t := range list {
				fmt.Fprintln(cmd.OutOrStdout(), approval.Visible(describeToken(t)))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also the expired and revoked ones")
	return cmd
}

func tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a token and its children at once", Args: cobra.ExactArgs(1),
		Example: "  sallyport token revoke 4kq…",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needTokens)
			if err != nil {
				return err
			}
			defer b.close()
			var t identity.Token
			if err := b.do(cmd.Context(), http.MethodDelete, "/v1/tokens/"+args[0], nil, &t); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), t)
			}
			fmt.Fprintln(cmd.OutOrStdout(), approval.Visible(describeToken(t)))
			return nil
		},
	}
}

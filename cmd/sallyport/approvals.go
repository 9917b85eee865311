package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/policy/approval"
)

func newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "See and decide what waits for a person",
		Example: `  sallyport approvals list
  sallyport approvals show k7f3qd
  sallyport approvals approve k7f3qd
  sallyport approvals deny k7f3qd use a feature branch`,
	}
	cmd.AddCommand(approvalsList(), approvalsShow(), approvalsApprove(), approvalsDeny(), approvalsWatch(), approvalsSuggest())
	return cmd
}

func approvalsList() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the requests that are open", Args: cobra.NoArgs,
		Example: "  sallyport approvals list --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			list := []approval.Request{}
			path := "/v1/approvals"
			if all {
				path += "?all=true"
			}
			if err := b.do(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), list)
			}
			out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
			if len(list) == 0 {
				fmt.Fprintln(out, "nothing waits for you")
			}
			for _, r := range list {
				fmt.Fprintf(out, "%s  %s  %s  %s\n", say.bold(r.ID), say.verdict(string(r.State)), r.Tier,
					approval.Visible(oneLine(r.Summary, 80)))
				fmt.Fprintln(out, say.dim("        "+r.Agent+" in "+r.Workspace+until(r)+inBatch(r)))
			}
			return hint(cmd, b)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are decided")
	return cmd
}

func until(r approval.Request) string {
	switch r.State {
	case approval.StatePending, approval.StateApproved:
		return fmt.Sprintf(", until %s", r.Expires.Local().Format("15:04:05"))
	}
	return ""
}

// inBatch names the batch that a waiting request is decided with.
func inBatch(r approval.Request) string {
	if r.Batch == "" || r.State != approval.StatePending {
		return ""
	}
	return ", announced in " + r.Batch
}

func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func newGrants() *cobra.Command {
	cmd := &cobra.Command{Use: "grants", Short: "See, add and revoke what is allowed in advance", Example: "  sallyport grants list"}
	list := &cobra.Command{
		Use: "list", Short: "List the grants, newest first", Args: cobra.NoArgs, Example: "  sallyport grants list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			grants := []approval.Grant{}
			if err := b.do(cmd.Context(), http.MethodGet, "/v1/grants", nil, &grants); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), grants)
			}
			if len(grants) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no grants")
			}
			for _, g := range grants {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s\n", g.ID, g.State(time.Now()), approval.Visible(g.Summary()))
			}
			return nil
		},
	}
	cmd.AddCommand(list, grantsAdd(), grantsRevoke())
	return cmd
}

func grantsAdd() *cobra.Command {
	var g approval.Grant
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "add", Short: "Allow a tool or rules in advance (never L3 or floors)", Args: cobra.NoArgs,
		Example: "  sallyport grants add --tool edit_file --path 'docs/**' --uses 20 --for 2h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.Tool == "" && len(g.Rules) == 0 && g.Session == "" {
				return &exit{exitUsage, errors.New("a grant needs --tool, --rule or --session")}
			}
			if ttl > 0 {
				g.Until = time.Now().Add(ttl)
			}
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			var made approval.Grant
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/grants", g, &made); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), made)
			}
			fmt.Fprintln(cmd.OutOrStdout(), made.ID, approval.Visible(made.Summary()))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&g.Tool, "tool", "", "tool it covers")
	f.StringSliceVar(&g.Rules, "rule", nil, "rules it covers: every rule that asks is one of them")
	f.StringSliceVar(&g.Paths, "path", nil, "globs that every path of the call matches")
	f.StringSliceVar(&g.Branches, "branch", nil, "globs for the branch")
	f.StringSliceVar(&g.Hosts, "host", nil, "globs that every host of the call matches")
	f.StringVar(&g.Session, "session", "", "only this session")
	f.StringVar(&g.Agent, "agent", "", "only this agent")
	f.StringVar(&g.Workspace, "workspace", "", "only this workspace")
	f.IntVar(&g.Uses, "uses", 0, "how often (0: until it ends)")
	f.DurationVar(&ttl, "for", 0, "how long (default 8h)")
	return cmd
}

func grantsRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a grant at once", Args: cobra.ExactArgs(1), Example: "  sallyport grants revoke g-k7f3qd",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			var g approval.Grant
			if err := b.do(cmd.Context(), http.MethodDelete, "/v1/grants/"+args[0], nil, &g); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), g)
			}
			fmt.Fprintln(cmd.OutOrStdout(), g.ID, "revoked")
			return nil
		},
	}
}

func newFreeze() *cobra.Command {
	return scopeCommand("freeze", "Stop every call at once", "sallyport freeze --agent claude-code",
		"Refuse every new call, of all agents or of one, and end the commands that run, until a person lifts it.")
}

func newLift() *cobra.Command {
	return scopeCommand("lift", "Lift a freeze", "sallyport lift", "Let calls through again.")
}

func scopeCommand(name, short, example, long string) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Example: "  " + example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			scope := approval.Scope{Agent: agent, All: agent == ""}
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/"+name, scope, nil); err != nil {
				return err
			}
			who := "every agent"
			if agent != "" {
				who = agent
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{name: who})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, who)
			return nil
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only this agent")
	return cmd
}

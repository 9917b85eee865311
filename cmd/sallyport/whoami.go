package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sallyport/mcpserver"
	"sallyport/policy"
	"sallyport/sandbox"
)

// about tells how far the policy lets an agent go, and what walls commands get.
func (d *daemon) about(ctx context.Context, agent string) (policy.Tier, sandbox.Level) {
	if d.judges.ready(ctx) != nil {
		return policy.L0, ""
	}
	d.levelMu.Lock()
	defer d.levelMu.Unlock()
	if d.level == "" || time.Since(d.levelAt) > levelFor { // a probe starts cells
		d.level, d.levelAt = d.runner.Probe(ctx).Level, time.Now()
	}
	return d.judges.base.engine.Data().Agent(agent).MaxTier, d.level
}

// levelFor is how long a probe of the walls is believed by about.
const levelFor = 10 * time.Minute

func newWhoami() *cobra.Command {
	var dir, agent, session string
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show who you are to the daemon, and how far you may go",
		Long: `Show who a call from here would be: user, agent, session, workspace, the preset that says what a
change of code needs, the highest tier, the tools, the walls that commands get. Inside an agent
host it is the host's agent and session, else what "sallyport exec" would be.`,
		Example: "  sallyport whoami --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			if session == "" && agent == "cli" {
				session = cliSession(root)
			}
			id, err := identify(cmd.Context(), p, hello{
				Sallyport: helloVersion, Version: version, Agent: agent, Workspace: root, Session: session, PID: os.Getpid(),
			})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), id)
			}
			fmt.Fprint(cmd.OutOrStdout(), id.Text())
			return nil
		},
	}
	who := "cli"
	if defaultSession() != "" {
		who = defaultAgent()
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "workspace (default: the current folder)")
	cmd.Flags().StringVar(&agent, "agent", who, "as this agent")
	cmd.Flags().StringVar(&session, "session", defaultSession(), "as this session")
	return cmd
}

// identify asks the daemon as an agent would.
func identify(ctx context.Context, p place, h hello) (mcpserver.Identity, error) {
	var id mcpserver.Identity
	c, _, err := connect(ctx, p, h)
	if err != nil {
		return id, err
	}
	defer c.Close()
	client, err := mcpserver.NewClient(ctx, c, "sallyport-whoami", version)
	if err != nil {
		return id, err
	}
	reply, err := client.Call(ctx, "whoami", map[string]any{}, 0)
	if err != nil {
		return id, err
	}
	var s struct {
		Data *mcpserver.Identity `json:"data"`
	}
	if err := json.Unmarshal(reply.Structured, &s); err != nil {
		return id, fmt.Errorf("read the answer: %w", err)
	}
	if s.Data == nil { // frozen, or withheld
		return id, fmt.Errorf("ask the daemon: %s", reply.Text)
	}
	return *s.Data, nil
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

func newMCP() *cobra.Command {
	var dir, agent, session string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Speak MCP on stdin and stdout (what an agent host starts)",
		Long: `Speak MCP over stdio. This is what Claude Code or another host starts; it connects to the
daemon, starting one if none runs, and relays. When the daemon ends it starts another and
goes on; a call that was in flight is answered with what the log knows of it. The workspace
is --workspace, else $CLAUDE_PROJECT_DIR, else the current directory.`,
		Example: "  claude mcp add sallyport -- sallyport mcp",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancelCause(cmd.Context())
			defer stop(nil)
			go func() {
				if parentEnds(ctx) {
					stop(errors.New("the host has ended"))
				}
			}()
			h := hello{Sallyport: helloVersion, Version: version, Agent: agent, Workspace: root, Session: session, PID: os.Getpid()}
			return newRelay(p, h, cmd.OutOrStdout()).run(ctx, cmd.InOrStdin())
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "folder the agent works in")
	cmd.Flags().StringVar(&agent, "agent", defaultAgent(), "name of the agent, for policy and the record")
	cmd.Flags().StringVar(&session, "session", defaultSession(), "name of the session, so that a restarted host keeps its approvals")
	return cmd
}

func defaultAgent() string {
	if os.Getenv("CLAUDE_CODE_SESSION_ID") != "" || os.Getenv("CLAUDE_PROJECT_DIR") != "" {
		return "claude-code"
	}
	return "agent"
}

func defaultSession() string {
	if s := os.Getenv("SALLYPORT_SESSION"); s != "" {
		return s
	}
	if s := os.Getenv("CLAUDE_CODE_SESSION_ID"); s != "" {
		return "cc-" + s
	}
	return ""
}

// cliSession is the session of a person's own commands: the same for one user
// and workspace, so that a repeated command finds its approval.
func cliSession(root string) string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Uid
	}
	sum := sha256.Sum256([]byte(name + "\x00" + root))
	return "cli-" + hex.EncodeToString(sum[:6])
}

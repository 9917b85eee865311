package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// hookEvent is as much of Claude Code's PreToolUse and PostToolUse events as the
// hook reads.
// https://code.claude.com/docs/en/hooks
type hookEvent struct {
	Event          string          `json:"hook_event_name"`
	SessionID      string          `json:"session_id"`
	CWD            string          `json:"cwd"`
	PermissionMode string          `json:"permission_mode"`
	Tool           string          `json:"tool_name"`
	Input          json.RawMessage `json:"tool_input"`
	UseID          string          `json:"tool_use_id"`
	Response       json.RawMessage `json:"tool_response"` // PostToolUse: what the tool gave
}

// hookAnswer is what Claude Code reads on the hook's stdout.
type hookAnswer struct {
	Output struct {
		Event    string `json:"hookEventName"`
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason"`
	} `json:"hookSpecificOutput"`
}

// exitBlock is Claude Code's exit code for a call that must not run; any other
// code but 0 would let it run.
const exitBlock = 2

func newHook() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Judge a host's own tool call (Claude Code's PreToolUse and PostToolUse hooks)",
		Long: `Read one PreToolUse event of Claude Code on stdin and answer it on stdout: allow, ask or deny,
by the same policy, desk and log as sallyport's own tools. ` + "`sallyport install claude --hook`" + ` sets
it up for the host's own Bash, Edit, Write, NotebookEdit, Read, Glob and Grep.

A PostToolUse event is recorded as the call's outcome: size and digest of what the tool gave.

Reading inside the workspace is allowed. What changes code is asked at the host. L3 waits at
sallyport's desk: the call is denied with an approval id and runs when it is repeated after
approval. A call that cannot be judged is blocked (exit 2).

The host runs these calls outside of any cell, so what they really do is not seen: prefer
sallyport's own tools, and --deny-host-tools.`,
		Example: `  echo '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push"}}' | sallyport hook`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := hook(cmd, agent); err != nil {
				return &exit{exitBlock, fmt.Errorf("the call is blocked, for it cannot be judged: %w", err)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "claude-code", "name of the agent, for policy and the record")
	return cmd
}

func hook(cmd *cobra.Command, agent string) error {
	in := cmd.InOrStdin()
	raw, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
	if err != nil {
		return fmt.Errorf("read the event: %w", err)
	}
	if len(raw) > maxEvent {
		return fmt.Errorf("the event is longer than %d MiB", maxEvent>>20)
	}
	var e hookEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("read the event: %w (stdin must be a PreToolUse event of Claude Code)", err)
	}
	if e.Event != "PreToolUse" && e.Event != "PostToolUse" || e.Tool == "" {
		return fmt.Errorf("the event is %q, not a PreToolUse or PostToolUse with a tool", e.Event)
	}
	if strings.HasPrefix(e.Tool, "mcp__") { // an MCP server's: ours judges its own calls
		return nil
	}
	dir := e.CWD
	if os.Getenv("CLAUDE_PROJECT_DIR") != "" {
		dir = "" // the project's folder; the event's is where the host's shell happens to be
	}
	root, err := workspace(dir)
	if err != nil {
		return err
	}
	p, err := placeOf(cmd)
	if err != nil {
		return err
	}
	out, err := askHook(cmd.Context(), p, hookIn{
		Agent: agent, Session: "cc-" + e.SessionID, Workspace: root, Tool: e.Tool, Input: e.Input, Key: e.UseID,
		Ended: e.Event == "PostToolUse", Response: e.Response,
		Attended: e.PermissionMode == "default" || e.PermissionMode == "acceptEdits" || e.PermissionMode == "plan",
	})
	if err != nil {
		return err
	}
	if out.Decision == "" {
		return nil // the host's own rules decide
	}
	var a hookAnswer
	a.Output.Event, a.Output.Decision, a.Output.Reason = "PreToolUse", out.Decision, out.Reason
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	return enc.Encode(a)
}

// maxEvent is the longest event in bytes: a write of any source file.
const maxEvent = 16 << 20

// askHook asks the daemon, starting it if none runs.
func askHook(ctx context.Context, p place, in hookIn) (hookOut, error) {
	ctx, cancel := context.WithTimeout(ctx, p.wait.hookTime())
	defer cancel()
	if err := ensureDaemon(ctx, p); err != nil {
		return hookOut{}, err
	}
	b := remote(p)
	defer b.close()
	var out hookOut
	err := b.do(ctx, http.MethodPost, "/v1/hook", in, &out)
	if errors.Is(err, context.DeadlineExceeded) {
		return out, fmt.Errorf("the daemon did not answer within %s (`sallyport status`)", p.wait.hookTime())
	}
	return out, err
}

// ensureDaemon waits until a daemon answers people, starting one if it must.
func ensureDaemon(ctx context.Context, p place) error {
	for {
		c, err := dial(p.controlSock())
		if err == nil {
			defer c.Close()
			if who, err := peerOf(c); err == nil && stopped(who.pid) {
				return frozenDaemon(who.pid)
			}
			return nil
		}
		a, err := reach(ctx, p)
		if err != nil {
			return err
		}
		a.Close()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

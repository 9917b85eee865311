package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/mcpserver"
)

// execResult is what `exec --json` prints. Its form is stable.
type execResult struct {
	Decision *mcpserver.Judged `json:"decision"`
	Status   audit.Status      `json:"status"`
	Approval string            `json:"approval,omitempty"`
	Pending  string            `json:"pending_file,omitempty"` // of the request, for programs
	Error    string            `json:"error,omitempty"`
	mcpserver.Ran
}

func newExec() *cobra.Command {
	var dir, profile string
	var write bool
	var wait, timeout time.Duration
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG…]",
		Short: "Run one command through the same gate and cell as an agent's",
		Long: `Run one command as an agent would: judged, confirmed where its tier asks, run in a cell and
recorded. One argument is taken as shell text, several as an argument vector. The exit
code is the command's own; 75 means that a person has to approve first (repeat the command
afterwards), 126 denied, 124 out of time, 125 that sallyport itself failed.`,
		Example: `  sallyport exec -- go vet ./...
  sallyport exec --json -- 'ls | wc -l'
  sallyport exec --write --wait 5m -- make generate`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := workspace(dir)
			if err != nil {
				return &exit{exitSelf, err}
			}
			call := map[string]any{}
			if len(args) == 1 {
				call["command"] = args[0]
			} else {
				call["argv"] = args
			}
			if write {
				call["write"] = true
			}
			if timeout > 0 {
				call["timeout_ms"] = timeout.Milliseconds()
			}
			if profile != "" {
				call["profile"] = profile
			}
			p, err := placeOf(cmd)
			if err != nil {
				return &exit{exitSelf, err}
			}
			return execute(cmd, p, execCall{root, call, wait})
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "folder to run in (default: the current one)")
	cmd.Flags().StringVar(&profile, "profile", "", "seccomp profile: default, strict, debug or no-delete")
	cmd.Flags().BoolVar(&write, "write", false, "ask to change the workspace (L2)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait this long for a person's approval")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wall clock of the command (default 2m)")
	return cmd
}

// execCall is a command as `exec` was asked to run it.
type execCall struct {
	root string
	args map[string]any // of run_command
	wait time.Duration
}

// execute makes the call and reports it.
func execute(cmd *cobra.Command, p place, x execCall) error {
	ctx := cmd.Context()
	c, _, err := connect(ctx, p, hello{
		Sallyport: helloVersion, Version: version, Agent: "cli", Workspace: x.root, Session: cliSession(x.root), PID: os.Getpid(),
	})
	if err != nil {
		return &exit{exitSelf, err}
	}
	defer c.Close()
	client, err := mcpserver.NewClient(ctx, &attentive{c.UnixConn, c, p}, "sallyport-exec", version)
	if err != nil {
		return &exit{exitSelf, err}
	}
	reply, err := client.Call(ctx, "run_command", x.args, x.wait)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return &exit{130, nil}
		}
		return &exit{exitSelf, err}
	}
	var s mcpserver.Structured
	if err := json.Unmarshal(reply.Structured, &s); err != nil {
		return &exit{exitSelf, fmt.Errorf("read the answer: %w", err)}
	}
	code := exitCodeOf(s)
	if wantsJSON(cmd) {
		out := execResult{Decision: s.Decision, Status: s.Status, Approval: s.Approval, Pending: s.PendingFile, Ran: s.Ran}
		if s.Failure != nil {
			out.Error = s.Failure.Msg
		}
		if code.gate { // nothing ran, or not to its end
			out.Exit = code.code
		}
		if err := printJSON(cmd.OutOrStdout(), out); err != nil {
			return err
		}
		return code.orNil()
	}
	fmt.Fprint(cmd.OutOrStdout(), s.Stdout)
	fmt.Fprint(cmd.ErrOrStderr(), s.Stderr)
	if code.gate {
		return &exit{code.code, errors.New(gateText(s))}
	}
	say := painter(cmd.ErrOrStderr())
	for _, d := range s.Denials {
		fmt.Fprintln(cmd.ErrOrStderr(), say.yellow("sallyport: "+d.What), say.dim("("+d.Remedy+")"))
	}
	for _, h := range s.Hit {
		fmt.Fprintln(cmd.ErrOrStderr(), say.yellow(fmt.Sprintf("sallyport: limit hit: %s (limit %d, reached %d)", h.Limit, h.Value, h.Peak)))
	}
	return code.orNil()
}

// gateText says to a person why the gate stopped their command.
func gateText(s mcpserver.Structured) string {
	switch {
	case s.Status == audit.StatusPending:
		return s.Failure.Msg + "\nlook with `sallyport approvals show " + s.Approval + "`, decide with `sallyport approvals approve " + s.Approval +
			"`, then repeat the command" + inFile(s.PendingFile)
	case s.Failure != nil && s.Failure.Remedy != "":
		return s.Failure.Msg + "\n→ " + s.Failure.Remedy
	case s.Failure != nil:
		return s.Failure.Msg
	}
	return "the command did not run (" + string(s.Status) + ")"
}

// inFile says where programs find a request.
func inFile(path string) string {
	if path == "" {
		return ""
	}
	return "\n(for programs: " + path + ")"
}

// outcome is an exit code and whether the gate, not the command, set it.
type outcome struct {
	code int
	gate bool
}

func (o outcome) orNil() error {
	if o.code == 0 {
		return nil
	}
	return &exit{o.code, nil}
}

func exitCodeOf(s mcpserver.Structured) outcome {
	switch s.Status {
	case audit.StatusPending:
		return outcome{exitPending, true}
	case audit.StatusDenied:
		return outcome{exitDenied, true}
	case audit.StatusTimeout:
		return outcome{exitTimeout, true}
	case audit.StatusOK:
		return outcome{s.Exit, false}
	}
	if s.Exit != 0 {
		return outcome{s.Exit, false}
	}
	return outcome{exitSelf, true}
}

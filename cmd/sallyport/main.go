// Sallyport is an MCP tool server with a policy sandbox: its tools replace an
// agent's raw shell, and every call is judged, confirmed where needed, run
// inside walls and recorded.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the exit code that main hands on.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	return conclude(root, root.ExecuteContext(ctx))
}

// conclude says what went wrong, to a person or, with --json, as the one document
// on stdout, and gives the exit code.
func conclude(root *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var e *exit
	switch {
	case errors.As(err, &e):
		code, err = e.code, e.err
	case strings.HasPrefix(err.Error(), "unknown command"): // cobra has no type for it
		code = exitUsage
	}
	if err == nil { // the command has said it
		return code
	}
	if on, _ := root.PersistentFlags().GetBool("json"); on {
		_ = printJSON(root.OutOrStdout(), map[string]any{"error": err.Error(), "exit_code": code})
		return code
	}
	fmt.Fprintln(root.ErrOrStderr(), "sallyport:", err)
	return code
}

// The exit codes, as `sallyport help exit-codes` lists them.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitServed    = 3 // serve: another daemon has the log
	exitTampered  = 4
	exitTruncated = 5
	exitPartial   = 6
	exitPending   = 75  // EX_TEMPFAIL: a person has to decide first
	exitTimeout   = 124 // as timeout(1)
	exitSelf      = 125 // exec: sallyport itself failed, the command did not run
	exitDenied    = 126 // exec: policy denied the command
)

// exit is an error with an exit code of its own. A nil err prints nothing: the
// command has said it already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport",
		Short: "The guarded gate between AI agents and your machine",
		Long: `Sallyport is an MCP tool server with a policy sandbox. Its tools replace an agent's raw
shell: every call is judged by Rego policy, confirmed by a person where its tier asks for
it, run inside Linux walls, and recorded in a tamper-evident log.`,
		Example: `  sallyport install claude          # plug it into Claude Code in this folder
  sallyport exec -- go vet ./...    # one command through the same gate
  sallyport approvals list          # what waits for you
  sallyport audit verify            # is the record intact?`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exit{exitUsage, err} })
	root.PersistentFlags().Bool("json", false, "print one JSON document on stdout and nothing else")
	root.PersistentFlags().String("state", "", "folder of the log, approvals and sockets (default $XDG_STATE_HOME/sallyport)")
	root.AddCommand(
		newServe(), newMCP(), newExec(), newPolicy(), newApprovals(), newConsole(), newGrants(), newFreeze(), newLift(), newPreset(), newWhoami(), newToken(), newConformanceFixture(),
		newAudit(), newResume(), newDoctor(), newStatus(), newStop(), newInstall(), newUninstall(), newHook(), exitCodesHelp(),
	)
	markUsage(root)
	return root
}

// markUsage gives wrong arguments the exit code of wrong usage, in every command.
func markUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &exit{exitUsage, fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		markUsage(sub)
	}
}

func exitCodesHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes",
		Long: `Exit codes:
    0  done
    1  failed
    2  wrong usage
    3  serve: another daemon serves already
    4  audit verify: the log was tampered with
    5  audit verify: the log was truncated or rolled back
    6  audit verify: the log is incomplete
   75  a person has to approve first (repeat the command afterwards)
  124  exec: the command ran out of time
  125  exec: sallyport itself failed; the command did not run
  126  exec: policy denied the command
  other exec: the command's own exit code`,
	}
}

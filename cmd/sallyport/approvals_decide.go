package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// looked is what an id stands for as a person is shown it: one request, or what
// waits of a batch.
type looked struct {
	calls []approval.Request
	shown string
	json  any
}

// isBatchID tells the id of a batch from a request's.
func isBatchID(id string) bool { return strings.HasPrefix(strings.ToLower(id), "b-") }

func look(ctx context.Context, b *backend, id string) (looked, error) {
	if isBatchID(id) {
		var batch approval.Batched
		err := b.do(ctx, http.MethodGet, "/v1/batches/"+id, nil, &batch)
		return looked{batch.Calls, batch.Shown, batch}, err
	}
	var r approval.Request
	err := b.do(ctx, http.MethodGet, "/v1/approvals/"+id, nil, &r)
	return looked{[]approval.Request{r}, r.Shown, r}, err
}

// render writes all of it, and how to decide it.
func (l looked) render(w io.Writer, hints bool) error {
	say := painter(w)
	o := approval.RenderOptions{Color: bool(say), Now: time.Now()}
	if len(l.calls) == 1 && !l.batch() {
		o.Hints = hints
		return approval.Render(w, l.calls[0], o)
	}
	fmt.Fprintf(w, "%s: %d calls, one answer for all of them, each runs once\n", say.bold(l.calls[0].Batch), len(l.calls))
	for i, r := range l.calls {
		fmt.Fprintf(w, "\n%s\n", say.dim(fmt.Sprintf("── %d of %d ──────────", i+1, len(l.calls))))
		if err := approval.Render(w, r, o); err != nil {
			return err
		}
	}
	if hints {
		fmt.Fprintf(w, "\n%s\n  sallyport approvals approve %s\n  sallyport approvals deny %s WHAT TO DO INSTEAD\n", say.bold("Decide"), l.calls[0].Batch, l.calls[0].Batch)
	}
	return nil
}

func (l looked) batch() bool { _, ok := l.json.(approval.Batched); return ok }

func approvalsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show exactly what a request, or each call of a batch, would do", Args: cobra.ExactArgs(1),
		Example: "  sallyport approvals show k7f3qd",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			l, err := look(cmd.Context(), b, args[0])
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), l.json)
			}
			return l.render(cmd.OutOrStdout(), true)
		},
	}
}

// minSeen is how much of a digest --seen has to give, in hex characters.
const minSeen = 12

func approvalsApprove() *cobra.Command {
	var session, yes bool
	var seen string
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve a request or batch: the identical calls may run, each once", Args: cobra.ExactArgs(1),
		Long: `Show a request or batch whole and approve what was shown. On a terminal it asks first, unless --yes
is given. With --seen it approves only what has that digest ("shown" of show --json, of the
pending file, or of a webhook), and shows nothing.`,
		Example: `  sallyport approvals approve k7f3qd
  sallyport approvals approve k7f3qd --seen 3f2a91bc77d0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			l, err := look(cmd.Context(), b, args[0])
			if err != nil {
				return err
			}
			if err := confirmLook(cmd, l, seen, yes); err != nil {
				return err
			}
			return decide(cmd, b, args[0], "approve", verdictIn{Session: session, Shown: l.shown}, len(l.calls))
		},
	}
	cmd.Flags().BoolVar(&session, "session", false, "also grant the same tool and rules for the rest of the session (never L3)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask on a terminal")
	cmd.Flags().StringVar(&seen, "seen", "", "digest of what you have seen, 12 characters of it at least")
	return cmd
}

// confirmLook makes sure that the person has seen what is about to be approved: by
// its digest, or by being shown it now.
func confirmLook(cmd *cobra.Command, l looked, seen string, yes bool) error {
	if seen != "" {
		switch {
		case len(seen) < minSeen:
			return &exit{exitUsage, fmt.Errorf("--seen needs %d characters of the digest at least", minSeen)}
		case !strings.HasPrefix(l.shown, strings.ToLower(seen)):
			return errors.New("what waits is not what you have seen; look again with `sallyport approvals show`")
		}
		return nil
	}
	out := cmd.OutOrStdout()
	if wantsJSON(cmd) { // stdout is for the one document
		out = cmd.ErrOrStderr()
	}
	if err := l.render(out, false); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if yes || !onTerminal(cmd.InOrStdin()) || !onTerminal(cmd.OutOrStdout()) {
		return nil
	}
	question := "Approve it?"
	if highestOf(l.calls) >= policy.L3 {
		question = "This is L3. Approve it really?"
	}
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && line == "" || !strings.EqualFold(strings.TrimSpace(line), "y") {
		return errors.New("not approved")
	}
	return nil
}

// highestOf is the highest tier of some requests.
func highestOf(all []approval.Request) policy.Tier {
	highest := policy.L0
	for _, r := range all {
		highest = max(highest, r.Tier)
	}
	return highest
}

// onTerminal reports whether a person may be at the other end.
func onTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func approvalsDeny() *cobra.Command {
	return &cobra.Command{
		Use: "deny ID [ADVICE…]", Short: "Deny a request or batch; the advice reaches the agent", Args: cobra.MinimumNArgs(1),
		Example: "  sallyport approvals deny k7f3qd use a feature branch instead",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			return decide(cmd, b, args[0], "deny", verdictIn{Note: strings.Join(args[1:], " ")}, 1)
		},
	}
}

// decide sends a verdict on a request, or on a batch of so many calls.
func decide(cmd *cobra.Command, b *backend, id, how string, in verdictIn, calls int) error {
	var r approval.Request
	if err := b.do(cmd.Context(), http.MethodPost, "/v1/approvals/"+id+"/"+how, in, &r); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), r)
	}
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	name, what := r.ID, approval.Visible(oneLine(r.Summary, 80))
	if isBatchID(id) {
		name, what = r.Batch, "its calls"
	}
	if calls > 1 {
		what = fmt.Sprintf("%d calls", calls)
	}
	fmt.Fprintf(out, "%s %s: %s\n", name, say.verdict(string(r.State)), what)
	if r.State == approval.StateApproved {
		fmt.Fprintln(out, say.dim("the agent's identical call runs once, until "+r.Expires.Local().Format("15:04:05")))
	}
	return nil
}

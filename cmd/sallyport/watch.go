package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"sallyport/policy/approval"
	"sallyport/policy/approval/terminal"
)

func approvalsWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch", Short: "A full-screen view of what waits, with keys to decide", Args: cobra.NoArgs,
		Example: "  sallyport approvals watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			desk := remoteDesk{b}
			return terminal.Run(cmd.Context(), terminal.Options{
				Source: desk, Decider: desk, Suggest: desk.Suggest, Changed: desk.changed(cmd.Context()), Name: self().user, Input: cmd.InOrStdin(), Output: cmd.OutOrStdout(),
			})
		},
	}
}

// remoteDesk is the desk behind the control API.
type remoteDesk struct{ b *backend }

func (d remoteDesk) Requests(ctx context.Context) ([]approval.Request, error) {
	var list []approval.Request
	return list, d.b.do(ctx, http.MethodGet, "/v1/approvals", nil, &list)
}

func (d remoteDesk) Request(ctx context.Context, id string) (r approval.Request, err error) {
	return r, d.b.do(ctx, http.MethodGet, "/v1/approvals/"+id, nil, &r)
}

func (d remoteDesk) Approve(ctx context.Context, id string, o approval.ApproveOptions) (r approval.Request, err error) {
	in := verdictIn{Session: o.Scope == approval.Session, Note: o.Note, Shown: o.Shown}
	return r, d.b.do(ctx, http.MethodPost, "/v1/approvals/"+id+"/approve", in, &r)
}

func (d remoteDesk) Deny(ctx context.Context, id, advice, shown string) (r approval.Request, err error) {
	return r, d.b.do(ctx, http.MethodPost, "/v1/approvals/"+id+"/deny", verdictIn{Note: advice, Shown: shown}, &r)
}

// changed says whenever something at the desk changed, until ctx ends. Where there
// is no stream of events it stays silent.
func (d remoteDesk) changed(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		events, err := d.b.stream(ctx, http.MethodGet, "/v1/events", nil)
		if err != nil {
			return
		}
		defer events.Close()
		for in := bufio.NewReader(events); ; {
			if _, err := in.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			} else if err != nil {
				continue // the rest of a long line
			}
			select {
			case out <- struct{}{}:
			default: // it is about to look anyway
			}
		}
	}()
	return out
}

func (d remoteDesk) Suggest(ctx context.Context) ([]approval.Suggestion, error) {
	return suggestions(ctx, d.b)
}

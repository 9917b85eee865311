// Package terminal is the approvals desk as a full-screen terminal program: what
// waits on the left, all of one request on the right, and keys to decide.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"sallyport/policy/approval"
)

// Source is where requests are read. Requests gives those that wait, newest
// first and without their bulk; Request gives one whole.
type Source interface {
	Requests(ctx context.Context) ([]approval.Request, error)
	Request(ctx context.Context, id string) (approval.Request, error)
}

// Decider takes the person's answers. Who the person is, is the decider's to know.
type Decider interface {
	Approve(ctx context.Context, id string, o approval.ApproveOptions) (approval.Request, error)
	Deny(ctx context.Context, id, advice, shown string) (approval.Request, error)
}

// Options configure Run. Source and Decider are needed.
type Options struct {
	Source  Source
	Decider Decider
	// Suggest, when set, gives the answers that became a reflex; the view says so and
	// shows them on a key.
	Suggest func(ctx context.Context) ([]approval.Suggestion, error)
	// Changed wakes the view when something changed; nil or silent, the view looks
	// again every few seconds anyway.
	Changed <-chan struct{}
	Name    string           // of the person, shown in the corner
	Now     func() time.Time // nil: time.Now
	Input   io.Reader        // nil: the terminal
	Output  io.Writer        // nil: the terminal
}

// Run shows the desk until the person leaves with q or ctx ends.
func Run(ctx context.Context, o Options) error {
	if o.Source == nil || o.Decider == nil {
		return errors.New("show the approvals: a source and a decider are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	options := []tea.ProgramOption{tea.WithContext(ctx)}
	if o.Input != nil {
		options = append(options, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		options = append(options, tea.WithOutput(o.Output))
	}
	_, err := tea.NewProgram(newModel(ctx, o), options...).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("show the approvals: %w", err)
	}
	return nil
}

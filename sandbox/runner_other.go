//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Runner exists on this system to say why it runs nothing.
type Runner struct{}

// NewRunner gives a Runner that refuses every command.
func NewRunner(Options) (*Runner, error) { return &Runner{}, nil }

// Run refuses commands with KindWalls; file operations fail as Workspace does.
func (r *Runner) Run(ctx context.Context, a Action, t Terms) (Result, error) {
	var res Result
	start := time.Now()
	_, err := r.files(ctx, a, t, &res)
	if err == nil && a.Exec != nil {
		err = wallsError("run a command", r.why(), "run sallyport on Linux")
	}
	res.Took = time.Since(start)
	return res, err
}

func (r *Runner) why() error {
	return fmt.Errorf("%s has none of the walls: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Probe reports that there are no walls.
func (r *Runner) Probe(context.Context) Report {
	return Report{Problems: []Problem{{What: r.why().Error(), Remedy: "run sallyport on Linux"}}}
}

// Close has nothing to end.
func (r *Runner) Close() error { return nil }

package sandbox

import (
	"context"
	"fmt"
)

// files runs the Action's file operations in order.
func (r *Runner) files(ctx context.Context, a Action, t Terms, res *Result) error {
	if len(a.Files) == 0 {
		return nil
	}
	return fmt.Errorf("run file operations: the workspace is not linked in")
}

func changesOf(upper, lower string) ([]Change, error) { return nil, nil }

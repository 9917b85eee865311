package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"sallyport/sandbox/cell"
)

// Probe raises every wall for real around a program that does nothing and
// reports what stood, what is missing and how to get it.
func (r *Runner) Probe(ctx context.Context) Report {
	rep := Report{Toolchains: r.tools().dirs, Problems: []Problem{}, LandlockABI: cell.LandlockABI()}
	workspace, err := r.probeWorkspace()
	if err != nil {
		rep.Problems = append(rep.Problems, Problem{"make a workspace to probe in: " + err.Error(), "check the state folder's owner and free space"})
		return rep
	}
	defer os.RemoveAll(workspace)
	var res Result
	// The first run finds the rung; the second is what a cold start costs.
	for range 2 {
		start := time.Now()
		res = Result{}
		err = r.exec(ctx, workspace, Exec{Argv: []string{"true"}}, Terms{}, &res)
		rep.Spawn = time.Since(start)
	}
	rep.Walls, rep.Level = res.Walls, res.Level
	if err != nil {
		rep.Problems = append(rep.Problems, problemOf(err))
		if len(rep.Walls) == 0 {
			for _, name := range cell.Names() {
				rep.Walls = append(rep.Walls, Wall{Name: name, Reason: err.Error()})
			}
		}
	}
	for _, w := range rep.Walls {
		if !w.Up && err == nil {
			rep.Problems = append(rep.Problems, Problem{w.Name + ": " + w.Reason, r.remedyForWall(w)})
		}
	}
	return rep
}

func problemOf(err error) Problem {
	var typed *Error
	if errors.As(err, &typed) {
		return Problem{typed.Error(), typed.Remedy}
	}
	return Problem{err.Error(), "run the command again with the daemon's log at hand"}
}

func (r *Runner) probeWorkspace() (string, error) {
	dir, err := os.MkdirTemp("", "sallyport-doctor-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

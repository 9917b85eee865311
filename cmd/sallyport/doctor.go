package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sallyport/sandbox"
)

// checkup is what doctor found. Its JSON form is stable.
type checkup struct {
	Level      sandbox.Level     `json:"level"`
	Walls      []sandbox.Wall    `json:"walls"`
	Problems   []sandbox.Problem `json:"problems"`
	Toolchains []string          `json:"toolchains"`
	SpawnMS    float64           `json:"spawn_ms"`
	Landlock   int               `json:"landlock_abi"` // 0 without
}

// examine probes every wall for real.
func examine(ctx context.Context, r *sandbox.Runner, policyErr error) checkup {
	p := r.Probe(ctx)
	c := checkup{
		Level: p.Level, Walls: p.Walls, Problems: p.Problems, Toolchains: p.Toolchains,
		SpawnMS: float64(p.Spawn) / float64(time.Millisecond), Landlock: p.LandlockABI,
	}
	if policyErr != nil {
		c.Problems = append(c.Problems, sandbox.Problem{
			What:   "the last policy edit was refused, the one before it still decides: " + policyErr.Error(),
			Remedy: "mend it; `sallyport policy check` shows where",
		})
	}
	if c.Problems == nil {
		c.Problems = []sandbox.Problem{}
	}
	return c
}

func newDoctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Probe every wall on this machine, with a remedy for what is missing", Args: cobra.NoArgs,
		Example: "  sallyport doctor --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := checkUp(cmd)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), c)
			}
			printCheckup(cmd, c)
			return nil
		},
	}
}

// checkUp asks the daemon, or probes from this process where nobody serves.
func checkUp(cmd *cobra.Command) (checkup, error) {
	b, err := openBackend(cmd, needDaemon)
	if err == nil {
		defer b.close()
		var c checkup
		return c, b.do(cmd.Context(), http.MethodGet, "/v1/doctor", nil, &c)
	}
	if !errors.Is(err, errNobody) {
		return checkup{}, err
	}
	p, err := placeOf(cmd)
	if err != nil {
		return checkup{}, err
	}
	if err := p.make(); err != nil {
		return checkup{}, err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return checkup{}, err
	}
	r, err := sandbox.NewRunner(sandbox.Options{State: p.state, MinLevel: c.MinLevel, Warm: -1})
	if err != nil {
		return checkup{}, fmt.Errorf("prepare the sandbox: %w", err)
	}
	defer r.Close()
	_, policyErr := newJudges(cmd.Context(), p, c, nil)
	return examine(cmd.Context(), r, policyErr), nil
}

func printCheckup(cmd *cobra.Command, c checkup) {
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	fmt.Fprintf(out, "level: %s   a command starts in %.1f ms   Landlock ABI %d\n\n", say.verdict(string(c.Level)), c.SpawnMS, c.Landlock)
	for _, w := range c.Walls {
		mark := say.green("up  ")
		if !w.Up {
			mark = say.red("down")
		}
		fmt.Fprintf(out, "  %s  %-16s %s\n", mark, w.Name, say.dim(w.Reason))
	}
	if len(c.Toolchains) > 0 {
		fmt.Fprintln(out, "\ntoolchains commands can use:")
		for _, t := range slices.Sorted(slices.Values(c.Toolchains)) {
			fmt.Fprintln(out, "  "+t)
		}
	}
	if len(c.Problems) == 0 {
		fmt.Fprintln(out, "\n"+say.green("no problems"))
	}
	for _, p := range c.Problems {
		fmt.Fprintf(out, "\n%s\n  → %s\n", say.yellow(p.What), p.Remedy)
	}
}

func newStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether a daemon serves, and how it is", Args: cobra.NoArgs, Example: "  sallyport status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			s := status{State: p.state}
			b, err := openBackend(cmd, needDaemon)
			if err == nil {
				defer b.close()
				err = b.do(cmd.Context(), http.MethodGet, "/v1/status", nil, &s)
			}
			if err != nil && !errors.Is(err, errNobody) {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), s)
			}
			out := cmd.OutOrStdout()
			if !s.Serving {
				fmt.Fprintf(out, "no daemon serves %s; `sallyport mcp` starts one\n", s.State)
				return nil
			}
			fmt.Fprintf(out, "pid %d serves %s (version %s)\n%d sessions, %d requests wait for a person\npolicy %s\n",
				s.PID, s.State, s.Version, s.Sessions, s.Pending, s.Revision)
			if s.Frozen {
				fmt.Fprintln(out, "frozen: `sallyport lift` lets calls through again")
			}
			if s.Policy != "" {
				fmt.Fprintln(out, "the last policy edit was refused:", s.Policy)
			}
			return nil
		},
	}
}

func newStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop", Short: "End the daemon; the next agent starts a new one", Args: cobra.NoArgs, Example: "  sallyport stop",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDaemon)
			if errors.Is(err, errNobody) {
				fmt.Fprintln(cmd.OutOrStdout(), "no daemon serves")
				return nil
			}
			if err != nil {
				return err
			}
			defer b.close()
			var s status
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/stop", nil, &s); err != nil {
				return err
			}
			for range 1000 { // until its process is gone, 20 s at most
				if ended(s.PID) {
					fmt.Fprintln(cmd.OutOrStdout(), "stopped")
					return nil
				}
				time.Sleep(20 * time.Millisecond)
			}
			return errors.New("the daemon does not end: see its log in the state folder")
		},
	}
}

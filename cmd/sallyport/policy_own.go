package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/rego"
)

// layerName is the layer that a folder holds: a project's own, or the user's.
func layerName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && strings.HasSuffix(abs, "/"+projectDir) {
		return "project"
	}
	return "user"
}

func layerIn(dir string) rego.Layer { return rego.Layer{Name: layerName(dir), FS: os.DirFS(dir)} }

func policyInit() *cobra.Command {
	return &cobra.Command{
		Use: "init [DIR]", Short: "Write a layer of your own to edit, with a rule and its test", Args: cobra.MaximumNArgs(1),
		Long: `Write a policy layer to edit. Without DIR it is the user layer, which the daemon takes from then
on and follows: an edit counts within a second, after it compiled and its tests passed.`,
		Example: "  sallyport policy init\n  sallyport policy init .sallyport/policy    # for one project",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := layerDir(cmd, args)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make the layer: %w", err)
			}
			files, err := rego.Starter(layerName(dir))
			if err != nil {
				return err
			}
			for _, name := range sortedKeys(files) {
				path := filepath.Join(dir, name)
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
				if errors.Is(err, os.ErrExist) {
					fmt.Fprintln(cmd.OutOrStdout(), "kept   ", path)
					continue
				}
				if err == nil {
					_, err = f.WriteString(files[name])
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					return fmt.Errorf("write the layer: %w", err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), "written", path)
			}
			return nil
		},
	}
}

func policyScore() *cobra.Command {
	var list string
	cmd := &cobra.Command{
		Use: "score FILE.jsonl", Short: "Judge many commands and count; nothing runs", Args: cobra.ExactArgs(1),
		Long: `Judge every line of a file of JSON lines with a "cmd" (and, where you like, an "id") as a command that
run_command would run, and count tiers, verdicts and rules. Nothing runs.`,
		Example: "  sallyport policy score history.jsonl --json\n  sallyport policy score history.jsonl --list deny",
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := readLines(args[0])
			if err != nil {
				return err
			}
			j, err := localJudges(cmd)
			if err != nil {
				return err
			}
			root, err := workspace("")
			if err != nil {
				return err
			}
			var ids []string
			for _, r := range j.base.engine.Rules() {
				ids = append(ids, r.ID)
			}
			like := policy.Call{
				Agent: policy.Agent{Name: "cli", MaxTier: policy.L3}, Workspace: policy.Workspace{Root: root, Preset: "strict"}, Now: time.Now(),
			}
			s, err := j.base.gate.Score(cmd.Context(), like, lines, ids)
			if err != nil {
				return err
			}
			return printScore(cmd, s, list)
		},
	}
	cmd.Flags().StringVar(&list, "list", "", "also print the lines of this tier or verdict: L3, deny …")
	return cmd
}

func readLines(file string) ([]policy.Line, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the commands: %w", err)
	}
	defer f.Close()
	var lines []policy.Line
	in := bufio.NewScanner(f)
	in.Buffer(nil, 4<<20)
	for n := 1; in.Scan(); n++ {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		var l policy.Line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		lines = append(lines, l)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read the commands: %w", err)
	}
	return lines, nil
}

func printScore(cmd *cobra.Command, s policy.Score, list string) error {
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	var listed []policy.Judged
	for _, l := range s.Lines {
		if list != "" && (strings.EqualFold(l.Decision.Tier.String(), list) || strings.EqualFold(l.Decision.Verdict.String(), list)) {
			listed = append(listed, l)
		}
	}
	if wantsJSON(cmd) {
		if list == "" {
			return printJSON(out, s)
		}
		return printJSON(out, struct {
			policy.Score
			Lines []policy.Judged `json:"lines"`
		}{s, append([]policy.Judged{}, listed...)})
	}
	fmt.Fprintf(out, "%d commands\n", s.Total)
	share := func(n int) string { return fmt.Sprintf("%6d  %5.1f %%", n, 100*float64(n)/float64(max(1, s.Total))) }
	for _, t := range []string{"L0", "L1", "L2", "L3"} {
		fmt.Fprintf(out, "  %-6s %s\n", t, share(s.ByTier[t]))
	}
	for _, v := range []string{"allow", "ask", "deny"} {
		fmt.Fprintf(out, "  %-6s %s\n", v, share(s.ByVerdict[v]))
	}
	fmt.Fprintln(out, "rules that fired:")
	for _, id := range sortedKeys(s.ByRule) {
		fmt.Fprintf(out, "  %6d  %s\n", s.ByRule[id], id)
	}
	fmt.Fprintf(out, "never fired: %s\n", strings.Join(s.NeverFired, " "))
	for _, l := range s.Slowest {
		fmt.Fprintf(out, "slow: %s  %s\n", l.Took, say.dim(oneLine(l.Cmd, 80)))
	}
	for _, l := range listed {
		rule := ""
		if len(l.Decision.Rules) > 0 {
			rule = l.Decision.Rules[0].ID
		}
		fmt.Fprintf(out, "%s  %s  %s  %s\n", l.ID, l.Decision.Tier, rule, oneLine(l.Cmd, 160))
	}
	return nil
}

func policyStats() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use: "stats", Short: "Count from the record how often each rule fired, denied, asked and was approved", Args: cobra.NoArgs,
		Long: `Count from the record how often each rule fired and what came of it. A rule that is always alone and
always approved is a noisy one: see relax in docs/policy.md.`,
		Example: "  sallyport policy stats --since 168h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := audit.Filter{}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			var all []policy.Recorded
			err := eachRecord(cmd, f, func(r audit.Record) {
				var d policy.Decision
				if r.Kind != audit.KindOutcome && json.Unmarshal(r.Decision, &d) == nil {
					all = append(all, policy.Recorded{Decision: d, Approved: r.Person != ""})
				}
			})
			if err != nil {
				return err
			}
			stats := policy.Stats(slices.Values(all))
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), append([]policy.RuleStat{}, stats...))
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%6s %6s %6s %8s %6s  rule\n", "fired", "denied", "asked", "approved", "alone")
			for _, s := range stats {
				fmt.Fprintf(out, "%6d %6d %6d %8d %6d  %s\n", s.Fired, s.Denied, s.Asked, s.Approved, s.Alone, s.ID)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "only the last while, such as 168h")
	return cmd
}

func policyAccept() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "accept", Short: "Let a project's own policy count, after you have read it", Args: cobra.NoArgs,
		Long: `A project may tighten the policy in ` + projectDir + `. An agent can write there too, so it counts only
once a person has accepted its digest, and again after each change.`,
		Example: "  sallyport policy accept",
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			if root, err = filepath.EvalSymlinks(root); err != nil {
				return fmt.Errorf("open the project: %w", err)
			}
			if !isDir(filepath.Join(root, projectDir)) {
				return fmt.Errorf("%s has no %s", root, projectDir)
			}
			j, err := localJudges(cmd)
			if err != nil {
				return err
			}
			digest := ""
			layer := j.projectLayer(root)
			layer.Accepted = func(d string) bool { digest = d; return true }
			if _, err := rego.Load(cmd.Context(), rego.Options{Layers: append(j.layers, layer)}); err != nil {
				return err
			}
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			if err := p.make(); err != nil {
				return err
			}
			if err := j.accepted.add(root, digest); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]string{"workspace": root, "digest": digest})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "accepted %s\nfor %s\n", digest, root)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "project folder (default: the current one)")
	return cmd
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/mcpserver"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/rego"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Ask, test and own the rules",
		Example: `  sallyport policy eval -- 'git push --force origin main'
  sallyport policy init                # a layer of your own to edit
  sallyport policy test                # its tests, with coverage`,
	}
	cmd.AddCommand(policyEval(), policyExplain(), policyRules(), policyInit(), policyCheck(), policyTest(), policyDiff(), policyScore(), policyStats(), policyAccept())
	return cmd
}

// evalIn asks what policy says of a command.
type evalIn struct {
	Text      string   `json:"text,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Workspace string   `json:"workspace"`
	Write     bool     `json:"write,omitempty"`
}

// eval is a decision as `policy eval` prints it.
func (j *judges) eval(ctx context.Context, in evalIn) (*mcpserver.Judged, error) {
	c, err := evalCall(in)
	if err != nil {
		return nil, err
	}
	d, _ := j.Admit(ctx, c)
	return mcpserver.Judge(d), nil
}

// explain is the long form of eval.
func (j *judges) explain(ctx context.Context, in evalIn) (*rego.Explanation, error) {
	c, err := evalCall(in)
	if err != nil {
		return nil, err
	}
	one, err := j.of(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	_, facts := one.gate.Admit(ctx, c)
	x, err := one.engine.Explain(ctx, c, facts)
	return &x, err
}

// callID is the form of a call's id.
var callID = regexp.MustCompile(`^[a-z2-7]{16}$`)

// explainRecorded explains a call of the record by the policy of today; nil when
// the arguments name none.
func explainRecorded(cmd *cobra.Command, j *judges, args []string) (x *rego.Explanation, err error) {
	if len(args) != 1 || !callID.MatchString(args[0]) {
		return nil, nil
	}
	found := false
	err = eachRecord(cmd, audit.Filter{Call: args[0]}, func(r audit.Record) {
		if r.Decision == nil || x != nil || r.Facts == nil {
			return
		}
		found = true
		if c, f, ok := recorded(r); ok {
			out, _ := j.base.engine.Explain(cmd.Context(), c, f)
			x = &out
		}
	})
	if err == nil && found && x == nil {
		err = fmt.Errorf("call %s cannot be judged again: a fact of it was redacted", args[0])
	}
	return x, err
}

// evalCall is the call that a run_command with this text would be.
func evalCall(in evalIn) (policy.Call, error) {
	args := map[string]any{}
	if in.Text != "" {
		args["command"] = in.Text
	} else {
		args["argv"] = in.Argv
	}
	if in.Write {
		args["write"] = true
	}
	return mcpserver.Plan("run_command", asJSON(args), in.Workspace)
}

// evalFlags are the flags of commands that judge a command.
func evalFlags(cmd *cobra.Command) func(args []string) (evalIn, error) {
	var dir string
	var write bool
	cmd.Flags().StringVar(&dir, "workspace", "", "folder the command would run in (default: the current one)")
	cmd.Flags().BoolVar(&write, "write", false, "as if the command asked to change the workspace")
	return func(args []string) (evalIn, error) {
		root, err := workspace(dir)
		in := evalIn{Workspace: root, Write: write, Argv: args}
		if len(args) == 1 {
			in.Text, in.Argv = args[0], nil
		}
		return in, err
	}
}

func policyEval() *cobra.Command {
	cmd := &cobra.Command{
		Use: "eval [flags] -- 'TEXT'", Short: "Say what policy decides on a command; nothing runs",
		Long: `Say what policy decides on a command, as shell text (one argument) or as an argument vector
(several). Nothing runs. A daemon that serves answers with the policy it has loaded.`,
		Example: "  sallyport policy eval --json -- 'rm -rf /'",
		Args:    cobra.MinimumNArgs(1),
	}
	input := evalFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in, err := input(args)
		if err != nil {
			return err
		}
		var out mcpserver.Judged
		err = ask(cmd, "/v1/policy/eval", in, &out, func(j *judges) error {
			d, err := j.eval(cmd.Context(), in)
			if err == nil {
				out = *d
			}
			return err
		})
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), out)
		}
		printJudged(cmd.OutOrStdout(), &out)
		return nil
	}
	return cmd
}

// ask asks the daemon where one serves, else the configured policy in this
// process.
func ask(cmd *cobra.Command, path string, in, out any, local func(*judges) error) error {
	b, err := openBackend(cmd, needDaemon)
	if err == nil {
		defer b.close()
		return b.do(cmd.Context(), http.MethodPost, path, in, out)
	}
	if !errors.Is(err, errNobody) {
		return err
	}
	j, err := localJudges(cmd)
	if err != nil {
		return err
	}
	return local(j)
}

// localJudges loads the configured policy in this process.
func localJudges(cmd *cobra.Command) (*judges, error) {
	p, err := placeOf(cmd)
	if err != nil {
		return nil, err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return nil, err
	}
	return newJudges(cmd.Context(), p, c, nil)
}

func printJudged(w io.Writer, j *mcpserver.Judged) {
	say := painter(w)
	fmt.Fprintf(w, "%s %s\n", say.bold(j.Tier.String()), say.verdict(j.Verdict.String()))
	for _, r := range j.Rules {
		fmt.Fprintf(w, "  %s %s  %s\n", r.Tier, say.bold(r.ID), approval.Visible(r.Reason))
		if r.Cmd != "" {
			fmt.Fprintf(w, "     %s\n", say.dim(approval.Visible(r.Cmd)))
		}
		if r.Remedy != "" && r.Verdict != policy.Allow {
			fmt.Fprintf(w, "     %s\n", say.dim("→ "+r.Remedy))
		}
	}
	for _, r := range j.Shadow {
		fmt.Fprintf(w, "  on trial: %s %s would have said %s: %s\n", r.Tier, r.ID, r.Verdict, approval.Visible(r.Reason))
	}
	fmt.Fprintln(w, say.dim("policy "+j.Revision))
}

func policyExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain RULE | CALL | [flags] -- 'TEXT'", Short: "Say what a rule does, or which facts made the rules fire on a command or a recorded call",
		Example: "  sallyport policy explain git.push\n  sallyport policy explain y6f3k2qwmz7a5tbc    # a call's id, as audit show has it\n  sallyport policy explain -- 'curl https://example.test | sh'",
		Args:    cobra.MinimumNArgs(1),
	}
	input := evalFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := localJudges(cmd)
		if err != nil {
			return err
		}
		if r, ok := j.base.engine.Rule(args[0]); ok && len(args) == 1 {
			return printRules(cmd, []rego.RuleInfo{r})
		}
		x, err := explainRecorded(cmd, j, args)
		if x == nil && err == nil {
			var in evalIn
			if in, err = input(args); err != nil {
				return err
			}
			x, err = j.explain(cmd.Context(), in)
		}
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), x)
		}
		out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
		fmt.Fprintf(out, "%s %s\n", say.bold(x.Decision.Tier.String()), say.verdict(x.Decision.Verdict.String()))
		for _, r := range x.Rules {
			fmt.Fprintf(out, "\n%s %s  %s\n", r.Tier, say.bold(r.ID), r.Title)
			fmt.Fprintf(out, "   %s\n   %s\n", approval.Visible(r.Reason), say.dim(r.File))
			for _, name := range sortedKeys(r.Facts) {
				fmt.Fprintf(out, "   %s = %s\n", name, approval.Visible(oneLine(string(asJSON(r.Facts[name])), 120)))
			}
			fmt.Fprintf(out, "   without it: %s\n", r.Without)
		}
		return nil
	}
	return cmd
}

func policyRules() *cobra.Command {
	return &cobra.Command{
		Use: "rules", Short: "List the rules in force", Args: cobra.NoArgs, Example: "  sallyport policy rules --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := localJudges(cmd)
			if err != nil {
				return err
			}
			return printRules(cmd, j.base.engine.Rules())
		},
	}
}

func printRules(cmd *cobra.Command, rules []rego.RuleInfo) error {
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), rules)
	}
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	for _, r := range rules {
		fmt.Fprintf(out, "%s %-5s %s  %s\n      %s\n", r.Tier, say.verdict(r.Verdict.String()), say.bold(r.ID), r.Title, say.dim(r.Reason))
		if len(rules) == 1 {
			fmt.Fprintf(out, "      → %s\n      %s\n      reads %v\n", r.Remedy, r.File, r.Reads)
		}
	}
	return nil
}

// layerDir is the layer a command works on: its argument, else the user layer.
func layerDir(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	p, err := placeOf(cmd)
	if err != nil {
		return "", err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return "", err
	}
	if c.Policy.User != "" {
		return c.Policy.User, nil
	}
	return p.config + "/policy", nil
}

func policyCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [DIR]", Short: "Compile a layer and check it against the input schema and the invariants", Args: cobra.MaximumNArgs(1),
		Example: "  sallyport policy check ./policy",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := layerDir(cmd, args)
			if err != nil {
				return err
			}
			if !isDir(dir) {
				return fmt.Errorf("check %s: no such folder; `sallyport policy init` makes one", dir)
			}
			if err := rego.Check(cmd.Context(), layerIn(dir)); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{"ok": true, "dir": dir})
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir+": ok")
			return nil
		},
	}
}

func policyTest() *cobra.Command {
	var threshold float64
	cmd := &cobra.Command{
		Use: "test [DIR]", Short: "Run a layer's tests, with coverage; without a layer, the built-in ones", Args: cobra.MaximumNArgs(1),
		Example: "  sallyport policy test ./policy --threshold 90",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := layerDir(cmd, args)
			if err != nil {
				return err
			}
			var layers []rego.Layer
			if isDir(dir) {
				layers = append(layers, layerIn(dir))
			} else if len(args) == 1 {
				return fmt.Errorf("test %s: no such folder", dir)
			}
			r, err := rego.Test(cmd.Context(), layers...)
			if err != nil {
				return err
			}
			enough := r.Coverage >= threshold
			if wantsJSON(cmd) {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				printTests(cmd.OutOrStdout(), r, threshold)
			}
			if err == nil && (!r.OK() || !enough) {
				err = &exit{exitFailed, nil}
			}
			return err
		},
	}
	cmd.Flags().Float64Var(&threshold, "threshold", 85, "least coverage in percent")
	return cmd
}

func printTests(w io.Writer, r rego.TestReport, threshold float64) {
	say := painter(w)
	for _, f := range r.Failed {
		fmt.Fprintf(w, "%s %s\n     %s\n     %s\n", say.red("FAIL"), f.Name, f.At, f.Reason)
	}
	fmt.Fprintf(w, "%d passed, %d failed, coverage %.1f %%\n", r.Passed, len(r.Failed), r.Coverage)
	if r.Coverage < threshold {
		fmt.Fprintf(w, "%s: below the threshold of %.0f %%; no test makes these fire: %v\n", say.red("FAIL"), threshold, r.Uncovered)
	}
}

func policyDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff A B", Short: "Compare two layers rule by rule", Args: cobra.ExactArgs(2), Example: "  sallyport policy diff ./old ./new",
		RunE: func(cmd *cobra.Command, args []string) error {
			var engines [2]*rego.Engine
			for i, dir := range args {
				if !isDir(dir) {
					return fmt.Errorf("compare %s: no such folder", dir)
				}
				e, err := rego.Load(cmd.Context(), rego.Options{Layers: []rego.Layer{layerIn(dir)}, SkipTests: true})
				if err != nil {
					return err
				}
				engines[i] = e
			}
			list := rego.Diff(engines[0], engines[1])
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), append([]rego.Difference{}, list...))
			}
			for _, d := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%-9s %s  %s → %s\n", d.Change, d.ID, d.Before, d.After)
			}
			if len(list) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no difference")
			}
			return nil
		},
	}
}

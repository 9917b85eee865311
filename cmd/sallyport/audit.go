package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy/approval"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Read and verify the record",
		Example: `  sallyport audit list --tier L3 --since 24h
  sallyport audit show 41
  sallyport audit verify`,
	}
	cmd.AddCommand(
		auditList(), auditShow(), auditBlame(), auditTail(), auditStats(), auditVerify(), auditProve(), auditReplay(), auditExport(),
		auditBackup(), auditRetire(), auditCompact(), auditHold(), auditHash(), auditUnseal(),
	)
	return cmd
}

func auditList() *cobra.Command {
	var f audit.Filter
	var since time.Duration
	var kind, status string
	cmd := &cobra.Command{
		Use: "list", Short: "List records, oldest first", Args: cobra.NoArgs,
		Example: "  sallyport audit list --tool run_command --verdict deny\n  sallyport audit list --path .github --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Kind, f.Status = audit.Kind(kind), audit.Status(status)
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			asDocument := wantsJSON(cmd)
			out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
			records := []audit.Record{}
			err := eachRecord(cmd, f, func(r audit.Record) {
				if asDocument {
					records = append(records, r)
				} else {
					fmt.Fprintln(out, recordLine(say, r))
				}
			})
			if err != nil || !asDocument {
				return err
			}
			return printJSON(out, records)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Session, "session", "", "only this session")
	fl.StringVar(&f.Agent, "agent", "", "only this agent")
	fl.StringVar(&f.Tool, "tool", "", "only this tool")
	fl.StringVar(&f.Tier, "tier", "", "only this tier: L0 … L3")
	fl.StringVar(&f.Verdict, "verdict", "", "only this verdict: allow, ask, deny")
	fl.StringVar(&f.Rule, "rule", "", "only where this rule fired")
	fl.StringVar(&f.Path, "path", "", "only calls that name this file or something beneath this folder")
	fl.StringVar(&f.Text, "text", "", "only records that hold this text")
	fl.StringVar(&f.Call, "call", "", "only this call")
	fl.StringVar(&kind, "kind", "", "only this kind: call, intent, outcome, event")
	fl.StringVar(&status, "status", "", "only this status: ok, failed, denied, pending …")
	fl.DurationVar(&since, "since", 0, "only the last while, such as 24h")
	fl.IntVar(&f.Limit, "limit", 0, "at most so many")
	fl.BoolVar(&f.Newest, "newest", false, "newest first")
	return cmd
}

// eachRecord hands the records that a filter chooses to do, in order.
func eachRecord(cmd *cobra.Command, f audit.Filter, do func(audit.Record)) error {
	b, err := openBackend(cmd, needLog)
	if err != nil {
		return err
	}
	defer b.close()
	return b.records(cmd.Context(), f, do)
}

// decodeRecords reads a stream of records to its end.
func decodeRecords(body io.Reader, do func(audit.Record)) error {
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the records: %w", err)
		}
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read a record: %w", err)
		}
		if r.Version == 0 { // the stream ends with what went wrong
			return errors.New(r.Error)
		}
		do(r)
	}
}

// recordLine is one record on one line.
func recordLine(say paint, r audit.Record) string {
	head := fmt.Sprintf("%6d  %s  %-7s", r.Seq, r.Time.Local().Format("2006-01-02 15:04:05"), r.Kind)
	if r.Kind == audit.KindEvent {
		return head + "  " + r.Event + say.dim("  "+r.Person)
	}
	what := r.Tool
	if r.Tier != "" {
		what = r.Tier + "  " + what
	}
	line := head + "  " + what
	if r.Status != "" {
		line += "  " + say.verdict(string(r.Status))
	}
	if r.Exit != nil && *r.Exit != 0 {
		line += fmt.Sprintf(" (exit %d)", *r.Exit)
	}
	if d := detail(r); d != "" {
		line += "  " + say.dim(approval.Visible(oneLine(d, 90)))
	}
	return line
}

// detail is what a call was about: its command or path.
func detail(r audit.Record) string {
	var a struct {
		Command string   `json:"command"`
		Argv    []string `json:"argv"`
		Path    string   `json:"path"`
		Pattern string   `json:"pattern"`
		Message string   `json:"message"`
	}
	_ = json.Unmarshal(r.Args, &a)
	switch {
	case a.Command != "":
		return a.Command
	case len(a.Argv) > 0:
		return approval.Quote(a.Argv)
	case a.Pattern != "":
		return a.Pattern + " " + a.Path
	case a.Path != "":
		return a.Path
	}
	return a.Message
}

func auditShow() *cobra.Command {
	return &cobra.Command{
		Use: "show N", Short: "Show one record whole", Args: cobra.ExactArgs(1), Example: "  sallyport audit show 41",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			var r audit.Record
			if err := b.do(cmd.Context(), http.MethodGet, "/v1/audit/records/"+args[0], nil, &r); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), r)
		},
	}
}

func auditVerify() *cobra.Command {
	var anchor string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that no record was changed, removed or cut off", Args: cobra.NoArgs,
		Long: `Check every record against the signed Merkle tree. "ok" means intact and confirmed by an anchor
outside the log; "ok_not_anchored" means intact, but a rollback of the whole folder after the
last anchored record could not be seen. Exit code 0 for both, 4 tampered, 5 truncated, 6 incomplete.`,
		Example: "  sallyport audit verify --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if anchor != "" {
				abs, err := filepath.Abs(anchor)
				if err != nil {
					return err
				}
				anchor = abs
			}
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			var r audit.Report
			if err := b.do(cmd.Context(), http.MethodGet, "/v1/audit/verify"+query("anchor", anchor), nil, &r); err != nil {
				return err
			}
			code := map[audit.VerifyStatus]int{audit.VerifyTampered: exitTampered, audit.VerifyTruncated: exitTruncated, audit.VerifyIncomplete: exitPartial}[r.Status]
			if wantsJSON(cmd) {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				printReport(cmd, r)
			}
			if err == nil && code != 0 {
				err = &exit{code, nil}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&anchor, "anchor", "", "file with signed checkpoints kept outside the log (an anchor file, the text of a system log, of journalctl -o cat or of git log -p), beside the configured anchors")
	return cmd
}

func printReport(cmd *cobra.Command, r audit.Report) {
	out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
	switch r.Status {
	case audit.VerifyOK:
		fmt.Fprintf(out, "%s: %d records, root %s\n", say.green("OK"), r.Records, r.Root)
	case audit.VerifyNotAnchored:
		fmt.Fprintf(out, "%s: %d records, root %s\n", say.green("OK"), r.Records, r.Root)
		since := "not anchored"
		if r.AnchoredThrough >= 0 {
			since = fmt.Sprintf("not anchored after record %d", r.AnchoredThrough)
		}
		fmt.Fprintln(out, say.dim(since+": set anchor_file or audit.anchors (docs/config.md) so that a rollback of the whole folder shows too"))
	default:
		fmt.Fprintf(out, "%s: %d records\n", say.red(string(r.Status)), r.Records)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(out, "  %s\n    %s\n", p.What, say.dim(p.Remedy))
	}
}

func auditHash() *cobra.Command {
	return &cobra.Command{
		Use: "hash VALUE", Short: "Show how a value appears in the record, to find it there", Args: cobra.ExactArgs(1),
		Example: "  sallyport audit hash \"$TOKEN\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			var out map[string]string
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/audit/hash", map[string]string{"Value": args[0]}, &out); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), out)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "redacted as  %s\ndigest       %s\n", out["redacted_as"], out["digest"])
			return nil
		},
	}
}

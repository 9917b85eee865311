package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/audit/push"
	"sallyport/policy/approval"
)

// The routes of the log beyond list, show and verify.

func moreLogRoutes(m *http.ServeMux, log *audit.Reader) {
	m.HandleFunc("POST /v1/audit/export/{format}", func(w http.ResponseWriter, r *http.Request) {
		var f audit.Filter
		if !read(w, r, &f) {
			return
		}
		format := audit.Format(r.PathValue("format"))
		if !slices.Contains(exportFormats, string(format)) {
			answer(w, nil, fmt.Errorf("no export format is called %q: use one of %v", format, exportFormats))
			return
		}
		if err := log.Export(r.Context(), w, format, f); err != nil {
			panic(http.ErrAbortHandler) // half an export must not look whole
		}
	})
	m.HandleFunc("GET /v1/audit/sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		steps, err := log.Session(r.Context(), r.PathValue("id"))
		answer(w, steps, err)
	})
	m.HandleFunc("GET /v1/audit/prove/{seq}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			answer(w, nil, fmt.Errorf("%q is not the number of a record", r.PathValue("seq")))
			return
		}
		proof, err := log.Prove(audit.Seq(n))
		answer(w, proof, err)
	})
	m.HandleFunc("GET /v1/audit/sealed/{seq}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			answer(w, nil, fmt.Errorf("%q is not the number of a record", r.PathValue("seq")))
			return
		}
		sealed, err := log.SealedArgs(audit.Seq(n))
		answer(w, map[string][]byte{"sealed": sealed}, err)
	})
	m.HandleFunc("POST /v1/audit/backup", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ To string }
		if read(w, r, &in) {
			answer(w, in, log.Backup(r.Context(), in.To, false))
		}
	})
	m.HandleFunc("GET /v1/audit/holds", func(w http.ResponseWriter, _ *http.Request) {
		holds, err := log.Holds()
		answer(w, append([]audit.Hold{}, holds...), err)
	})
}

// liveLogRoutes need the writable log.
func liveLogRoutes(m *http.ServeMux, log *audit.Log) {
	m.HandleFunc("GET /v1/audit/tail", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		e, out := plainJSON(w), http.NewResponseController(w)
		from, _ := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
		_ = log.Tail(r.Context(), audit.Seq(from), func(rec audit.Record) bool { return e.Encode(rec) == nil && out.Flush() == nil })
	})
	m.HandleFunc("POST /v1/audit/retire", func(w http.ResponseWriter, r *http.Request) {
		n, err := log.Retire(r.Context())
		answer(w, map[string]int{"segments": n}, err)
	})
	m.HandleFunc("POST /v1/audit/compact", func(w http.ResponseWriter, r *http.Request) {
		done, err := log.Compact(r.Context())
		answer(w, done, err)
	})
	m.HandleFunc("POST /v1/audit/holds", func(w http.ResponseWriter, r *http.Request) {
		var h audit.Hold
		if read(w, r, &h) {
			h.Person = personOf(r).String()
			answer(w, h, log.Hold(r.Context(), h))
		}
	})
	m.HandleFunc("DELETE /v1/audit/holds/{name}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]string{"lifted": r.PathValue("name")}, log.Lift(r.Context(), r.PathValue("name"), personOf(r).String()))
	})
}

var exportFormats = []string{string(audit.FormatJSONL), string(audit.FormatCSV), string(audit.FormatOCSF), string(audit.FormatTrace)}

func auditTail() *cobra.Command {
	return &cobra.Command{
		Use: "tail", Short: "Follow the record as it grows", Args: cobra.NoArgs, Example: "  sallyport audit tail",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDaemon)
			if err != nil {
				return err
			}
			defer b.close()
			var newest uint64
			if err := b.records(cmd.Context(), audit.Filter{Newest: true, Limit: 10}, func(r audit.Record) { newest = uint64(r.Seq) }); err != nil {
				return err
			}
			body, err := b.stream(cmd.Context(), http.MethodGet, "/v1/audit/tail?from="+strconv.FormatUint(newest, 10), nil)
			if err != nil {
				return err
			}
			defer body.Close()
			out, say := cmd.OutOrStdout(), painter(cmd.OutOrStdout())
			err = decodeRecords(body, func(r audit.Record) {
				if wantsJSON(cmd) {
					_ = json.NewEncoder(out).Encode(r)
				} else {
					fmt.Fprintln(out, recordLine(say, r))
				}
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
}

func auditExport() *cobra.Command {
	var f audit.Filter
	var format, file string
	var since time.Duration
	cmd := &cobra.Command{
		Use: "export", Short: "Write records for other systems", Args: cobra.NoArgs,
		Long: `Write records as JSON lines with proofs (jsonl, verifiable offline), OCSF 1.8 API Activity (ocsf), one
document of sessions and steps (trace), or a table (csv). What was redacted stays redacted.`,
		Example: "  sallyport audit export --format ocsf --since 24h >events.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			body, err := b.stream(cmd.Context(), http.MethodPost, "/v1/audit/export/"+format, f)
			if err != nil {
				return err
			}
			defer body.Close()
			return copyTo(cmd.OutOrStdout(), file, body)
		},
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, ocsf, trace or csv")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write instead of stdout; whole or not at all")
	cmd.Flags().StringVar(&f.Session, "session", "", "only this session")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "only this agent")
	cmd.Flags().StringVar(&f.Tool, "tool", "", "only this tool")
	cmd.Flags().DurationVar(&since, "since", 0, "only the last while, such as 24h")
	return cmd
}

// copyTo copies a stream to out or, where a file is named, to that: whole or not
// at all.
func copyTo(out io.Writer, file string, in io.Reader) error {
	if file == "" {
		_, err := io.Copy(out, in)
		return err
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the export: %w", err), os.Remove(part))
	}
	return nil
}

func auditProve() *cobra.Command {
	return &cobra.Command{
		Use: "prove N", Short: "Print a proof that a record is in the log, for a third party to check", Args: cobra.ExactArgs(1),
		Example: "  sallyport audit prove 41 >proof.json    # docs/audit-verify checks it without sallyport",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			var p audit.Proof
			if err := b.do(cmd.Context(), http.MethodGet, "/v1/audit/prove/"+args[0], nil, &p); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), p)
		},
	}
}

// auditStats is what `audit stats` counts.
type auditStatistics struct {
	Records   int            `json:"records"`
	Sessions  map[string]int `json:"sessions"` // calls of each
	ByTool    map[string]int `json:"by_tool"`
	ByTier    map[string]int `json:"by_tier"`
	ByStatus  map[string]int `json:"by_status"`
	ByRule    map[string]int `json:"by_rule"` // of calls that were not simply allowed
	Approvals map[string]int `json:"approvals"`
	Push      []push.Status  `json:"push"` // how the systems stand that records are pushed to
}

func auditStats() *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Count calls by session, tool, tier, status and rule", Args: cobra.NoArgs, Example: "  sallyport audit stats --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := auditStatistics{
				Sessions: map[string]int{}, ByTool: map[string]int{}, ByTier: map[string]int{}, ByStatus: map[string]int{},
				ByRule: map[string]int{}, Approvals: map[string]int{},
			}
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			if err := b.records(cmd.Context(), audit.Filter{}, s.count); err != nil {
				return err
			}
			if err := b.do(cmd.Context(), http.MethodGet, "/v1/audit/push", nil, &s.Push); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), s)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%d records\n", s.Records)
			for _, t := range []struct {
				title string
				m     map[string]int
			}{{"sessions", s.Sessions}, {"tools", s.ByTool}, {"tiers", s.ByTier}, {"ended", s.ByStatus}, {"rules that asked or denied", s.ByRule}, {"approvals", s.Approvals}} {
				fmt.Fprintln(out, t.title)
				for _, k := range sortedKeys(t.m) {
					fmt.Fprintf(out, "  %6d  %s\n", t.m[k], approval.Visible(k))
				}
			}
			printPush(out, s.Push)
			return nil
		},
	}
}

func (s *auditStatistics) count(r audit.Record) {
	s.Records++
	switch r.Kind {
	case audit.KindEvent:
		s.Approvals[r.Event]++
		return
	case audit.KindIntent: // its outcome counts
		return
	}
	s.Sessions[r.Session]++
	s.ByTool[r.Tool]++
	s.ByTier[r.Tier]++
	s.ByStatus[string(r.Status)]++
	if r.Verdict == "ask" || r.Verdict == "deny" {
		for _, id := range r.Rules {
			s.ByRule[id]++
		}
	}
}

func auditBackup() *cobra.Command {
	return &cobra.Command{
		Use: "backup DIR", Short: "Copy the log, as it is at one moment, while it goes on", Args: cobra.ExactArgs(1),
		Example: "  sallyport audit backup /mnt/backup/audit-today",
		RunE: func(cmd *cobra.Command, args []string) error {
			return postAudit(cmd, needLog, "/v1/audit/backup", map[string]string{"To": absPath(args[0])}, "copied to "+args[0])
		},
	}
}

func auditRetire() *cobra.Command {
	return &cobra.Command{
		Use: "retire", Short: "Remove segments older than the retention, leaving a signed tombstone of each", Args: cobra.NoArgs,
		Example: "  sallyport audit retire",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return postAudit(cmd, needDaemon, "/v1/audit/retire", nil, "done; legal holds and newer segments stay")
		},
	}
}

func auditCompact() *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Make the files of full segments smaller; no record changes", Args: cobra.NoArgs,
		Long: `Give back what bbolt keeps free in full segments. The log does this by itself whenever a segment is
full; the command is for those that were full before it did. Each new file is compared with the old
one entry by entry, its digest is recorded, and only then does it take the old one's place.`,
		Example: "  sallyport audit compact --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDaemon)
			if err != nil {
				return err
			}
			defer b.close()
			var c audit.Compaction
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/audit/compact", nil, &c); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), c)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d segments became smaller: %d bytes, and %d before\n", c.Segments, c.After, c.Before)
			return nil
		},
	}
}

func auditHold() *cobra.Command {
	var reason string
	var since time.Duration
	cmd := &cobra.Command{
		Use: "hold NAME", Short: "Keep records from being retired, for an investigation", Args: cobra.ExactArgs(1),
		Example: "  sallyport audit hold case-17 --since 720h --reason 'incident of Tuesday'",
		RunE: func(cmd *cobra.Command, args []string) error {
			h := audit.Hold{Name: args[0], Reason: reason}
			if since > 0 {
				h.Since = time.Now().Add(-since)
			}
			return postAudit(cmd, needDaemon, "/v1/audit/holds", h, "held: "+args[0])
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().DurationVar(&since, "since", 0, "only records of the last while (default: all)")
	cmd.AddCommand(&cobra.Command{
		Use: "lift NAME", Short: "End a legal hold", Args: cobra.ExactArgs(1), Example: "  sallyport audit hold lift case-17",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needDaemon)
			if err != nil {
				return err
			}
			defer b.close()
			return b.do(cmd.Context(), http.MethodDelete, "/v1/audit/holds/"+args[0], nil, nil)
		},
	})
	return cmd
}

func postAudit(cmd *cobra.Command, n need, path string, in any, done string) error {
	b, err := openBackend(cmd, n)
	if err != nil {
		return err
	}
	defer b.close()
	var out json.RawMessage
	if err := b.do(cmd.Context(), http.MethodPost, path, in, &out); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), out)
	}
	fmt.Fprintln(cmd.OutOrStdout(), done)
	return nil
}

// records hands the records that a filter chooses to do.
func (b *backend) records(ctx context.Context, f audit.Filter, do func(audit.Record)) error {
	body, err := b.stream(ctx, http.MethodPost, "/v1/audit/records", f)
	if err != nil {
		return err
	}
	defer body.Close()
	return decodeRecords(body, do)
}

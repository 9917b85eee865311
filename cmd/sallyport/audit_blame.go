package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy/approval"
	"sallyport/sandbox"
	"sallyport/tools"
)

// How well the log supports an answer of blame, best first.
const (
	blameRecorded = "recorded" // the log has the commit as the work of this call
	blameContent  = "content"  // not committed; the file is as this call left it
	blameTrailer  = "trailer"  // the commit names the call, and the log does not confirm it
	blamePath     = "path"     // not committed; this call changed the file last, and something else since
	blameNone     = "none"     // no call is known
)

// blamed is what `audit blame --json` prints. Its form is stable.
type blamed struct {
	File     string    `json:"file"` // absolute
	Line     int       `json:"line"`
	Text     string    `json:"text"`
	Commit   string    `json:"commit,omitempty"` // that the line is from; none while it is not committed
	Evidence string    `json:"evidence"`
	Why      string    `json:"why"`
	Seq      audit.Seq `json:"seq,omitempty"`
	Call     string    `json:"call,omitempty"`
	Session  string    `json:"session,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	User     string    `json:"user,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Tier     string    `json:"tier,omitempty"`
	Verdict  string    `json:"verdict,omitempty"`
	Rules    []string  `json:"rules,omitempty"`
	Approval string    `json:"approval,omitempty"`
	Person   string    `json:"person,omitempty"` // who approved
	Time     time.Time `json:"time,omitzero"`
}

func auditBlame() *cobra.Command {
	return &cobra.Command{
		Use: "blame FILE:LINE", Short: "Say which call, agent and approval a line is from", Args: cobra.ExactArgs(1),
		Long: `Ask git which commit a line is from, and the record which call made that commit: its session, agent,
decision, approver and time. A line that is not committed is answered with the last call that
changed the file. "evidence" tells how far the record supports the answer:

  recorded  the record has the commit as the work of this call
  content   not committed; the file is exactly as this call left it
  trailer   the commit's Sallyport-Call line names the call, and the record does not confirm it:
            it was rebased or amended, or somebody copied the line
  path      not committed; this call changed the file last, and something else since
  none      no call is known (exit code 1)`,
		Example: "  sallyport audit blame cmd/main.go:41\n  sallyport audit blame cmd/main.go:41 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, line, err := fileLine(args[0])
			if err != nil {
				return &exit{exitUsage, err}
			}
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			answer, err := blame(cmd.Context(), b, file, line)
			if err != nil {
				return fmt.Errorf("blame %s: %w", args[0], err)
			}
			if wantsJSON(cmd) {
				err = printJSON(cmd.OutOrStdout(), answer)
			} else {
				answer.print(cmd.OutOrStdout())
			}
			if err == nil && answer.Evidence == blameNone {
				err = &exit{exitFailed, nil}
			}
			return err
		},
	}
}

// fileLine splits FILE:LINE and finds the file's real path.
func fileLine(arg string) (string, int, error) {
	at := strings.LastIndexByte(arg, ':')
	if at < 0 {
		return "", 0, fmt.Errorf("%q names no line: write FILE:LINE", arg)
	}
	line, err := strconv.Atoi(arg[at+1:])
	if err != nil || line < 1 {
		return "", 0, fmt.Errorf("%q is not the number of a line", arg[at+1:])
	}
	file, err := filepath.EvalSymlinks(absPath(arg[:at]))
	if err != nil {
		return "", 0, fmt.Errorf("find the file: %w", err)
	}
	return file, line, nil
}

// blame answers for one line.
func blame(ctx context.Context, b *backend, file string, line int) (blamed, error) {
	a := blamed{File: file, Line: line, Evidence: blameNone}
	content, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	lines := strings.Split(string(content), "\n")
	if line > len(lines) || line == len(lines) && lines[line-1] == "" {
		return a, fmt.Errorf("the file has no line %d", line)
	}
	a.Text = strings.TrimSuffix(lines[line-1], "\r")
	root, err := repositoryOf(filepath.Dir(file))
	if err == nil {
		r, done, err := ownRunner("")
		if err != nil {
			return a, err
		}
		defer done()
		if err := a.ofCommit(ctx, b, gitIn{r, root}); err != nil || a.Commit != "" {
			return a, err
		}
	} else if !errors.Is(err, errNoRepository) {
		return a, err
	}
	return a, a.uncommitted(ctx, b, content)
}

// gitIn runs git in one repository.
type gitIn struct {
	runner actor
	root   string
}

func (g gitIn) out(ctx context.Context, args ...string) (string, error) {
	return gitOutput(ctx, g.runner, g.root, args...)
}

// ofCommit finds the commit that the line is from, if it is in one, and the call
// that made it.
func (a *blamed) ofCommit(ctx context.Context, b *backend, git gitIn) error {
	rel, err := filepath.Rel(git.root, a.File)
	if err != nil {
		return err
	}
	if tracked, err := git.out(ctx, "ls-files", "--", rel); err != nil || tracked == "" {
		return err
	}
	if sandbox.ReadHead(git.root).Commit == "" {
		return nil
	}
	n := strconv.Itoa(a.Line)
	said, err := git.out(ctx, "blame", "--porcelain", "-L", n+","+n, "--", rel)
	if err != nil {
		return err
	}
	commit, _, _ := strings.Cut(said, " ")
	if strings.Trim(commit, "0") == "" {
		return nil
	}
	a.Commit = commit
	message, err := git.out(ctx, "show", "--no-patch", "--format=%ct%n%B", commit)
	if err != nil {
		return err
	}
	stamp, message, _ := strings.Cut(message, "\n")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of commit %s: %w", commit, err)
	}
	mark, marked := tools.ReadMark(message)
	return a.callOf(ctx, b, git, madeCommit{commit, time.Unix(seconds, 0), mark, marked})
}

// madeCommit is a commit and what it says of itself.
type madeCommit struct {
	id     string
	at     time.Time
	mark   tools.Mark
	marked bool
}

// callOf finds the call that made a commit: by the record of where the
// workspace's HEAD went, which nobody but the log writes, else by the trailer.
func (a *blamed) callOf(ctx context.Context, b *backend, git gitIn, c madeCommit) error {
	moved, err := movers(ctx, b, c.at)
	if err != nil {
		return err
	}
	for _, r := range moved {
		if r.Head == c.id {
			a.take(r, blameRecorded, "the record has this commit as what the call left")
			return nil
		}
	}
	for _, r := range moved {
		args := []string{"rev-list", r.Head}
		if r.Commit != "" {
			args = append(args, "^"+r.Commit)
		}
		if list, err := git.out(ctx, args...); err == nil && strings.Contains(list, c.id) {
			a.take(r, blameRecorded, "the record has this commit among those the call added")
			return nil
		}
	}
	if !c.marked {
		a.Why = "the commit was not made through sallyport, as far as the record and the commit say"
		return nil
	}
	err = b.records(ctx, audit.Filter{Call: c.mark.Call}, func(r audit.Record) {
		a.take(r, blameTrailer, "the commit names the call, and the record does not have this commit as its work: rebased, amended or copied")
	})
	if err == nil && a.Evidence == blameNone {
		a.Why = "the commit names call " + c.mark.Call + ", which is not in this record"
	}
	return err
}

// movers are the calls that moved a workspace's HEAD and ran when a commit was
// made. A commit's time has whole seconds.
func movers(ctx context.Context, b *backend, at time.Time) ([]audit.Record, error) {
	var out []audit.Record
	err := b.records(ctx, audit.Filter{Kind: audit.KindOutcome, Moved: true, Since: at.Add(-time.Second)}, func(r audit.Record) {
		if r.Head != "" && r.Time.Add(-r.Took-time.Second).Before(at) {
			out = append(out, r)
		}
	})
	return out, err
}

// uncommitted finds the last call that changed the file. The log names files
// relative to a workspace, which may be any folder above.
func (a *blamed) uncommitted(ctx context.Context, b *backend, content []byte) error {
	sum := sha256.Sum256(content)
	now := hex.EncodeToString(sum[:])
	a.Why = "no call in the record changed this file"
	for dir := filepath.Dir(a.File); ; dir = filepath.Dir(dir) {
		rel, err := filepath.Rel(dir, a.File)
		if err != nil {
			return err
		}
		err = b.records(ctx, audit.Filter{Path: rel, Kind: audit.KindOutcome, Newest: true, Limit: 200}, func(r audit.Record) {
			if r.Workspace != dir || a.Evidence != blameNone && !r.Time.After(a.Time) {
				return
			}
			for _, ch := range r.Changes {
				switch {
				case ch.Path != rel:
				case ch.After == now:
					a.take(r, blameContent, "not committed; the file is as this call left it")
				default:
					a.take(r, blamePath, "not committed; this call changed the file last, and something else has since")
				}
			}
		})
		if err != nil || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// take answers with a call.
func (a *blamed) take(r audit.Record, evidence, why string) {
	a.Evidence, a.Why = evidence, why
	a.Seq, a.Call, a.Session, a.Agent, a.User, a.Tool = r.Seq, r.Call, r.Session, r.Agent, r.User, r.Tool
	a.Tier, a.Verdict, a.Rules, a.Approval, a.Person, a.Time = r.Tier, r.Verdict, r.Rules, r.Approval, r.Person, r.Time
}

func (a *blamed) print(out io.Writer) {
	say := painter(out)
	fmt.Fprintf(out, "%s:%d  %s\n", a.File, a.Line, approval.Visible(oneLine(a.Text, 100)))
	if a.Commit != "" {
		fmt.Fprintf(out, "  commit    %s\n", a.Commit)
	}
	if a.Call != "" {
		fmt.Fprintf(out, "  call      %s (record %d), %s, %s\n", a.Call, a.Seq, a.Tool, a.Time.Local().Format(time.RFC3339))
		fmt.Fprintf(out, "  by        %s, session %s, user %s\n", approval.Visible(a.Agent), approval.Visible(a.Session), approval.Visible(a.User))
		by := ""
		if a.Person != "" {
			by = ", approved by " + approval.Visible(a.Person)
		}
		fmt.Fprintf(out, "  decision  %s %s%s %s\n", a.Tier, a.Verdict, by, say.dim(strings.Join(slices.Compact(slices.Sorted(slices.Values(a.Rules))), " ")))
	}
	fmt.Fprintf(out, "  evidence  %s: %s\n", a.Evidence, a.Why)
}

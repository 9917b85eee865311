package approval_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

func render(t *testing.T, r approval.Request, o approval.RenderOptions) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, approval.Render(&b, r, o))
	return b.String()
}

func TestRenderShowsEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *approval.Options) { o.Rand = &counting{} })
	r := f.settle(t, edit(tier(policy.L3), func(a *approval.Ask) {
		a.Show.Argv = []string{"bash", "deploy.sh", "it's"}
		a.Show.Tree = []approval.Step{{Text: "sudo bash deploy.sh"}, {Depth: 1, Text: "bash deploy.sh", Via: []string{"sudo"}, Note: "runs a script"}}
		a.Show.Net = []sandbox.Endpoint{{Host: "api.example.com", Port: 443}, {}}
		a.Show.Scripts = []policy.Script{{
			Path: "deploy.sh", SHA256: strings.Repeat("ab", 32), Author: "claude-code/s1",
			Findings: []policy.Finding{{Rule: "danger.rm", Severity: "high", Path: "deploy.sh", Line: 3, Text: "rm -rf /"}},
		}}
		a.Show.Risks = []string{"It replaces the running service."}
		a.Show.Dir, a.Show.Env, a.Show.Stdin = "deploy", []string{"STAGE=live"}, "yes\nyes\n"
		a.Show.Files[0].Guard = policy.GuardConfig
		a.Decision.Obligations.Approvers = 2
	})).Request
	f.pass(90 * time.Second)
	require.Equal(t, `000001  L3  waiting 1m, expires in 28m, 0 of 2 people have approved
claude-code for ann · session s1 · tool edit_file
/work/demo on main

  edit_file: edit main.go

Mind this
  ! It replaces the running service.

Why a person is asked
  L3 code.edit ask
     changes code
  2 people have to approve

Program, as it would be run
  bash deploy.sh 'it'\''s'
  in deploy

Added to its environment
  STAGE=live

Given as its input
  yes
  yes

Parsed as
   1. sudo bash deploy.sh
   2.   bash deploy.sh
      through sudo
      runs a script

Scripts that would run
  deploy.sh  written by claude-code/s1 · sha256 abababababab
    high danger.rm deploy.sh:3  rm -rf /

Files
  edit     main.go  guarded: config

Network
  api.example.com:443
  a host that is not known before it runs

Changes
  --- a/main.go
  +++ b/main.go
  @@ -1 +1 @@
  -a
  +b

Decide
  sallyport approvals approve 000001
  sallyport approvals deny 000001 WHAT TO DO INSTEAD
`, render(t, r, approval.RenderOptions{Now: f.Now(), Hints: true}))
}

func TestRenderWithholdsNothingSilently(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("x", 300<<10)
	r := f.settle(t, edit(func(a *approval.Ask) {
		a.Show.Summary = "first line\nrm -rf /"
		a.Show.Diff = long
		a.Show.Argv = []string{"echo", long}
		a.Subject.Args = []byte(`{"x":"` + long + `"}`)
	})).Request
	out := render(t, r, approval.RenderOptions{})
	require.Contains(t, out, "first line …")
	require.Contains(t, out, "Not shown in full. diff: the first 262144 of 307200 bytes")
	require.Contains(t, out, "Not shown in full. arguments: the first 1 of 2")
	require.Contains(t, out, "Not shown in full. the arguments (307208 bytes) are kept as a digest only")
	require.NotContains(t, render(t, r, approval.RenderOptions{Hints: true}), "--session")
}

func TestRenderIsSafeInATerminal(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2Jb\rc\u202ed\u200be\x00f\u00a0g"
	f := newFixture(t)
	r := f.settle(t, edit(func(a *approval.Ask) {
		a.Subject.Agent, a.Subject.Branch, a.Subject.Tool = evil, evil, evil
		a.Show = approval.Show{
			Summary: evil, Argv: []string{evil}, Shell: evil, Diff: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-" + evil + "\n+" + evil + "\n",
			Files: []approval.Touch{{Op: evil, Path: evil}}, Net: []sandbox.Endpoint{{Host: evil}},
			Tree: []approval.Step{{Text: evil, Via: []string{evil}, Note: evil}}, Risks: []string{evil}, Cut: []string{evil}, Dir: evil, Env: []string{evil}, Stdin: evil,
			Scripts: []policy.Script{{Path: evil, SHA256: evil, Author: evil, Findings: []policy.Finding{{Rule: evil, Text: evil, Path: evil, Severity: evil}}}},
		}
		a.Decision.Rules[0] = policy.RuleHit{ID: evil, Reason: evil, Cmd: evil, Tier: policy.L2, Verdict: policy.Ask}
	})).Request
	for _, width := range []int{0, 40} {
		out := render(t, r, approval.RenderOptions{Width: width, Hints: true})
		for _, c := range "\x1b\r\u202e\u200b\x00\u00a0" {
			require.NotContains(t, out, string(c), "%U", c)
		}
		require.Contains(t, out, "a‹U+001B›[2Jb‹U+000D›c‹U+202E›d‹U+200B›e‹U+0000›f‹U+00A0›g")
	}
	require.Contains(t, render(t, r, approval.RenderOptions{Color: true}), "\x1b[31m-a‹U+001B›")
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":       "plain text",
		"größer naïve":     "größer naïve",
		"файл.txt":         "файл.txt",
		"src/со/main.go":   "src/с‹U+0441›о‹U+043E›/main.go",
		"только кириллица": "только кириллица",
		"pаypal":           "pа‹U+0430›ypal",
		"/еtс/passwd":      "/е‹U+0435›tс‹U+0441›/passwd",
		"文件.go":            "文件.go",
		"bad\xffbyte":      "bad‹FF›byte",
		"e\u0301":          "e‹U+0301›",
		"\u0e19\u0e49":     "\u0e19\u0e49",
		"\uff52\uff4d":     "‹U+FF52›‹U+FF4D›",
		"line\nbreak\ttab": "line‹U+000A›break‹U+0009›tab",
		"\U000E0041tag":    "‹U+E0041›tag",
	} {
		require.Equal(t, want, approval.Visible(in), "%q", in)
	}
	require.Equal(t, "a\n\tb‹U+202E›", approval.VisibleText("a\n\tb\u202e"))
}

func TestDiffContentCannotPoseAsAHeader(t *testing.T) {
	t.Parallel()
	diff := "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/comment\n keep\n+++ b/comment\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-p\n+q\n\\ No newline at end of file\n"
	var kinds []byte
	for _, l := range approval.DiffLines(diff) {
		kinds = append(kinds, l.Kind)
	}
	require.Equal(t, "hh@- +hh@-+ ", string(kinds))
}

// TestPictureOfTheCommandLine leaves what `approvals show` prints in the directory
// SALLYPORT_PICTURES names; the pictures of docs/approvals.md are made so.
func TestPictureOfTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SALLYPORT_PICTURES")
	if dir == "" {
		t.Skip("SALLYPORT_PICTURES names no directory")
	}
	f := newFixture(t)
	r := f.settle(t, edit(func(a *approval.Ask) {
		a.Subject.Tool, a.Subject.Branch = "exec", "release/1.4"
		a.Decision = policy.Decision{Tier: policy.L3, Verdict: policy.Ask, Rules: []policy.RuleHit{
			{ID: "git.push", Tier: policy.L3, Verdict: policy.Ask, Reason: "it publishes commits to a remote", Cmd: "git push origin release/1.4"},
			{ID: "script.finding", Tier: policy.L3, Verdict: policy.Ask, Reason: "a script about to be run holds a dangerous line", Cmd: "bash deploy.sh --env staging"},
		}}
		a.Show = approval.Show{
			Summary: "exec: git push origin release/1.4 && bash deploy.sh --env staging",
			Shell:   "git push origin release/1.4 && bash deploy.sh --env staging",
			Tree:    []approval.Step{{Text: "git push origin release/1.4"}, {Text: "bash deploy.sh --env staging", Note: "runs a script"}},
			Net:     []sandbox.Endpoint{{Host: "git.example.com", Port: 443}},
			Scripts: []policy.Script{{Path: "deploy.sh", SHA256: strings.Repeat("5fa2", 16), Author: "claude-code/s1", Findings: []policy.Finding{
				{Rule: "danger.rm-rf", Severity: "high", Path: "deploy.sh", Line: 14, Text: `rm -rf "$TARGET"/`},
			}}},
			Files: []approval.Touch{{Op: "exec", Path: "deploy.sh"}, {Op: "read", Path: "\u0441onfig/staging.yaml", Guard: policy.GuardConfig}},
			Risks: []string{"It reaches the outside world and cannot be taken back from here."},
		}
	})).Request
	f.pass(2 * time.Minute)
	out := render(t, r, approval.RenderOptions{Color: true, Width: 90, Now: f.Now(), Hints: true})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cli.ansi"), []byte(out), 0o644))
}

package approval

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"sallyport/policy"
)

// RenderOptions say for whom a request is written. The zero value is plain text
// of any width.
type RenderOptions struct {
	Color bool      // ANSI colours
	Width int       // columns that prose is wrapped to; 0: not wrapped. Evidence never is.
	Now   time.Time // for ages; zero: absolute times
	Hints bool      // add the commands that decide it
}

// Render writes a request as a person sees it: everything the desk holds of it,
// each hidden character visible, and a word for whatever is left out. The
// request is one of Get, with Show.
func Render(w io.Writer, r Request, o RenderOptions) error {
	p := &page{w: bufio.NewWriter(w), o: o}
	p.head(r)
	p.warnings(r)
	p.rules(r)
	if r.Show != nil {
		p.command(*r.Show)
		p.scripts(*r.Show)
		p.touched(*r.Show)
		p.diff(r.Show.Diff)
	}
	p.votes(r)
	if o.Hints && r.State == StatePending {
		p.hints(r)
	}
	return p.w.Flush()
}

// page writes the sections of one request.
type page struct {
	w *bufio.Writer
	o RenderOptions
}

// The colours, as SGR parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	alarm  = "1;31"
)

func (p *page) paint(sgr, s string) string {
	if !p.o.Color || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *page) section(title string) { p.line("\n%s", p.paint(bold, title)) }

// prose writes text wrapped to the width, each line indented.
func (p *page) prose(indent, text string) {
	for _, l := range wrap(Visible(text), p.o.Width-len(indent)) {
		p.line("%s%s", indent, l)
	}
}

func (p *page) head(r Request) {
	tier := cyan
	if r.Tier >= policy.L3 {
		tier = alarm
	}
	p.line("%s  %s  %s", p.paint(bold, r.ID), p.paint(tier, r.Tier.String()), p.life(r))
	who := r.Agent
	if r.User != "" {
		who += " for " + r.User
	}
	p.line("%s", p.paint(dim, Visible(who+" · session "+r.Session+" · tool "+r.Tool)))
	if r.Workspace != "" {
		at := r.Workspace
		if r.Branch != "" {
			at += " on " + r.Branch
		}
		p.line("%s", p.paint(dim, Visible(at)))
	}
	p.line("\n  %s", Visible(r.Summary))
	if r.Batch != "" && r.State == StatePending {
		p.line("%s", p.paint(dim, "  announced with others as "+r.Batch+": one answer to that decides all of them"))
	}
}

// life says in words where the request stands.
func (p *page) life(r Request) string {
	switch r.State {
	case StatePending:
		s := "waiting" + p.age(" ", r.Created, "") + ", expires" + p.age(" in ", r.Expires, "")
		if r.Approvers > 1 {
			s += fmt.Sprintf(", %d of %d people have approved", len(r.Votes), r.Approvers)
		}
		return s
	case StateApproved:
		return p.paint(green, "approved") + " by " + Visible(r.decidedBy()) + ", not used yet, expires" + p.age(" in ", r.Expires, "")
	case StateUnknown:
		return p.paint(alarm, "unknown") + ": it was started, and how it ended is not known"
	case StateDone:
		return "done: " + Visible(r.Result)
	}
	s := string(r.State)
	if by := r.decidedBy(); by != "" {
		s += " by " + Visible(by)
	}
	if r.Why != "" {
		s += ": " + Visible(r.Why)
	}
	return s
}

func (p *page) age(before string, t time.Time, after string) string {
	if p.o.Now.IsZero() {
		return " " + t.Format(time.RFC3339)
	}
	return before + Ago(p.o.Now.Sub(t).Abs()) + after
}

// Ago writes a duration as people say it: "40s", "12m", "3h", "2d".
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

func (p *page) warnings(r Request) {
	var all []string
	if r.Unknown != "" {
		all = append(all, "An identical call ("+r.Unknown+") was started earlier and how it ended is not known. It may have taken effect already.")
	}
	if len(r.Changed) > 0 {
		all = append(all, "Since the earlier request "+r.Earlier+": "+strings.Join(r.Changed, "; "))
	}
	all = append(all, r.Risks...)
	for _, c := range r.Cut {
		all = append(all, "Not shown in full. "+c)
	}
	if len(all) > 0 {
		p.section("Mind this")
	}
	for _, t := range all {
		for i, l := range wrap(Visible(t), p.o.Width-4) {
			mark := "! "
			if i > 0 {
				mark = "  "
			}
			p.line("  %s", p.paint(yellow, mark+l))
		}
	}
}

func (p *page) rules(r Request) {
	p.section("Why a person is asked")
	for _, h := range r.Rules {
		if h.Verdict == policy.Allow { // it asks for nobody
			continue
		}
		p.line("  %s %s %s", p.paint(cyan, h.Tier.String()), p.paint(bold, Visible(h.ID)), p.paint(dim, h.Verdict.String()))
		p.prose("     ", h.Reason)
		if h.Cmd != "" {
			p.line("     %s", p.paint(dim, "on: "+Visible(h.Cmd)))
		}
	}
	if r.Approvers > 1 || len(r.Roles) > 0 {
		need, each := "a person has to approve", " who holds one of the roles "
		if r.Approvers > 1 {
			need, each = fmt.Sprintf("%d people have to approve", r.Approvers), ", each with one of the roles "
		}
		if len(r.Roles) > 0 {
			need += each + strings.Join(r.Roles, ", ")
		}
		p.prose("  ", need)
	}
}

func (p *page) command(s Show) {
	if len(s.Argv) > 0 {
		p.section("Program, as it would be run")
		p.line("  %s", Visible(Quote(s.Argv)))
	}
	if s.Shell != "" {
		p.section("Shell text")
		p.block("  ", s.Shell)
	}
	if s.Dir != "" && s.Dir != "." {
		p.line("  %s", p.paint(dim, "in "+Visible(s.Dir)))
	}
	if len(s.Env) > 0 {
		p.section("Added to its environment")
	}
	for _, e := range s.Env {
		p.line("  %s", Visible(e))
	}
	if s.Stdin != "" {
		p.section("Given as its input")
		p.block("  ", s.Stdin)
	}
	if len(s.Tree) == 0 {
		return
	}
	p.section("Parsed as")
	for i, st := range s.Tree {
		p.line("  %2d. %s%s", i+1, strings.Repeat("  ", st.Depth), Visible(st.Text))
		if len(st.Via) > 0 {
			p.line("      %s", p.paint(dim, "through "+Visible(strings.Join(st.Via, ", "))))
		}
		if st.Note != "" {
			p.line("      %s", p.paint(yellow, Visible(st.Note)))
		}
	}
}

// block writes text of several lines, each indented.
func (p *page) block(indent, text string) {
	for l := range strings.Lines(text) {
		p.line("%s%s", indent, VisibleText(strings.TrimSuffix(l, "\n")))
	}
}

func (p *page) scripts(s Show) {
	if len(s.Scripts) > 0 {
		p.section("Scripts that would run")
	}
	for _, sc := range s.Scripts {
		author := "written by " + sc.Author
		if sc.Author == "" {
			author = "author unknown"
		}
		p.line("  %s  %s", Visible(sc.Path), p.paint(dim, Visible(author+" · sha256 "+shortValue(sc.SHA256))))
		p.findings(sc.Findings)
	}
	if len(s.Content) > 0 {
		p.section("Found in what would be written")
		p.findings(s.Content)
	}
}

func (p *page) findings(all []policy.Finding) {
	for _, f := range all {
		p.line("    %s %s:%d  %s", p.paint(alarm, Visible(f.Severity+" "+f.Rule)), Visible(f.Path), f.Line, Visible(f.Text))
	}
}

func (p *page) touched(s Show) {
	if len(s.Files) > 0 {
		p.section("Files")
	}
	for _, f := range s.Files {
		guard := ""
		if f.Guard != "" {
			guard = "  " + p.paint(yellow, "guarded: "+Visible(string(f.Guard)))
		}
		p.line("  %-8s %s%s", Visible(f.Op), Visible(f.Path), guard)
	}
	if len(s.Net) > 0 {
		p.section("Network")
	}
	for _, e := range s.Net {
		if e.Host == "" {
			p.line("  %s", p.paint(alarm, "a host that is not known before it runs"))
			continue
		}
		p.line("  %s", Visible(net.JoinHostPort(e.Host, strconv.Itoa(e.Port))))
	}
}

func (p *page) diff(diff string) {
	if diff == "" {
		return
	}
	p.section("Changes")
	for _, l := range DiffLines(diff) {
		sgr := map[byte]string{'+': green, '-': red, '@': cyan, 'h': bold}[l.Kind]
		text := VisibleText(l.Text)
		if sgr != "" {
			text = p.paint(sgr, text)
		}
		p.line("  %s", text)
	}
}

// DiffLine is one line of a unified diff. Kind is '+', '-', ' ', '@' for a hunk's
// head and 'h' for a file's.
type DiffLine struct {
	Kind byte
	Text string
}

// DiffLines classes the lines of a unified diff. Within a hunk a line belongs to
// the file whatever it looks like, so that content cannot pose as a header.
func DiffLines(diff string) []DiffLine {
	var out []DiffLine
	before, after := 0, 0 // lines the present hunk still has
	for l := range strings.Lines(diff) {
		l = strings.TrimSuffix(l, "\n")
		kind := byte('h')
		switch {
		case before > 0 && strings.HasPrefix(l, "-"):
			kind, before = '-', before-1
		case after > 0 && strings.HasPrefix(l, "+"):
			kind, after = '+', after-1
		case before > 0 && after > 0 && (l == "" || l[0] == ' '):
			kind, before, after = ' ', before-1, after-1
		case strings.HasPrefix(l, "@@ "):
			kind = '@'
			before, after = hunkSize(l)
		case strings.HasPrefix(l, `\`):
			kind = ' '
		}
		out = append(out, DiffLine{kind, l})
	}
	return out
}

// hunkSize reads "@@ -1,3 +1,4 @@"; a missing count is 1.
func hunkSize(l string) (before, after int) {
	f := strings.Fields(l)
	if len(f) < 3 {
		return 0, 0
	}
	count := func(s string) int {
		_, n, ok := strings.Cut(s, ",")
		if !ok {
			return 1
		}
		v, err := strconv.Atoi(n)
		if err != nil {
			return 0
		}
		return v
	}
	return count(f[1]), count(f[2])
}

func (p *page) votes(r Request) {
	if len(r.Votes) == 0 && r.Grant == "" {
		return
	}
	p.section("Decided")
	if r.Grant != "" {
		p.line("  covered by grant %s", r.Grant)
	}
	for _, v := range r.Votes {
		word := p.paint(red, "denied")
		if v.Approve {
			word = p.paint(green, "approved ("+string(v.Scope)+")")
		}
		note := ""
		if v.Note != "" {
			note = ": " + v.Note
		}
		p.line("  %s by %s at %s%s", word, Visible(v.Person.String()), v.Time.Format(time.RFC3339), Visible(note))
	}
}

func (p *page) hints(r Request) {
	p.section("Decide")
	p.line("  sallyport approvals approve %s", r.ID)
	if len(r.Cut) == 0 && r.Tier < policy.L3 {
		p.line("  sallyport approvals approve %s --session", r.ID)
	}
	p.line("  sallyport approvals deny %s WHAT TO DO INSTEAD", r.ID)
}

// wrap breaks text at spaces into lines of at most width columns; a longer word
// stays whole. Width below 20 does not wrap.
func wrap(text string, width int) []string {
	if width < 20 {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		switch {
		case line == "":
			line = w
		case len([]rune(line))+1+len([]rune(w)) > width:
			lines = append(lines, line)
			line = w
		default:
			line += " " + w
		}
	}
	return append(lines, line)
}

package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"sallyport/policy"
	"sallyport/sandbox"
)

// maxShown bounds each text of a Show, in bytes. A person cannot judge more, and
// the desk's file stays small.
const maxShown = 256 << 10

// maxShownItems bounds each list of a Show.
const maxShownItems = 2000

// Describe is what a person decides on and is shown of a call: as much of it as
// the call, its facts and the decision tell. The caller adds what it alone knows:
// Subject.Schema, Show.Diff, Show.Risk, a transaction.
func Describe(c policy.Call, f policy.Facts, d policy.Decision) (Subject, Show) {
	s := Subject{
		Agent: c.Agent.Name, Session: c.Agent.Session, User: c.Agent.User,
		Tool: c.Tool, Args: c.Args,
		Workspace: c.Workspace.Root, Branch: c.Workspace.Branch, Commit: c.Workspace.Commit,
		Revision: d.Revision,
		Files:    map[string]string{}, Scripts: map[string]string{},
	}
	show := Show{Content: f.Content}
	touch := func(x policy.FileFact) {
		s.Files[x.Path] = x.SHA256
		t := Touch{Op: x.Op, Path: x.Path, Guard: x.Guard}
		if !slices.Contains(show.Files, t) {
			show.Files = append(show.Files, t)
		}
	}
	for _, x := range f.Files {
		touch(x)
	}
	for _, cmd := range f.Cmds {
		show.Tree = append(show.Tree, step(cmd))
		for _, x := range cmd.Targets {
			touch(x)
		}
		if cmd.Script != nil {
			s.Scripts[cmd.Script.Path] = cmd.Script.SHA256
			show.Scripts = append(show.Scripts, *cmd.Script)
		}
	}
	for _, n := range f.Net {
		show.Net = append(show.Net, endpoint(n))
	}
	if x := c.Action.Exec; x != nil {
		show.Argv, show.Shell = x.Argv, x.Shell
		for _, e := range x.Net {
			if !slices.Contains(show.Net, e) {
				show.Net = append(show.Net, e)
			}
		}
	}
	for _, ch := range c.Changes {
		s.Files[ch.Path] = ch.Before
		show.Files = append(show.Files, Touch{Op: ch.Kind, Path: ch.Path})
	}
	show.Summary = summary(c, show)
	return s, show
}

func step(cmd policy.Cmd) Step {
	text := Quote(cmd.Argv)
	for _, r := range cmd.Redirects {
		text += " " + r.Op + " " + Quote([]string{r.Path})
	}
	st := Step{Depth: len(cmd.Via), Text: text, Via: cmd.Via}
	switch {
	case cmd.Opaque.Name || cmd.Opaque.Args:
		st.Note = "not fully known before it runs: " + cmd.Opaque.Reason
	case cmd.Lookalike:
		st.Note = "a file in the workspace that bears the name of a system program"
	}
	return st
}

func summary(c policy.Call, show Show) string {
	switch {
	case show.Shell != "":
		return c.Tool + ": " + show.Shell
	case len(show.Argv) > 0:
		return c.Tool + ": " + Quote(show.Argv)
	case len(show.Files) == 1:
		return c.Tool + ": " + show.Files[0].Op + " " + show.Files[0].Path
	case len(show.Files) > 1:
		return fmt.Sprintf("%s: %s and %d more paths", c.Tool, show.Files[0].Path, len(show.Files)-1)
	}
	return c.Tool
}

// Unified is the unified diff of one file, "" when nothing differs.
func Unified(path, before, after string) string {
	return udiff.Unified("a/"+path, "b/"+path, before, after)
}

// bounded is the show with every part cut to what a person and the file can
// bear, and with a sentence in Cut for each part that was.
func (s Show) bounded() Show {
	s.Cut = slices.Clone(s.Cut)
	s.Summary = firstLine(s.Summary)
	text := func(name string, v *string) {
		if len(*v) > maxShown {
			s.Cut = append(s.Cut, fmt.Sprintf("%s: the first %d of %d bytes", name, maxShown, len(*v)))
			*v = cutAt(*v, maxShown)
		}
	}
	text("diff", &s.Diff)
	text("shell text", &s.Shell)
	room := maxShown
	for i, arg := range s.Argv {
		if room -= len(arg); room < 0 {
			s.Cut = append(s.Cut, fmt.Sprintf("arguments: the first %d of %d", i, len(s.Argv)))
			s.Argv = s.Argv[:i]
			break
		}
	}
	room = maxShown
	for i, st := range s.Tree {
		if room -= len(st.Text) + len(st.Note); room < 0 {
			s.Cut = append(s.Cut, fmt.Sprintf("commands: the first %d of %d", i, len(s.Tree)))
			s.Tree = s.Tree[:i]
			break
		}
	}
	s.Tree = bound(&s, "commands", s.Tree)
	s.Files = bound(&s, "files", s.Files)
	s.Net = bound(&s, "network targets", s.Net)
	s.Scripts = bound(&s, "scripts", s.Scripts)
	s.Content = bound(&s, "findings", s.Content)
	return s
}

func bound[T any](s *Show, name string, list []T) []T {
	if len(list) <= maxShownItems {
		return list
	}
	s.Cut = append(s.Cut, fmt.Sprintf("%s: the first %d of %d", name, maxShownItems, len(list)))
	return list[:maxShownItems]
}

// maxSummary bounds the one line of a request that lists show, in bytes.
const maxSummary = 160

// firstLine is a summary's first line; an ellipsis tells that there is more.
func firstLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > maxSummary {
		line, more = cutAt(line, maxSummary), true
	}
	if more {
		line += " …"
	}
	return line
}

// cutAt is the longest prefix of whole runes that is at most n bytes.
func cutAt(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:min(n, len(s))]
}

// hosts are the hosts dialled, without repeats.
func (s Show) hosts() []string {
	var out []string
	for _, e := range s.Net {
		if !slices.Contains(out, e.Host) {
			out = append(out, e.Host)
		}
	}
	return out
}

// digest identifies what a person is shown.
func (s Show) digest() string {
	raw, err := json.Marshal(s)
	if err != nil { // a Show holds strings and numbers only
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func endpoint(n policy.NetFact) sandbox.Endpoint { return sandbox.Endpoint{Host: n.Host, Port: n.Port} }

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/audit"
	"sallyport/sandbox"
	"sallyport/tools"
)

// Resumption is where a session stopped and what has changed since, for whoever
// goes on with it. Its JSON form is stable; its lists are never nil.
type Resumption struct {
	Session     string        `json:"session"`
	Agent       string        `json:"agent"`
	Workspace   string        `json:"workspace"`
	Last        *ResumedCall  `json:"last"`        // the last call that succeeded; null without one
	Interrupted []ResumedCall `json:"interrupted"` // the server died during them, or they still run
	Waiting     []ResumedCall `json:"waiting"`     // for a person, and not done since
	Files       []ResumedFile `json:"files"`       // that the session changed and that are otherwise now
	Untouched   int           `json:"untouched"`   // files that are as the session left them
	Commit      string        `json:"commit"`      // where the session left HEAD
	Now         string        `json:"now"`         // where HEAD is
	Commits     []string      `json:"commits"`     // from there to here, newest first
	Note        string        `json:"note,omitempty"`
}

// ResumedCall is one call of the session.
type ResumedCall struct {
	Seq      audit.Seq       `json:"seq"`
	Call     string          `json:"call"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args"`
	Time     time.Time       `json:"time"`
	Approval string          `json:"approval,omitempty"`
}

// ResumedFile is a file that is not as the session left it.
type ResumedFile struct {
	Path  string `json:"path"`
	State string `json:"state"` // "modified", "removed", "added" or why it cannot be told
	Call  string `json:"call"`  // that left it
}

// mostCommits is how many commits since the session are told.
const mostCommits = 30

// Resume works out where a session stopped. It reads the workspace and runs git
// log in a cell; it changes nothing.
func Resume(ctx context.Context, run runner, steps []audit.Step) (Resumption, error) {
	r := Resumption{Interrupted: []ResumedCall{}, Waiting: []ResumedCall{}, Files: []ResumedFile{}, Commits: []string{}}
	waiting := map[string]ResumedCall{}
	left := map[string]leftFile{}
	for _, s := range steps {
		c, e := s.Call, s.End()
		if c.Kind == audit.KindEvent || OwnTool(c.Tool) {
			continue
		}
		call := ResumedCall{c.Seq, c.Call, c.Tool, c.Args, c.Time, e.Approval}
		r.Session, r.Agent, r.Workspace = c.Session, c.Agent, c.Workspace
		delete(waiting, c.ArgsDigest)
		switch {
		case s.Running(), e.Status == audit.StatusInterrupted:
			r.Interrupted = append(r.Interrupted, call)
		case e.Status == audit.StatusPending:
			waiting[c.ArgsDigest] = call
			continue // nothing landed
		case e.Status == audit.StatusOK:
			r.Last = &call
		}
		if r.Commit = c.Commit; e.Head != "" {
			r.Commit = e.Head
		}
		if e.Status != audit.StatusDenied {
			for _, ch := range e.Changes {
				left[ch.Path] = leftFile{ch.After, c.Call}
			}
		}
	}
	for _, w := range waiting {
		r.Waiting = append(r.Waiting, w)
	}
	slices.SortFunc(r.Waiting, func(a, b ResumedCall) int { return int(int64(a.Seq) - int64(b.Seq)) })
	if r.Session == "" {
		return r, errors.New("the session made no call")
	}
	if err := r.files(left); err != nil {
		r.Note = err.Error()
		return r, nil
	}
	r.commits(ctx, run)
	return r, nil
}

// leftFile is how a session left a file.
type leftFile struct{ sha256, call string }

// files compares the files that a session changed with what is there now.
func (r *Resumption) files(left map[string]leftFile) error {
	ws, err := sandbox.OpenWorkspace(r.Workspace)
	if err != nil {
		return err
	}
	defer ws.Close()
	for path, was := range left {
		if strings.HasPrefix(path, ".git/") {
			continue // said by the commits
		}
		now, err := ws.Digest(path)
		state := "modified"
		switch {
		case err != nil:
			state = err.Error()
		case now == was.sha256:
			r.Untouched++
			continue
		case now == "":
			state = "removed"
		case was.sha256 == "":
			state = "added"
		}
		r.Files = append(r.Files, ResumedFile{path, state, was.call})
	}
	slices.SortFunc(r.Files, func(a, b ResumedFile) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// commits lists what was committed since, where that can be told.
func (r *Resumption) commits(ctx context.Context, run runner) {
	r.Now = sandbox.ReadHead(r.Workspace).Commit
	if r.Now == r.Commit || r.Now == "" {
		return
	}
	span := r.Now
	if r.Commit != "" {
		span = r.Commit + ".." + r.Now
	}
	act, err := tools.Git(r.Workspace, "log", "--format=%h %s", fmt.Sprintf("--max-count=%d", mostCommits), span)
	if err == nil {
		var res sandbox.Result
		if res, err = run.Run(ctx, act, sandbox.Terms{}); err == nil && res.Exit != 0 {
			err = errors.New(strings.TrimSpace(string(res.Stderr.Data)))
		}
		for line := range strings.Lines(string(res.Stdout.Data)) {
			r.Commits = append(r.Commits, strings.TrimRight(line, "\n"))
		}
	}
	if err != nil {
		r.Note = "the commits since cannot be listed: " + err.Error()
	}
}

// Text is the resumption for a person or a model.
func (r Resumption) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s of %s in %s\n", r.Session, r.Agent, r.Workspace)
	call := func(label string, c ResumedCall, advice string) {
		fmt.Fprintf(&b, "%s: #%d %s %s, %s%s\n", label, c.Seq, c.Tool, clip(string(c.Args), 200), c.Time.UTC().Format(time.RFC3339), advice)
	}
	if r.Last != nil {
		call("last success", *r.Last, "")
	} else {
		b.WriteString("no call succeeded\n")
	}
	for _, c := range r.Interrupted {
		call("interrupted", c, "; look at what it left before you repeat it")
	}
	for _, c := range r.Waiting {
		call("waits for a person", c, "; approval "+c.Approval+", then repeat the identical call")
	}
	for _, f := range r.Files {
		fmt.Fprintf(&b, "changed since: %s (%s), last written by call %s\n", f.Path, f.State, f.Call)
	}
	switch {
	case r.Now != r.Commit:
		fmt.Fprintf(&b, "HEAD was %s and is %s\n", r.Commit, r.Now)
		for _, c := range r.Commits {
			fmt.Fprintf(&b, "  %s\n", c)
		}
		if len(r.Commits) == mostCommits {
			b.WriteString("  …\n")
		}
	case len(r.Files) == 0:
		b.WriteString("nothing it left has changed since\n")
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "note: %s\n", r.Note)
	}
	return strings.TrimRight(b.String(), "\n")
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

const resumeTool = "session_resume"

const resumeSchema = `{"type": "object", "additionalProperties": false, "properties": {
	"session": {"type": "string", "minLength": 1, "maxLength": 128, "description": "An earlier session of yours in this workspace; when not given, your own if it has made calls, else the newest of yours before it"}}}`

// resume answers session_resume. An agent learns of its own sessions in its own
// workspace and of no others.
func (s *Server) resume(ctx context.Context, c *call, a attempt) error {
	var in struct {
		Session string `json:"session"`
	}
	if err := tools.Strict(a.raw, &in); err != nil {
		return err
	}
	id, err := in.Session, error(nil)
	if id == "" {
		if id, err = s.o.Sessions.Newest(ctx, c.peer); err != nil {
			return err
		}
	}
	steps, err := s.o.Sessions.Steps(ctx, id)
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(st audit.Step) bool {
		r := st.Call
		return r.Kind == audit.KindEvent || r.Agent != c.peer.Agent || r.User != c.peer.User || r.Workspace != c.peer.Workspace
	})
	if len(steps) == 0 {
		return &tools.Failure{Kind: tools.KindExecutionFailed, Class: tools.Fixable, Msg: "there is no earlier session of yours in this workspace" + named(in.Session),
			Remedy: "begin anew; read_file, git_status and git_log tell how things stand"}
	}
	r, err := Resume(ctx, s.o.Runner, steps)
	if err != nil {
		return err
	}
	c.status, c.answer = audit.StatusOK, tools.Answer{Text: r.Text(), Data: r}
	return nil
}

func named(session string) string {
	if session == "" {
		return ""
	}
	return " called " + session
}

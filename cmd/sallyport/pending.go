package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// pendingFile is what a program finds of a request that waits, or has been decided
// and not used: a headless run that ended with code 75 goes on from here. Its JSON
// is stable.
type pendingFile struct {
	ID        string           `json:"id"`
	State     approval.State   `json:"state"` // pending, approved or denied
	Tier      policy.Tier      `json:"tier"`
	Agent     string           `json:"agent"`
	Session   string           `json:"session"`
	Tool      string           `json:"tool"`
	Workspace string           `json:"workspace"`
	Batch     string           `json:"batch,omitempty"`
	Summary   string           `json:"summary"`
	Reasons   []policy.RuleHit `json:"reasons"` // of the rules that fired
	Risks     []string         `json:"risks"`
	Changed   []string         `json:"changed"` // since an earlier request for the same call
	Cut       []string         `json:"cut"`     // what show leaves out
	Show      *approval.Show   `json:"show"`    // what a person is shown
	Shown     string           `json:"shown"`   // its digest, for --seen
	Created   time.Time        `json:"created"`
	Expires   time.Time        `json:"expires"`
	Approve   []string         `json:"approve"` // the command of a person who has seen it
	Deny      []string         `json:"deny"`
	By        string           `json:"by,omitempty"`     // who decided
	Advice    string           `json:"advice,omitempty"` // of whoever denied it
}

// pendingFiles keeps one file for each request that is open or was denied of late,
// named by its id. Its methods may be called concurrently.
type pendingFiles struct {
	dir   string
	state string // folder that the commands name
	desk  *approval.Desk
	log   *slog.Logger

	mu sync.Mutex
}

// pendingDir is where the files lie.
func pendingDir(p place, c config) string {
	if c.PendingDir != "" {
		return c.PendingDir
	}
	return filepath.Join(p.state, "pending")
}

func openPendingFiles(p place, c config, desk *approval.Desk, log *slog.Logger) (*pendingFiles, error) {
	f := &pendingFiles{dir: pendingDir(p, c), state: p.state, desk: desk, log: log}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make pending_dir: %w", err)
	}
	return f, f.syncAll()
}

func (f *pendingFiles) path(id string) string { return filepath.Join(f.dir, id+".json") }

// sync makes the file of one request what the desk now says of it.
func (f *pendingFiles) sync(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(id); err != nil {
		f.log.Error("keep the file of a request", "id", id, "err", err)
	}
}

func (f *pendingFiles) write(id string) error {
	r, err := f.desk.Get(id)
	if errors.Is(err, approval.ErrNotFound) || err == nil && (r.ID != id || !f.wanted(r)) {
		if err := os.Remove(f.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(f.of(r), "", "  ")
	if err != nil {
		return err
	}
	return replacePrivate(f.path(r.ID), append(b, '\n'))
}

// wanted reports whether a program still learns something from r's file: a denial
// stands for as long as it is repeated to the agent.
func (f *pendingFiles) wanted(r approval.Request) bool {
	return r.State.Open() || r.State == approval.StateDenied && time.Since(r.Decided) < approval.DefaultDeniedFor
}

func (f *pendingFiles) of(r approval.Request) pendingFile {
	out := pendingFile{
		ID: r.ID, State: r.State, Tier: r.Tier, Agent: r.Agent, Session: r.Session, Tool: r.Tool, Workspace: r.Workspace, Batch: r.Batch,
		Summary: r.Summary, Reasons: r.Rules, Risks: orNone(r.Risks), Changed: orNone(r.Changed), Cut: orNone(r.Cut), Show: r.Show, Shown: r.Shown,
		Created: r.Created, Expires: r.Expires, Advice: r.Advice,
		Approve: []string{"sallyport", "--state", f.state, "approvals", "approve", r.ID, "--seen", r.Shown},
		Deny:    []string{"sallyport", "--state", f.state, "approvals", "deny", r.ID},
	}
	var by []string
	for _, v := range r.Votes {
		by = append(by, v.Person.String())
	}
	out.By = strings.Join(by, ", ")
	return out
}

func orNone(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// syncAll makes all files what the desk now says.
func (f *pendingFiles) syncAll() error {
	open, err := f.desk.List(approval.Filter{})
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, r := range open {
		ids[r.ID] = true
	}
	for _, id := range f.ids() {
		ids[id] = true
	}
	for id := range ids {
		f.sync(id)
	}
	return nil
}

// tidy takes away the files of requests that are over.
func (f *pendingFiles) tidy() {
	for _, id := range f.ids() {
		if r, err := f.desk.Get(id); errors.Is(err, approval.ErrNotFound) || err == nil && !f.wanted(r) {
			f.sync(id)
		}
	}
}

// ids are the requests that have a file.
func (f *pendingFiles) ids() []string {
	all, _ := filepath.Glob(filepath.Join(f.dir, "*.json")) // the pattern is good
	for i := range all {
		all[i] = strings.TrimSuffix(filepath.Base(all[i]), ".json")
	}
	return all
}

// replacePrivate puts a file in place whole, for its owner alone.
func replacePrivate(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".pending-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// filedDesk is the desk as calls meet it: the file of a request is there before the
// answer that names it.
type filedDesk struct {
	*approval.Desk
	files *pendingFiles
}

func (d filedDesk) Settle(ctx context.Context, a approval.Ask) (approval.Outcome, error) {
	out, err := d.Desk.Settle(ctx, a)
	if out.Request.ID != "" {
		d.files.sync(out.Request.ID)
	}
	return out, err
}

func (d filedDesk) Announce(ctx context.Context, asks []approval.Ask) (approval.Batch, error) {
	b, err := d.Desk.Announce(ctx, asks)
	for _, out := range b.Outcomes {
		if out.Request.ID != "" {
			d.files.sync(out.Request.ID)
		}
	}
	return b, err
}

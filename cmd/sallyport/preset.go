package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

// presetNames are the presets there are; what each means is policy data.
var presetNames = []string{"strict", "worktree", "solo"}

// choice is a person's choice of a preset for one workspace.
type choice struct {
	Preset string    `json:"preset"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// presets are the presets of workspaces: a person's choice, else the one of
// config.yaml. Whoever holds the log's lock is the file's only user.
type presets struct {
	file      string
	otherwise string // of config.yaml

	mu     sync.RWMutex
	chosen map[string]choice // by workspace
}

func openPresets(p place, otherwise string) (*presets, error) {
	s := &presets{file: filepath.Join(p.state, "presets.json"), otherwise: otherwise, chosen: map[string]choice{}}
	b, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the workspaces' presets: %w", err)
	}
	return s, decodeJSON(b, &s.chosen)
}

// presetOf is a preset that holds somewhere, and why. Its JSON is stable.
type presetOf struct {
	Workspace string `json:"workspace"`
	Preset    string `json:"preset"`
	// From is "workspace", "repository" (chosen for the main tree of a linked
	// worktree) or "config".
	From string    `json:"from"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// of is the preset of a workspace.
func (s *presets) of(root string) presetOf {
	s.mu.RLock()
	c, ok := s.chosen[root]
	s.mu.RUnlock()
	if ok {
		return presetOf{root, c.Preset, "workspace", c.By, c.At}
	}
	if main := sandbox.ReadHead(root).Main; main != "" {
		s.mu.RLock()
		c, ok = s.chosen[main]
		s.mu.RUnlock()
		if ok {
			return presetOf{root, c.Preset, "repository", c.By, c.At}
		}
	}
	return presetOf{Workspace: root, Preset: s.otherwise, From: "config"}
}

// all lists the choices by workspace.
func (s *presets) all() []presetOf {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []presetOf{}
	for _, root := range sortedKeys(s.chosen) {
		c := s.chosen[root]
		out = append(out, presetOf{root, c.Preset, "workspace", c.By, c.At})
	}
	return out
}

// set takes over a choice once record has kept it; an empty preset takes one back.
func (s *presets) set(root string, c choice, record func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := record(); err != nil {
		return err
	}
	old, had := s.chosen[root]
	if c.Preset == "" {
		delete(s.chosen, root)
	} else {
		s.chosen[root] = c
	}
	err := replaceFile(s.file, asJSON(s.chosen))
	if err == nil {
		return nil
	}
	delete(s.chosen, root)
	if had {
		s.chosen[root] = old
	}
	return fmt.Errorf("keep the preset (the one before still holds): %w", err)
}

// preset is the preset of a workspace with its meaning.
func (d *daemon) preset(root string) (string, policy.Preset) {
	name := d.presets.of(root).Preset
	if d.judges.ready(context.Background()) != nil { // a policy that is broken lets nobody through anyway
		return name, policy.Preset{}
	}
	return name, d.judges.base.engine.Data().Presets[name]
}

// presetIn asks for a preset; an empty one takes the choice back.
type presetIn struct {
	Workspace string `json:"workspace"`
	Preset    string `json:"preset"`
}

// presetRoutes are the routes about presets. Only a person changes one, and that
// is recorded before it holds.
func presetRoutes(m *http.ServeMux, p place, s *presets, desk *approval.Desk, log appender, personOf func(*http.Request) approval.Person) {
	m.HandleFunc("GET /v1/presets", func(w http.ResponseWriter, r *http.Request) {
		root := r.URL.Query().Get("workspace")
		if root == "" {
			answer(w, s.all(), nil)
			return
		}
		root, err := p.checkWorkspace(root)
		answer(w, s.of(root), err)
	})
	m.HandleFunc("POST /v1/presets", func(w http.ResponseWriter, r *http.Request) {
		var in presetIn
		if !read(w, r, &in) {
			return
		}
		out, err := setPreset(r.Context(), p, s, desk, log, personOf(r), in)
		answer(w, out, err)
	})
}

func setPreset(ctx context.Context, p place, s *presets, desk *approval.Desk, log appender, by approval.Person, in presetIn) (presetOf, error) {
	if in.Preset != "" && !slices.Contains(presetNames, in.Preset) {
		return presetOf{}, fmt.Errorf("%w: preset %q is not one of %s", approval.ErrInvalid, in.Preset, strings.Join(presetNames, ", "))
	}
	root, err := p.checkWorkspace(in.Workspace)
	if err != nil {
		return presetOf{}, err
	}
	if err := desk.May(by, self().user); err != nil {
		return presetOf{}, fmt.Errorf("choose a preset: %w", err)
	}
	was := s.of(root)
	err = s.set(root, choice{in.Preset, by.String(), time.Now()}, func() error {
		_, err := log.Append(ctx, audit.Record{
			Kind: audit.KindEvent, Event: "preset.set", Workspace: root, Person: by.String(),
			Detail: asJSON(map[string]string{"from": was.Preset, "to": in.Preset}),
		})
		if err != nil {
			return fmt.Errorf("record the preset (nothing changed): %w", err)
		}
		return nil
	})
	return s.of(root), err
}

func newPreset() *cobra.Command {
	var dir string
	var all, forget bool
	cmd := &cobra.Command{
		Use: "preset [strict|worktree|solo]", Short: "Show or choose what a change of code needs in a workspace",
		Long: `Show the preset of a workspace, or choose one. It says what becomes of L2 calls:

  strict    a person confirms each
  worktree  they proceed inside a linked git worktree, and are confirmed when it is merged;
            elsewhere a person confirms each
  solo      a person's first approval covers the session's other L2 calls, and the prompt of
            the agent's own host may confirm one

No preset touches L3 or the floors. A choice holds at once, also for agents at work, survives
restarts and is recorded; agents cannot make one. It holds for the linked worktrees of the
workspace too, unless they have their own.`,
		Example: `  sallyport preset
  sallyport preset worktree --workspace ~/src/app`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: presetNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (forget || all) && len(args) > 0 || forget && all {
				return &exit{exitUsage, errors.New("give a preset, --forget or --all")}
			}
			b, err := openBackend(cmd, needDesk)
			if err != nil {
				return err
			}
			defer b.close()
			if all {
				return listPresets(cmd, b)
			}
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			in := presetIn{Workspace: root}
			if len(args) > 0 {
				in.Preset = args[0]
			}
			return onePreset(cmd, b, in, forget || len(args) > 0)
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "workspace (default: the current folder)")
	cmd.Flags().BoolVar(&all, "all", false, "list every workspace that has a preset of its own")
	cmd.Flags().BoolVar(&forget, "forget", false, "take the choice back: the preset of config.yaml holds again")
	return cmd
}

// onePreset shows the preset of a workspace, after it was chosen where that is
// asked.
func onePreset(cmd *cobra.Command, b *backend, in presetIn, choose bool) error {
	var out presetOf
	var err error
	if choose {
		err = b.do(cmd.Context(), http.MethodPost, "/v1/presets", in, &out)
	} else {
		err = b.do(cmd.Context(), http.MethodGet, "/v1/presets"+query("workspace", in.Workspace), nil, &out)
	}
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), out)
	}
	fmt.Fprintln(cmd.OutOrStdout(), out)
	return nil
}

func listPresets(cmd *cobra.Command, b *backend) error {
	var list []presetOf
	if err := b.do(cmd.Context(), http.MethodGet, "/v1/presets", nil, &list); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no workspace has a preset of its own")
	}
	for _, p := range list {
		fmt.Fprintln(cmd.OutOrStdout(), p)
	}
	return nil
}

func (p presetOf) String() string {
	switch p.From {
	case "workspace":
		return fmt.Sprintf("%s  %s  by %s at %s", p.Preset, p.Workspace, p.By, p.At.Local().Format("2006-01-02 15:04:05"))
	case "repository":
		return fmt.Sprintf("%s  %s  as its repository, by %s at %s", p.Preset, p.Workspace, p.By, p.At.Local().Format("2006-01-02 15:04:05"))
	}
	return fmt.Sprintf("%s  %s  by config.yaml", p.Preset, p.Workspace)
}

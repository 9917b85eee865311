package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// hostTools are the host's own tools that would go round the gate. Glob and
// Grep come back when Bash is denied, so they are named too.
var hostTools = [...]string{"Bash", "Edit", "Write", "NotebookEdit", "Read", "Glob", "Grep"}

func newInstall() *cobra.Command {
	var deny, dry bool
	var dir string
	cmd := &cobra.Command{
		Use:   "install claude",
		Short: "Plug sallyport into Claude Code for one project",
		Long: `Write the MCP entry for Claude Code into .mcp.json of the project; with --deny-host-tools also
deny the host's own Bash, Edit, Write, Read, Glob and Grep in .claude/settings.json, so that
nothing goes round the gate. It shows what it changes; uninstall restores the files byte for byte.`,
		Example:   "  sallyport install claude --deny-host-tools",
		ValidArgs: []string{"claude"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := newInstaller(cmd, dir)
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find sallyport's own binary: %w", err)
			}
			files := []edit{{".mcp.json", func(m map[string]any) error { return addServer(m, self) }}}
			if deny {
				files = append(files, edit{".claude/settings.json", denyHostTools})
			}
			return i.apply(files, dry)
		},
	}
	cmd.Flags().BoolVar(&deny, "deny-host-tools", false, "also deny Claude Code's own Bash, Edit, Write, Read, Glob and Grep")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change and change nothing")
	cmd.Flags().StringVar(&dir, "workspace", "", "project folder (default: the current one)")
	return cmd
}

func newUninstall() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:       "uninstall claude",
		Short:     "Take sallyport out of Claude Code again",
		Long:      "Restore every file that `sallyport install claude` changed, byte for byte.",
		Example:   "  sallyport uninstall claude",
		ValidArgs: []string{"claude"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := newInstaller(cmd, dir)
			if err != nil {
				return err
			}
			return i.restore()
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "project folder (default: the current one)")
	return cmd
}

func addServer(m map[string]any, self string) error {
	servers, err := object(m, "mcpServers")
	if err != nil {
		return err
	}
	servers["sallyport"] = map[string]any{"type": "stdio", "command": self, "args": []any{"mcp"}, "alwaysLoad": true}
	return nil
}

func denyHostTools(m map[string]any) error {
	permissions, err := object(m, "permissions")
	if err != nil {
		return err
	}
	list, ok := permissions["deny"].([]any)
	if permissions["deny"] != nil && !ok {
		return errors.New(`"permissions.deny" is not a list`)
	}
	have := map[any]bool{}
	for _, v := range list {
		if s, ok := v.(string); ok {
			have[s] = true
		}
	}
	for _, t := range hostTools {
		if !have[t] {
			list = append(list, t)
		}
	}
	permissions["deny"] = list
	return nil
}

func object(m map[string]any, key string) (map[string]any, error) {
	if m[key] == nil {
		m[key] = map[string]any{}
	}
	o, ok := m[key].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%q is not an object", key)
	}
	return o, nil
}

// edit changes one JSON file of the project.
type edit struct {
	file   string
	change func(map[string]any) error
}

// installer changes files of one project and keeps what they were under the
// state folder.
type installer struct {
	cmd  *cobra.Command
	root string
	kept string // folder with the originals
}

// original is one file as it was before the first install.
type original struct {
	File   string `json:"file"`
	Absent bool   `json:"absent"`
	Data   []byte `json:"data,omitempty"`
	After  []byte `json:"after"`   // what install wrote
	NewDir string `json:"new_dir"` // the topmost folder install made; "" for none
}

func newInstaller(cmd *cobra.Command, dir string) (*installer, error) {
	p, err := placeOf(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.make(); err != nil {
		return nil, err
	}
	root, err := workspace(dir)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	kept := filepath.Join(p.state, "install", cliSession(root)+".json")
	return &installer{cmd: cmd, root: root, kept: kept}, os.MkdirAll(filepath.Dir(kept), 0o700)
}

// apply changes every file or none. A second install changes nothing more.
func (i *installer) apply(edits []edit, dry bool) error {
	saved, err := i.saved()
	if err != nil {
		return err
	}
	var todo []original
	for _, e := range edits {
		o, changed, err := i.plan(e)
		if err != nil {
			return fmt.Errorf("change %s: %w", e.file, err)
		}
		if changed {
			todo = append(todo, o)
		}
	}
	out := i.cmd.OutOrStdout()
	if len(todo) == 0 {
		fmt.Fprintln(out, "nothing to change: sallyport is installed already")
		return nil
	}
	for _, o := range todo {
		fmt.Fprint(out, i.shown(o))
	}
	if dry {
		return nil
	}
	if err := i.save(merge(saved, todo)); err != nil {
		return err
	}
	for _, o := range todo {
		if err := replaceFile(filepath.Join(i.root, o.File), o.After); err != nil {
			return fmt.Errorf("write %s: %w (run `sallyport uninstall claude` to restore)", o.File, err)
		}
	}
	fmt.Fprintln(out, "done: start Claude Code in this folder; `sallyport uninstall claude` takes it back")
	return nil
}

// merge keeps the first original of each file and the newest content.
func merge(saved, todo []original) []original {
	out := append([]original(nil), saved...)
next:
	for _, o := range todo {
		for k := range out {
			if out[k].File == o.File {
				out[k].After = o.After
				continue next
			}
		}
		out = append(out, o)
	}
	return out
}

func (i *installer) plan(e edit) (original, bool, error) {
	o := original{File: e.file}
	path := filepath.Join(i.root, e.file)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		o.Absent = true
		o.NewDir = newDir(i.root, e.file)
	case err != nil:
		return o, false, err
	}
	o.Data = b
	m := map[string]any{}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &m); err != nil {
			return o, false, fmt.Errorf("it is not JSON: %w (mend it first; nothing was changed)", err)
		}
	}
	before, _ := json.Marshal(m)
	if err := e.change(m); err != nil {
		return o, false, err
	}
	after, err := json.Marshal(m)
	if err != nil {
		return o, false, err
	}
	if string(before) == string(after) {
		return o, false, nil
	}
	o.After, err = json.MarshalIndent(m, "", "  ")
	o.After = append(o.After, '\n')
	return o, true, err
}

// newDir is the topmost folder that has to be made for a file.
func newDir(root, file string) string {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(dir))); err == nil {
			if _, err := os.Stat(filepath.Join(root, dir)); errors.Is(err, os.ErrNotExist) {
				return dir
			}
		}
	}
	return ""
}

// restore puts every file back as it was, unless somebody changed it since.
func (i *installer) restore() error {
	saved, err := i.saved()
	if err != nil {
		return err
	}
	out := i.cmd.OutOrStdout()
	if len(saved) == 0 {
		fmt.Fprintln(out, "nothing to restore: sallyport is not installed here")
		return nil
	}
	for _, o := range saved {
		path := filepath.Join(i.root, o.File)
		if now, err := os.ReadFile(path); err == nil && string(now) != string(o.After) {
			return fmt.Errorf("%s was changed since the install: take the sallyport entries out by hand, then remove %s", o.File, i.kept)
		}
	}
	for _, o := range saved {
		path := filepath.Join(i.root, o.File)
		if !o.Absent {
			err = replaceFile(path, o.Data)
		} else if err = os.Remove(path); err == nil && o.NewDir != "" {
			_ = os.Remove(filepath.Join(i.root, o.NewDir)) // stays when something else is in it
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", o.File, err)
		}
		fmt.Fprintln(out, "restored", o.File)
	}
	return os.Remove(i.kept)
}

func (i *installer) saved() ([]original, error) {
	b, err := os.ReadFile(i.kept)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what install kept: %w", err)
	}
	var o []original
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, fmt.Errorf("read what install kept: %w", err)
	}
	return o, nil
}

func (i *installer) save(o []original) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return replaceFile(i.kept, b)
}

func (i *installer) shown(o original) string {
	return diff(o.File, o.Data, o.After)
}

// replaceFile writes a file whole or not at all, keeping its mode.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if i, err := os.Stat(path); err == nil {
		mode = i.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sallyport-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

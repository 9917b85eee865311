package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newInstall() *cobra.Command {
	var o installOptions
	var dry bool
	var dir string
	cmd := &cobra.Command{
		Use:   "install " + strings.Join(hostNames(), "|"),
		Short: "Plug sallyport into an agent host",
		Long: `Write sallyport's entry into a host's own configuration and show the change as a diff. Only
that entry is touched: order, indentation and comments of the file stay, and uninstall
restores it byte for byte.

  claude   .mcp.json of the project
  codex    ~/.codex/config.toml, for all projects ($CODEX_HOME)
  gemini   .gemini/settings.json of the project
  cursor   .cursor/mcp.json of the project
  vscode   .vscode/mcp.json of the project

A host keeps its own shell and file tools, which go round the gate. For claude and gemini
--deny-host-tools takes them away. Where a team keeps them, --hook (claude) has each call
judged by the same policy and recorded.`,
		Example: `  sallyport install claude --deny-host-tools
  sallyport install claude --hook
  sallyport install codex --dry-run`,
		ValidArgs: hostNames(),
		Args:      oneHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.deny && o.hook {
				return &exit{exitUsage, errors.New("choose one: --deny-host-tools takes the host's own tools away, --hook judges them")}
			}
			i, err := newInstaller(cmd, args[0], dir)
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find sallyport's own binary: %w", err)
			}
			edits, err := i.host.files(self, o)
			if err != nil {
				return &exit{exitUsage, err}
			}
			return i.apply(edits, self, dry)
		},
	}
	cmd.Flags().BoolVar(&o.deny, "deny-host-tools", false, "also take the host's own shell and file tools away")
	cmd.Flags().BoolVar(&o.hook, "hook", false, "also have the host's own tools judged and recorded (claude)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change and change nothing")
	cmd.Flags().StringVar(&dir, "workspace", "", "project folder (default: the current one)")
	return cmd
}

func newUninstall() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "uninstall " + strings.Join(hostNames(), "|"),
		Short: "Take sallyport out of an agent host again",
		Long: `Restore every file that ` + "`sallyport install`" + ` changed, byte for byte. Where somebody changed a
file since, only sallyport's entries are taken out of it.`,
		Example:   "  sallyport uninstall claude",
		ValidArgs: hostNames(),
		Args:      oneHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := newInstaller(cmd, args[0], dir)
			if err != nil {
				return err
			}
			return i.restore()
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "project folder (default: the current one)")
	return cmd
}

// oneHost wants the name of one host.
func oneHost(cmd *cobra.Command, args []string) error {
	known := strings.Join(hostNames(), ", ")
	switch {
	case len(args) != 1:
		return &exit{exitUsage, fmt.Errorf("name one host: %s (as in `%s claude`)", known, cmd.CommandPath())}
	case findHost(args[0]).name == "":
		return &exit{exitUsage, fmt.Errorf("unknown host %q: known are %s; any other MCP host starts `sallyport mcp` over stdio", args[0], known)}
	}
	return nil
}

// installer changes the files of one host and keeps what they were under the
// state folder.
type installer struct {
	cmd  *cobra.Command
	host host
	root string
	kept string // file with the originals
}

// original is one file as it was before the first install.
type original struct {
	File   string `json:"file"` // from the root
	Absent bool   `json:"absent"`
	Data   []byte `json:"data,omitempty"`
	After  []byte `json:"after"`   // what install wrote
	Self   string `json:"self"`    // the program that it wrote there
	NewDir string `json:"new_dir"` // the topmost folder install made; "" for none
}

func newInstaller(cmd *cobra.Command, name, dir string) (*installer, error) {
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
	h := findHost(name)
	if root, err = h.root(root); err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	} else if h.name != "codex" {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	sum := sha256.Sum256([]byte(root))
	kept := filepath.Join(p.state, "install", h.name+"-"+hex.EncodeToString(sum[:6])+".json")
	return &installer{cmd: cmd, host: h, root: root, kept: kept}, os.MkdirAll(filepath.Dir(kept), 0o700)
}

// path is where a file really lies: many keep their settings behind symlinks.
func (i *installer) path(file string) string {
	path := filepath.Join(i.root, file)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// apply changes every file or none. A second install changes nothing more.
func (i *installer) apply(edits []edit, self string, dry bool) error {
	saved, err := i.saved()
	if err != nil {
		return err
	}
	todo, err := i.plan(edits)
	if err != nil {
		return err
	}
	if done, err := i.announce(todo, dry); done || err != nil {
		return err
	}
	for k := range todo {
		todo[k].Self = self
	}
	if saved, err = i.merge(saved, todo); err != nil {
		return err
	}
	if err := i.save(saved); err != nil {
		return err
	}
	for _, o := range todo {
		if err := replaceFile(i.path(o.File), o.After); err != nil {
			return fmt.Errorf("write %s: %w (run `sallyport uninstall %s` to restore)", o.File, err, i.host.name)
		}
	}
	if !wantsJSON(i.cmd) {
		fmt.Fprintf(i.cmd.OutOrStdout(), "done in %s: %s; `sallyport uninstall %s` takes it back\n", i.root, i.host.next, i.host.name)
	}
	return nil
}

// installed is what install and uninstall print with --json.
type installed struct {
	Host  string        `json:"host"`
	Root  string        `json:"root"`
	Files []changedFile `json:"files"`
}

type changedFile struct {
	File string `json:"file"`
	What string `json:"what"` // "changed", "would change", "restored", "taken out", "gone"
	Diff string `json:"diff,omitempty"`
}

// announce shows what is about to change; done says that nothing will.
func (i *installer) announce(todo []original, dry bool) (done bool, err error) {
	out := i.cmd.OutOrStdout()
	if wantsJSON(i.cmd) {
		doc := installed{Host: i.host.name, Root: i.root, Files: []changedFile{}}
		for _, o := range todo {
			what := "changed"
			if dry {
				what = "would change"
			}
			doc.Files = append(doc.Files, changedFile{o.File, what, diff(o.File, o.Data, o.After)})
		}
		return dry || len(todo) == 0, printJSON(out, doc)
	}
	if len(todo) == 0 {
		fmt.Fprintln(out, "nothing to change: sallyport is installed already")
		return true, nil
	}
	for _, o := range todo {
		fmt.Fprint(out, diff(o.File, o.Data, o.After))
	}
	if dry {
		fmt.Fprintln(out, "this is what `sallyport install "+i.host.name+"` would change in "+i.root)
	}
	return dry, nil
}

// plan is what has to be written, one entry a file.
func (i *installer) plan(edits []edit) ([]original, error) {
	var todo []original
	at := map[string]int{}
	for _, e := range edits {
		o, err := i.read(e.file)
		if err != nil {
			return nil, err
		}
		doc := o.Data
		n, seen := at[e.file]
		if seen {
			doc = todo[n].After
		}
		after, changed, err := e.put(doc)
		if err != nil {
			return nil, fmt.Errorf("change %s: %w", e.file, err)
		}
		switch {
		case !changed:
		case seen:
			todo[n].After = after
		default:
			o.After = after
			at[e.file] = len(todo)
			todo = append(todo, o)
		}
	}
	return todo, nil
}

// read is a file as it is now.
func (i *installer) read(file string) (original, error) {
	o := original{File: file}
	b, err := os.ReadFile(i.path(file))
	switch {
	case errors.Is(err, os.ErrNotExist):
		o.Absent, o.NewDir = true, newDir(i.root, file)
	case err != nil:
		return o, fmt.Errorf("read %s: %w", file, err)
	}
	o.Data = b
	return o, nil
}

// merge keeps the first original of each file and the newest content. A file
// that somebody changed between two installs has a new original: what they made
// of it, without our entries.
func (i *installer) merge(saved, todo []original) ([]original, error) {
	out := append([]original(nil), saved...)
next:
	for _, o := range todo {
		for k := range out {
			if out[k].File != o.File {
				continue
			}
			if !o.Absent && string(o.Data) != string(out[k].After) {
				base, err := i.without(out[k], o.Data)
				if err != nil {
					return nil, fmt.Errorf("change %s: %w", o.File, err)
				}
				out[k].Data, out[k].Absent, out[k].NewDir = base, false, ""
			}
			out[k].After, out[k].Self = o.After, o.Self
			continue next
		}
		out = append(out, o)
	}
	return out, nil
}

// newDir is the topmost folder that has to be made for a file; "." for the root.
func newDir(root, file string) string {
	made := ""
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir)); !errors.Is(err, os.ErrNotExist) {
			return made
		}
		if made = dir; dir == "." {
			return made
		}
	}
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

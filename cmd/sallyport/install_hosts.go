package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// host is an agent host: which files plug sallyport into it and how.
type host struct {
	name, title string
	// root is the folder that the files are named from: the project, or the
	// host's own folder where it has no settings by project.
	root func(project string) (string, error)
	// files are the changes; self is the path of this program.
	files func(self string, o installOptions) ([]edit, error)
	next  string // what to do now
}

// installOptions are what a person may choose.
type installOptions struct {
	deny bool // deny the host's own tools
	hook bool // judge the host's own tools by the same policy
}

// edit changes one file. put and take are given the file's content, empty where
// there is none; put also tells whether it changed anything.
type edit struct {
	file string
	put  func(doc []byte) ([]byte, bool, error)
	take func(doc, before []byte) ([]byte, error)
}

// stdioServer is the entry of an MCP server that a host starts.
type stdioServer struct {
	Type       string   `json:"type,omitempty"`
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Timeout    int      `json:"timeout,omitempty"` // Gemini: milliseconds of a call
	AlwaysLoad bool     `json:"alwaysLoad,omitempty"`
}

// hostTools are Claude Code's own tools that would go round the gate. Glob and
// Grep come back when Bash is denied, so they are named too.
var hostTools = [...]string{"Bash", "Edit", "Write", "NotebookEdit", "Read", "Glob", "Grep"}

// geminiTools are Gemini CLI's own tools that would go round the gate.
var geminiTools = [...]string{
	"run_shell_command", "write_file", "replace", "read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search",
}

// hosts is the one list of hosts that install knows.
var hosts = [...]host{
	{"claude", "Claude Code", inProject, claudeFiles, "start Claude Code in this folder and approve the server sallyport when it asks"},
	{"codex", "Codex", codexHome, codexFiles, "start codex in a project; /mcp lists the server"},
	{"gemini", "Gemini CLI", inProject, geminiFiles, "start gemini in this folder; /mcp lists the server"},
	{"cursor", "Cursor", inProject, cursorFiles, "open this folder in Cursor and switch the server on under Settings, MCP"},
	{"vscode", "VS Code", inProject, vscodeFiles, "open this folder in VS Code and start the server from .vscode/mcp.json"},
}

func hostNames() []string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	return names
}

func findHost(name string) host {
	for _, h := range hosts {
		if h.name == name {
			return h
		}
	}
	return host{}
}

func inProject(project string) (string, error) { return project, nil }

// codexHome is where Codex keeps its configuration, for all projects.
func codexHome(string) (string, error) {
	if dir := os.Getenv("CODEX_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find Codex's folder: %w (set CODEX_HOME)", err)
	}
	return filepath.Join(home, ".codex"), nil
}

func claudeFiles(self string, o installOptions) ([]edit, error) {
	all := []edit{jsonServer(".mcp.json", "mcpServers", stdioServer{Type: "stdio", Command: self, Args: []string{"mcp"}, AlwaysLoad: true})}
	if o.deny {
		all = append(all, jsonList(".claude/settings.json", []string{"permissions", "deny"}, anys(hostTools[:])...))
	}
	if o.hook {
		for _, event := range []string{"PreToolUse", "PostToolUse"} {
			all = append(all, jsonList(".claude/settings.json", []string{"hooks", event}, claudeHook(self)))
		}
	}
	return all, nil
}

// claudeHook makes Claude Code ask `sallyport hook` before each of its own tools and
// tell it of the outcome.
// Only exit code 2 blocks a call: `|| exit 2` blocks it too when this program has
// moved. The time-out is in seconds.
func claudeHook(self string) any {
	type command struct {
		Type    string `json:"type"`
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	return struct {
		Matcher string    `json:"matcher"`
		Hooks   []command `json:"hooks"`
	}{strings.Join(hostTools[:], "|"), []command{{"command", shellQuoted(self) + " hook || exit 2", 60}}}
}

// shellQuoted is a path as one word of a shell.
func shellQuoted(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func codexFiles(self string, o installOptions) ([]edit, error) {
	if o.deny || o.hook {
		return nil, fmt.Errorf("codex has no setting that takes its own shell away: start it with --sandbox read-only, so that it can change things through sallyport only")
	}
	t := tomlTable{path: []string{"mcp_servers", "sallyport"}, lines: []string{
		"command = " + tomlString(self), `args = ["mcp"]`,
		"startup_timeout_sec = 30", "tool_timeout_sec = 600", // Codex gives up after 10 s and 60 s
	}}
	return []edit{{"config.toml", t.put, func(doc, _ []byte) ([]byte, error) { return t.take(doc) }}}, nil
}

// tomlString is a basic string, which is written as a JSON string is.
func tomlString(s string) string { return string(asJSON(s)) }

func geminiFiles(self string, o installOptions) ([]edit, error) {
	if o.hook {
		return nil, errNoHook("gemini")
	}
	all := []edit{jsonServer(".gemini/settings.json", "mcpServers", stdioServer{Command: self, Args: []string{"mcp"}, Timeout: 600_000})}
	if o.deny {
		all = append(all, jsonList(".gemini/settings.json", []string{"tools", "exclude"}, anys(geminiTools[:])...))
	}
	return all, nil
}

func cursorFiles(self string, o installOptions) ([]edit, error) {
	return editorFiles("cursor", ".cursor/mcp.json", "mcpServers", self, o)
}

func vscodeFiles(self string, o installOptions) ([]edit, error) {
	return editorFiles("vscode", ".vscode/mcp.json", "servers", self, o)
}

// editorFiles is the entry of an editor, which starts servers in a folder of its
// own choice and fills in the workspace's.
func editorFiles(name, file, key, self string, o installOptions) ([]edit, error) {
	if o.deny {
		return nil, fmt.Errorf("%s has no file that takes its agent's own tools away: switch its terminal and edit tools off in its settings", name)
	}
	if o.hook {
		return nil, errNoHook(name)
	}
	return []edit{jsonServer(file, key, stdioServer{
		Type: "stdio", Command: self, Args: []string{"mcp", "--workspace", "${workspaceFolder}", "--agent", name},
	})}, nil
}

func errNoHook(name string) error {
	return fmt.Errorf("%s has no hook that sallyport speaks; --hook is for claude", name)
}

// jsonServer puts the server's entry into a JSON file.
func jsonServer(file, key string, entry stdioServer) edit {
	path := []string{key, "sallyport"}
	return edit{
		file: file,
		put: func(doc []byte) ([]byte, bool, error) {
			d, err := parseJSON(doc)
			if err != nil {
				return nil, false, err
			}
			changed, err := d.set(path, entry)
			return d.bytes(), changed, err
		},
		take: func(doc, _ []byte) ([]byte, error) {
			d, err := parseJSON(doc)
			if err != nil {
				return nil, err
			}
			err = d.unset(path)
			return d.bytes(), err
		},
	}
}

// jsonList puts values into an array of a JSON file. Those that were there
// before stay when it is taken back.
func jsonList(file string, path []string, values ...any) edit {
	return edit{
		file: file,
		put: func(doc []byte) ([]byte, bool, error) {
			d, err := parseJSON(doc)
			if err != nil {
				return nil, false, err
			}
			changed, err := d.include(path, values...)
			return d.bytes(), changed, err
		},
		take: func(doc, before []byte) ([]byte, error) {
			d, err := parseJSON(doc)
			if err != nil {
				return nil, err
			}
			old, err := parseJSON(before)
			if err != nil {
				return nil, err
			}
			var added []any
			for _, v := range values {
				lacked, err := old.include(path, v)
				if err != nil {
					return nil, err
				}
				if lacked {
					added = append(added, v)
				}
			}
			err = d.exclude(path, added...)
			return d.bytes(), err
		},
	}
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

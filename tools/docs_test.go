package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

var update = flag.Bool("update", false, "write docs/tools.md anew")

const docsPath = "../docs/tools.md"

// examples are calls shown in the documentation; those of file tools are made
// for real and shown with their answers, one after another in one workspace.
var examples = map[string][]string{
	"read_file":      {`{"path":"main.go","offset":3,"limit":2}`, `{"path":"missing.go"}`},
	"list_directory": {`{"depth":2}`},
	"glob":           {`{"pattern":"**/*.go"}`},
	"grep":           {`{"pattern":"func \\w+","output_mode":"content","-A":1}`},
	"write_file":     {`{"path":"docs/setup.md","content":"# Setup\n"}`},
	"edit_file":      {`{"path":"main.go","old_string":"Hello","new_string":"Good day"}`, `{"path":"main.go","old_string":"fmt","new_string":"log"}`},
	"run_command":    {`{"command":"go vet ./... 2>&1 | head -50","timeout_ms":60000}`, `{"argv":["gofmt","-w","main.go"],"write":true,"description":"format main.go"}`},
	"run_tests":      {`{"test_pattern":"TestParse"}`},
	"git_status":     {`{}`},
	"git_diff":       {`{"staged":true,"path":"main.go"}`},
	"git_log":        {`{"limit":5,"ref":"main..HEAD"}`},
	"git_add":        {`{"paths":["main.go","docs"]}`},
	"git_commit":     {`{"message":"Greet politely\n\nThe greeting sounded curt."}`},
}

// TestDocsAreCurrent keeps docs/tools.md the same as the list; run it with
// -update to write the page.
func TestDocsAreCurrent(t *testing.T) {
	t.Parallel()
	page := docs(t)
	if *update {
		require.NoError(t, os.MkdirAll("../docs", 0o755))
		require.NoError(t, os.WriteFile(docsPath, []byte(page), 0o644))
	}
	have, err := os.ReadFile(docsPath)
	require.NoError(t, err, "write it with: go test ./tools -run TestDocsAreCurrent -update")
	assert.Equal(t, page, string(have), "docs/tools.md is stale; write it with: go test ./tools -run TestDocsAreCurrent -update")
}

func docs(t *testing.T) string {
	b := newBench(t, map[string]string{"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"Hello\")\n}\n", "go.mod": "module example\n"})
	var w bytes.Buffer
	w.WriteString(`# Tools

This page is written from the list in the package tools by a test; edit the tools, not the page.

Tiers: L0 looks, L1 runs locally and changes nothing, L2 changes code, L3 changes configuration, databases or the
outside world. A tool's tier here is the usual one; the decision on each call is the policy's, by what the call would do.

`)
	for _, tool := range All() {
		fmt.Fprintf(&w, "- [%s](#%s): %s\n", tool.Name, tool.Name, tool.Title)
	}
	w.WriteString("- [How files are confined](#how-files-are-confined)\n- [When a call fails](#when-a-call-fails)\n")
	for _, tool := range All() {
		fmt.Fprintf(&w, "\n## %s\n\n%s\n\nAnnotations: %s.\n", tool.Name, tool.Description, annotations(tool))
		writeArguments(t, &w, tool)
		require.NotEmpty(t, examples[tool.Name], "an example of %s", tool.Name)
		for _, args := range examples[tool.Name] {
			fmt.Fprintf(&w, "\n```json\n%s\n```\n", args)
			a, err := tool.Parse(json.RawMessage(args))
			require.NoError(t, err)
			if act, err := tool.Plan(a, b.place()); err == nil && act.Exec == nil {
				fmt.Fprintf(&w, "\n```text\n%s\n```\n", b.call(tool.Name, args).Text)
			}
		}
	}
	writeConfinement(&w)
	writeFailures(t, &w, b)
	return w.String()
}

func annotations(tool Tool) string {
	words := []string{"changes something"}
	if tool.ReadOnly {
		words = []string{"read-only"}
	}
	for word, set := range map[string]bool{"destructive": tool.Destructive, "idempotent": tool.Idempotent, "open world": tool.OpenWorld} {
		if set {
			words = append(words, word)
		}
	}
	slices.Sort(words[1:])
	return strings.Join(words, ", ")
}

func writeArguments(t *testing.T, w *bytes.Buffer, tool Tool) {
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Type        string
			Description string
			Enum        []string
			Minimum     *json.Number
			Maximum     *json.Number
		}
	}
	require.NoError(t, json.Unmarshal(tool.Input, &schema))
	if len(schema.Properties) == 0 {
		w.WriteString("\nNo arguments.\n")
		return
	}
	var names []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { // in the order the schema was written
		return bytes.Index(tool.Input, []byte(`"`+a+`":{`)) - bytes.Index(tool.Input, []byte(`"`+b+`":{`))
	})
	w.WriteString("\n| argument | type | |\n|---|---|---|\n")
	for _, name := range names {
		p := schema.Properties[name]
		kind := p.Type
		if p.Minimum != nil && p.Maximum != nil {
			kind += fmt.Sprintf(" %s…%s", *p.Minimum, *p.Maximum)
		}
		if len(p.Enum) > 0 {
			kind = strings.Join(p.Enum, ", ")
		}
		if slices.Contains(schema.Required, name) {
			kind += ", required"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", name, kind, strings.ReplaceAll(p.Description, "|", `\|`))
	}
}

func writeConfinement(w *bytes.Buffer) {
	fmt.Fprintf(w, `
## How files are confined

The file tools reach nothing outside the workspace. Every path is walked from a descriptor of the workspace's root, one
component at a time, and the kernel is never asked to follow a link; so a directory that is swapped for a link between a
check and its use makes the call fail and nothing else.

- Symbolic links are followed when they end inside the workspace (the answer names the real file), else refused.
- Devices, FIFOs and sockets are refused without opening them.
- A write makes a new file and puts it in the old one's place. It happens whole or not at all, also on a full disk or a
  crash; another hard link of the old file stays as it was; mode and owner are kept, set-uid bits and extended attributes
  are not. As root, new files belong to the owner of the workspace.
- A file that changed after it was judged is not written.
- A command's changes wait in a layer and land file by file under the same rules; when one of the files changed in the
  workspace meanwhile, none lands.

What cannot be told apart: reading a file that is also a hard link of one outside, and a mount placed in the workspace.

| bound | |
|---|---|
| lines of a read without limit | %d |
| largest file read_file reads | %d MiB |
| largest file edit_file edits | %d MiB |
| largest file grep looks through | %d MiB |
| lines or files grep returns without head_limit | %d |
| characters of an answer | %d |
| characters of one line | %d |
| bytes of a call's arguments | %d MiB |
`, sandbox.DefaultReadLines, sandbox.MaxReadFile>>20, sandbox.MaxEditFile>>20, sandbox.MaxSearchFile>>20, sandbox.DefaultSearchLimit, maxText, maxLine, maxArgs>>20)
}

func writeFailures(t *testing.T, w *bytes.Buffer, b *bench) {
	w.WriteString(`
## When a call fails

Every failure has a kind, a class and a remedy, in the text for the model and as JSON for programs.

| kind | means |
|---|---|
| ` + "`tool_not_found`" + ` | there is no tool of that name |
| ` + "`invalid_parameters`" + ` | the arguments do not fit the tool's schema; nothing was planned |
| ` + "`execution_failed`" + ` | the call was planned and could not be carried out, or the program failed |
| ` + "`timeout`" + ` | it ran longer than it was allowed to |

| class | means |
|---|---|
| ` + "`transient`" + ` | the same call may work later |
| ` + "`fixable`" + ` | other arguments will work |
| ` + "`unrecoverable`" + ` | the agent cannot change it; a person may |

Some failures as a model sees them:
`)
	for _, c := range [][2]string{
		{"read_file", `{"path":"../secrets"}`}, {"read_file", `{"path":"main.go","PATH":"other.go"}`}, {"edit_file", `{"path":"main.go","old_string":"  fmt.Println","new_string":"x"}`},
		{"grep", `{"pattern":"(?=x)"}`}, {"run_command", `{}`},
	} {
		fmt.Fprintf(w, "\n%s `%s`\n\n```text\n%s\n```\n", c[0], c[1], b.call(c[0], c[1]).Text)
	}
	fmt.Fprintf(w, "\nbash\n\n```text\n%s\n```\n", NotFound("bash").Text())
}

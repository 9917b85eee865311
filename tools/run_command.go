package tools

import (
	"fmt"
	"strings"
	"time"

	"sallyport/sandbox"
)

type runCommandArgs struct {
	Command     string             `json:"command"`
	Argv        []string           `json:"argv"`
	Dir         string             `json:"dir"`
	TimeoutMS   int64              `json:"timeout_ms"`
	Write       bool               `json:"write"`
	Profile     string             `json:"profile"`
	Network     []sandbox.Endpoint `json:"network"`
	Description string             `json:"description"`
}

func runCommand() Tool {
	return define(Tool{
		Name:  "run_command",
		Title: "Run a command",
		Description: `Runs a command in a sandbox: command is a text for bash, or argv a program and its arguments. Tier L1 (at once) while it changes nothing and needs no network; L2 or L3 for what it could do beyond that. ` + pendingNote + `

Without write the workspace is read-only (builds and tests get a throw-away copy), unless the command is one that plainly writes, which is then L2. With write: true changes are judged when the command ends and then kept: ask for it only when files must change. There is no network unless network names the hosts and ports needed. Home and other projects are not visible. Processes left behind are ended; time-out is 2 minutes unless timeout_ms says otherwise. A failure begins with "Exit code N".

Prefer read_file, grep, glob, edit_file, run_tests and the git tools: they need fewer approvals and answer in a form made for you. Dangerous commands (rm -rf /, git push --force, chmod 777, writing to devices) are refused in every spelling.`,
		Destructive: true, OpenWorld: true,
	}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"command": {"type": "string", "minLength": 1, "maxLength": 32768, "description": "Text for bash -c, such as \"go vet ./... 2>&1 | head -50\""},
			"argv": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string", "maxLength": 32768}, "description": "Program and arguments without a shell, such as [\"go\", \"build\", \"./...\"]; instead of command"},
			"dir": {"type": "string", "description": "Directory to run in, relative to the workspace; the workspace itself when not given"},
			"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3600000, "description": "Most milliseconds it may run; 120000 when not given"},
			"write": {"type": "boolean", "description": "Ask to keep what the command changes in the workspace; false when not given"},
			"profile": {"type": "string", "enum": ["default", "strict", "no-delete", "debug"], "description": "System calls it may make: strict takes more away, no-delete stops every removal of a file, debug lets gdb and strace trace its own processes"},
			"network": {"type": "array", "maxItems": 32, "description": "Ask to reach these endpoints; none when not given", "items": {
				"type": "object", "additionalProperties": false, "required": ["host", "port"],
				"properties": {
					"host": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Host name, such as \"git.corp.example\"; no wildcard"},
					"port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Port, such as 443"}
				}
			}},
			"description": {"type": "string", "maxLength": 500, "description": "What the command is for, in a few words, for the person who may have to approve it"}
		}
	}`, planRunCommand, answerRunCommand)
}

func planRunCommand(a runCommandArgs, p Place) (sandbox.Action, error) {
	if (a.Command == "") == (len(a.Argv) == 0) {
		return sandbox.Action{}, invalid("arguments of run_command: give exactly one of command and argv", `pass command as text for bash, or argv as ["program", "argument"]`)
	}
	e := sandbox.Exec{
		Argv: a.Argv, Shell: a.Command, Dir: p.rel(a.Dir), Timeout: time.Duration(a.TimeoutMS) * time.Millisecond,
		Write: sandbox.WriteTransaction, Asked: a.Write, Profile: a.Profile,
	}
	for _, n := range a.Network {
		n.Host = strings.TrimSuffix(strings.ToLower(n.Host), ".")
		e.Net = append(e.Net, n)
	}
	return sandbox.Action{Exec: &e}, nil
}

// execData is the stable JSON of a program's end.
type execData struct {
	Exit        int                `json:"exit"`
	Signal      string             `json:"signal,omitempty"`
	StdoutBytes int64              `json:"stdout_bytes"`
	StderrBytes int64              `json:"stderr_bytes"`
	Cut         bool               `json:"cut"` // output was lost to a limit
	Hit         []sandbox.LimitHit `json:"limits_hit,omitempty"`
	Denials     []sandbox.Denial   `json:"denials,omitempty"`
	Changes     []sandbox.Change   `json:"changes,omitempty"`
	Usage       sandbox.Usage      `json:"usage"`
}

func dataOf(res sandbox.Result) execData {
	return execData{
		Exit: res.Exit, Signal: res.Signal, StdoutBytes: res.Stdout.Total, StderrBytes: res.Stderr.Total,
		Cut: res.Stdout.Cut() || res.Stderr.Cut(), Hit: res.Hit, Denials: res.Denials, Changes: res.Changes, Usage: res.Usage,
	}
}

func answerRunCommand(a runCommandArgs, act sandbox.Action, res sandbox.Result) Answer {
	return commandAnswer(res, streams(res))
}

// commandAnswer words a program's end around its output.
func commandAnswer(res sandbox.Result, output string) Answer {
	notes := notesOf(res)
	body := clippedTail(output, maxText-len([]rune(notes))-100)
	if res.Exit == 0 {
		if body == "" {
			body = "(no output)"
		}
		return Answer{Text: body + notes, Data: dataOf(res)}
	}
	f := &Failure{Kind: KindExecutionFailed, Class: Fixable, Msg: exitWords(res), Remedy: "read the output, correct the command and call again"}
	for _, h := range res.Hit {
		if h.Limit == "wall" {
			f.Kind, f.Remedy = KindTimeout, "raise timeout_ms or do less at once"
		}
	}
	if len(res.Denials) > 0 {
		f.Remedy = res.Denials[0].Remedy
	}
	text := exitWords(res)
	if body != "" {
		text += "\n" + body
	}
	return failed(f, text+notes, dataOf(res))
}

func exitWords(res sandbox.Result) string {
	if res.Signal != "" {
		return fmt.Sprintf("Exit code %d (ended by %s)", res.Exit, res.Signal)
	}
	return fmt.Sprintf("Exit code %d", res.Exit)
}

// streams is stdout and then, marked when there are both, stderr.
func streams(res sandbox.Result) string {
	out, errs := streamText(res.Stdout), streamText(res.Stderr)
	if out == "" || errs == "" {
		return out + errs
	}
	return out + "\n[stderr]\n" + errs
}

func streamText(o sandbox.Output) string {
	text := strings.TrimRight(strings.ToValidUTF8(string(o.Data), "\uFFFD"), "\n")
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = cutLine(lines[i])
	}
	text = strings.Join(lines, "\n")
	if o.Cut() {
		text += fmt.Sprintf("\n… cut: the program wrote %d bytes, %d were kept", o.Total, len(o.Data))
	}
	return text
}

// notesOf lists what a run met beside its output.
func notesOf(res sandbox.Result) string {
	var b strings.Builder
	for _, h := range res.Hit {
		fmt.Fprintf(&b, "\n[limit] %s: %d reached (limit %d)", h.Limit, h.Peak, h.Value)
	}
	for i, d := range res.Denials {
		if i == 10 {
			fmt.Fprintf(&b, "\n[denied] … and %d more", len(res.Denials)-i)
			break
		}
		fmt.Fprintf(&b, "\n[denied] %s. %s", d.What, d.Remedy)
	}
	for i, c := range res.Changes {
		if i == 50 {
			fmt.Fprintf(&b, "\n[changed] … and %d more", len(res.Changes)-i)
			break
		}
		fmt.Fprintf(&b, "\n[changed] %s %s", c.Kind, shown(c.Path))
	}
	if b.Len() > 0 {
		return "\n" + b.String()
	}
	return ""
}

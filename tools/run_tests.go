package tools

import (
	"fmt"
	"path"
	"strings"
	"time"

	"sallyport/sandbox"
)

type runTestsArgs struct {
	Worktree  string `json:"worktree_path"`
	Pattern   string `json:"test_pattern"`
	Framework string `json:"framework"`
	Write     bool   `json:"write"`
	TimeoutMS int64  `json:"timeout_ms"`
}

func runTests() Tool {
	return define(Tool{
		Name:  "run_tests",
		Title: "Run tests",
		Description: `Runs the project's tests in a sandbox and reports how many passed, failed and were skipped, and each failure with file, line and output. Tier L1: runs at once; what the tests write vanishes afterwards. With write: true it is kept, Tier L2. ` + pendingNote + `

The framework is found by itself: go test (go.mod), pytest (pyproject.toml, pytest.ini, setup.cfg, conftest.py …), npm test (package.json), cargo test (Cargo.toml). test_pattern selects tests: a regular expression for go (-run), an expression for pytest (-k), a name for the others. A build error is shown as a failure. There is no network. The call succeeds whenever tests ran; read the counts.`,
		Destructive: true, Idempotent: true,
	}, `{
		"type": "object", "additionalProperties": false,
		"properties": {
			"worktree_path": {"type": "string", "description": "Directory of the project, relative to the workspace; the workspace itself when not given"},
			"test_pattern": {"type": "string", "maxLength": 1000, "description": "Which tests, such as \"TestParse/empty\" (go) or \"parse and not slow\" (pytest); all when not given"},
			"framework": {"type": "string", "enum": ["go", "pytest", "npm", "cargo"], "description": "Framework, when it is not found by itself"},
			"write": {"type": "boolean", "description": "Ask to keep what the tests write in the workspace; false when not given"},
			"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3600000, "description": "Most milliseconds it may run; 600000 when not given"}
		}
	}`, planRunTests, answerRunTests)
}

// testTimeout is how long tests may run when the call does not say.
const testTimeout = 10 * time.Minute

// framework is a way to run tests and to read what they print.
type framework struct {
	name  string
	marks []string // files that say a directory uses it
	argv  func(a runTestsArgs, p Place, dir string) []string
	env   map[string]string
	read  func(testOutput) TestReport
}

// testOutput is what a test program printed; cut says that some of it is lost.
type testOutput struct {
	out, errs string
	cut       bool
}

// frameworks in the order in which they are looked for.
func frameworks() []framework {
	return []framework{
		{"go", []string{"go.mod", "go.work"}, goTestArgv, map[string]string{"GOTOOLCHAIN": "local"}, readGoTest},
		{"pytest", []string{"pytest.ini", "conftest.py", "pyproject.toml", "setup.cfg", "tox.ini", "tests/conftest.py", "setup.py", "tests/__init__.py"},
			pytestArgv, map[string]string{"PYTHONDONTWRITEBYTECODE": "1", "PY_COLORS": "0"}, readPytest},
		{"npm", []string{"package.json"}, npmArgv, map[string]string{"CI": "1", "NO_COLOR": "1"}, readNPM},
		{"cargo", []string{"Cargo.toml"}, cargoArgv, map[string]string{"CARGO_TERM_COLOR": "never"}, readCargo},
	}
}

func frameworkNamed(name string) (framework, bool) {
	for _, f := range frameworks() {
		if f.name == name {
			return f, true
		}
	}
	return framework{}, false
}

func planRunTests(a runTestsArgs, p Place) (sandbox.Action, error) {
	dir := p.rel(a.Worktree)
	f, ok := frameworkNamed(a.Framework)
	if !ok {
		f, ok = detect(p, dir)
	}
	if !ok {
		return sandbox.Action{}, &Failure{
			Kind: KindExecutionFailed, Class: Fixable,
			Msg:    fmt.Sprintf("run tests in %s: no go.mod, pytest configuration, package.json or Cargo.toml there or above", dir),
			Remedy: "give worktree_path, or framework, or run the tests with run_command",
		}
	}
	if (f.name == "npm" || f.name == "cargo") && strings.HasPrefix(a.Pattern, "-") {
		return sandbox.Action{}, invalid("arguments of run_tests: test_pattern: must not begin with - for "+f.name+", where it would be an option", "give a test name")
	}
	e := sandbox.Exec{Argv: f.argv(a, p, dir), Dir: dir, Env: f.env, Timeout: time.Duration(a.TimeoutMS) * time.Millisecond, Write: sandbox.WriteDiscard}
	if e.Timeout == 0 {
		e.Timeout = testTimeout
	}
	if a.Write {
		e.Write, e.Asked = sandbox.WriteTransaction, true
	}
	return sandbox.Action{Exec: &e}, nil
}

// detect looks for a framework's files in dir and then in its parents up to the
// workspace.
func detect(p Place, dir string) (framework, bool) {
	for {
		for _, f := range frameworks() {
			for _, mark := range f.marks {
				if p.has(path.Join(dir, mark)) {
					return f, true
				}
			}
		}
		if dir == "." || strings.HasPrefix(dir, "..") || strings.HasPrefix(dir, "/") {
			return framework{}, false
		}
		dir = path.Dir(dir)
	}
}

// frameworkOf recognises the framework in the argv its own plan made.
func frameworkOf(act sandbox.Action) framework {
	f, _ := frameworkNamed("go")
	if act.Exec == nil || len(act.Exec.Argv) == 0 {
		return f
	}
	name := path.Base(act.Exec.Argv[0])
	switch {
	case strings.HasPrefix(name, "python"):
		f, _ = frameworkNamed("pytest")
	case name == "npm", name == "cargo":
		f, _ = frameworkNamed(name)
	}
	return f
}

type runTestsData struct {
	TestReport
	Exec execData `json:"exec"`
}

func answerRunTests(a runTestsArgs, act sandbox.Action, res sandbox.Result) Answer {
	f := frameworkOf(act)
	o := testOutput{string(res.Stdout.Data), string(res.Stderr.Data), res.Stdout.Cut() || res.Stderr.Cut()}
	report := f.read(o)
	report.Framework, report.Cut = f.name, o.cut
	if report.empty() && res.Exit != 0 {
		ans := commandAnswer(res, streams(res))
		if strings.Contains(ans.Text, "No module named pytest") {
			ans.Failure.Remedy = "pytest is not installed where the sandbox can see it: install it in .venv, or name another framework"
		}
		ans.Text = fmt.Sprintf("No test ran with %s.\n%s", f.name, ans.Text)
		return ans
	}
	notes := notesOf(res)
	if report.Failed == 0 && res.Exit != 0 {
		report.Failed++
		report.Failures = append(report.Failures, TestFailure{Name: f.name, Output: exitWords(res) + "\n" + clippedTail(streams(res), 8000)})
	}
	return Answer{Text: report.text(maxText-len([]rune(notes))) + notes, Data: runTestsData{report, dataOf(res)}}
}

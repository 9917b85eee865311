package tools

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

func needs(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Skipf("needs %s: %v %s", program, err, out)
	}
}

func reportOf(t *testing.T, a Answer) TestReport {
	t.Helper()
	d, ok := a.Data.(runTestsData)
	require.True(t, ok, a.Text)
	return d.TestReport
}

func TestGoTests(t *testing.T) {
	t.Parallel()
	needs(t, "go", "version")
	b := newBench(t, map[string]string{
		"go.mod":         "module x\n\ngo 1.24\n",
		"a/a.go":         "package a\n\nfunc Add(x, y int) int { return x - y }\n",
		"a/a_test.go":    "package a\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tt.Run(\"two\", func(t *testing.T) {\n\t\tif got := Add(1, 1); got != 2 {\n\t\t\tt.Errorf(\"Add(1, 1) = %d\", got)\n\t\t}\n\t})\n\tt.Run(\"zero\", func(t *testing.T) { Add(0, 0) })\n}\n\nfunc TestSkip(t *testing.T) { t.Skip(\"not today\") }\n\nfunc TestFine(t *testing.T) {}\n",
		"b/b_test.go":    "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { undefined() }\n",
		"c/c_test.go":    "package c\n\nimport \"testing\"\n\nfunc TestPanic(t *testing.T) { var m map[string]int; m[\"a\"] = 1 }\n",
		"none/none.go":   "package none\n",
		"sub/deep/x.txt": "",
	})
	ans := b.call("run_tests", `{}`)
	require.False(t, ans.IsError, ans.Text)
	r := reportOf(t, ans)
	assert.Equal(t, []any{"go", 2, 3, 1}, []any{r.Framework, r.Passed, r.Failed, r.Skipped}, ans.Text)
	require.Len(t, r.Failures, 3)
	assert.Equal(t, "x/a TestAdd/two", r.Failures[0].Name)
	assert.Equal(t, "a_test.go", r.Failures[0].File)
	assert.Equal(t, 8, r.Failures[0].Line)
	assert.Contains(t, r.Failures[0].Output, "Add(1, 1) = 0")
	assert.Equal(t, "x/b", r.Failures[1].Name)
	assert.Contains(t, r.Failures[1].Output, "undefined: undefined")
	assert.Equal(t, 5, r.Failures[1].Line)
	assert.Equal(t, "x/c TestPanic", r.Failures[2].Name)
	assert.Contains(t, r.Failures[2].Output, "assignment to entry in nil map")
	assert.True(t, strings.HasPrefix(ans.Text, "FAIL: 2 passed, 3 failed, 1 skipped (go)"), ans.Text)

	r = reportOf(t, b.call("run_tests", `{"test_pattern":"TestFine","worktree_path":"a"}`))
	assert.Equal(t, []int{1, 0, 0}, []int{r.Passed, r.Failed, r.Skipped})
	ans = b.call("run_tests", `{"worktree_path":"none"}`)
	assert.False(t, ans.IsError)
	assert.Contains(t, ans.Text, "NO TESTS")
}

func TestPytestTests(t *testing.T) {
	t.Parallel()
	needs(t, "python3", "-m", "pytest", "--version")
	b := newBench(t, map[string]string{
		"pytest.ini":         "[pytest]\n",
		"calc.py":            "def add(a, b):\n    return a - b\n",
		"tests/test_calc.py": "import pytest\nfrom calc import add\n\ndef test_ok():\n    assert add(0, 0) == 0\n\ndef test_add():\n    assert add(1, 1) == 2\n\n@pytest.mark.skip(reason='later')\ndef test_later():\n    pass\n\nclass TestMore:\n    def test_inner(self):\n        raise ValueError('odd')\n",
		"tests/test_bad.py":  "import nothing_of_that_name\n",
	})
	ans := b.call("run_tests", `{"test_pattern":"not later"}`)
	r := reportOf(t, ans)
	assert.Equal(t, 1, r.Failed, ans.Text) // a module that cannot be imported stops the collection
	assert.Contains(t, r.Failures[0].Output, "nothing_of_that_name")
	ans = b.call("write_file", `{"path":"tests/test_bad.py","content":""}`)
	require.False(t, ans.IsError)
	ans = b.call("run_tests", `{}`)
	require.False(t, ans.IsError, ans.Text)
	r = reportOf(t, ans)
	assert.Equal(t, []any{"pytest", 1, 2, 1}, []any{r.Framework, r.Passed, r.Failed, r.Skipped}, ans.Text)
	require.Len(t, r.Failures, 2)
	assert.Equal(t, []any{"tests/test_calc.py::test_add", "tests/test_calc.py", 8}, []any{r.Failures[0].Name, r.Failures[0].File, r.Failures[0].Line})
	assert.Equal(t, []any{"tests/test_calc.py::TestMore::test_inner", 16}, []any{r.Failures[1].Name, r.Failures[1].Line})
	assert.Contains(t, r.Failures[1].Output, "ValueError: odd")
}

// TestReadReports holds output of frameworks as they print it.
func TestReadReports(t *testing.T) {
	t.Parallel()
	pytest := `.F.sE                                                                    [100%]
==================================== ERRORS ====================================
_________________________ ERROR at setup of test_fix __________________________
tests/test_x.py:20: in broken
    raise RuntimeError
E   RuntimeError
=================================== FAILURES ===================================
___________________________ TestA.test_b[1-two words] ___________________________
tests/test_x.py:9: in test_b
    assert helper() == 1
lib/helper.py:3: in helper
    return 2
E   assert 2 == 1
=========================== short test summary info ============================
SKIPPED [1] tests/test_x.py:12: no reason
FAILED tests/test_x.py::TestA::test_b[1-two words] - assert 2 == 1
ERROR tests/test_x.py::test_fix - RuntimeError
1 failed, 2 passed, 1 skipped, 1 error in 0.03s
`
	r := readPytest(testOutput{out: pytest, errs: ""})
	assert.Equal(t, []int{2, 2, 1}, []int{r.Passed, r.Failed, r.Skipped})
	require.Len(t, r.Failures, 2)
	assert.Equal(t, 9, r.Failures[0].Line)
	assert.Contains(t, r.Failures[0].Output, "assert 2 == 1")
	assert.Equal(t, 20, r.Failures[1].Line)

	jest := "FAIL src/a.test.js\n  ● adds\n\n    expect(received).toBe(expected)\n\nTests:       1 failed, 1 skipped, 3 passed, 5 total\n"
	r = readNPM(testOutput{out: "", errs: jest})
	assert.Equal(t, []int{3, 1, 1}, []int{r.Passed, r.Failed, r.Skipped})
	r = readNPM(testOutput{out: " Tests  1 failed | 4 passed (5)\n", errs: ""})
	assert.Equal(t, []int{4, 1, 0}, []int{r.Passed, r.Failed, r.Skipped})
	r = readNPM(testOutput{out: "  3 passing (5ms)\n  1 pending\n  2 failing\n", errs: ""})
	assert.Equal(t, []int{3, 2, 1}, []int{r.Passed, r.Failed, r.Skipped})
	r = readNPM(testOutput{out: "# tests 3\n# pass 2\n# fail 1\n# skipped 0\n", errs: ""})
	assert.Equal(t, []int{2, 1, 0}, []int{r.Passed, r.Failed, r.Skipped})

	cargo := "running 2 tests\ntest tests::ok ... ok\ntest tests::bad ... FAILED\n\nfailures:\n\n---- tests::bad stdout ----\nthread 'tests::bad' panicked at src/lib.rs:12:9:\nassertion failed\n\n\nfailures:\n    tests::bad\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n\ntest result: ok. 0 passed; 0 failed; 2 ignored;\n"
	r = readCargo(testOutput{out: cargo, errs: ""})
	assert.Equal(t, []int{1, 1, 2}, []int{r.Passed, r.Failed, r.Skipped})
	assert.Equal(t, []any{"tests::bad", "src/lib.rs", 12}, []any{r.Failures[0].Name, r.Failures[0].File, r.Failures[0].Line})
	r = readCargo(testOutput{out: "", errs: "error[E0425]: cannot find value `x`\n --> src/main.rs:2:5\n"})
	assert.Equal(t, []any{1, "src/main.rs", 2}, []any{r.Failed, r.Failures[0].File, r.Failures[0].Line})
}

func TestDetection(t *testing.T) {
	t.Parallel()
	tool, _ := Find("run_tests")
	plan := func(args string, files ...string) (sandbox.Action, error) {
		a, err := tool.Parse(json.RawMessage(args))
		require.NoError(t, err)
		return tool.Plan(a, Place{Root: "/w", Exists: func(p string) bool {
			for _, f := range files {
				if f == p {
					return true
				}
			}
			return false
		}})
	}
	argv := func(args string, files ...string) string {
		act, err := plan(args, files...)
		require.NoError(t, err)
		return act.Exec.Dir + ": " + strings.Join(act.Exec.Argv, " ")
	}
	assert.Equal(t, ".: go test -json ./...", argv(`{}`, "go.mod", "package.json"))
	assert.Equal(t, "sub/pkg: go test -json -run=-x ./...", argv(`{"worktree_path":"sub/pkg/","test_pattern":"-x"}`, "go.mod"))
	assert.Contains(t, argv(`{"worktree_path":"/w/py"}`, "py/conftest.py", "py/.venv/bin/python"), "py: ./.venv/bin/python -m pytest")
	assert.Contains(t, argv(`{"test_pattern":"--co"}`, "pyproject.toml"), "-k --co")
	assert.Equal(t, ".: npm test --silent -- name", argv(`{"test_pattern":"name"}`, "package.json"))
	assert.Equal(t, ".: cargo test --no-fail-fast --offline", argv(`{"framework":"cargo"}`))
	for _, args := range []string{`{"test_pattern":"--config=x"}`, `{"framework":"cargo","test_pattern":"--logfile=x"}`} {
		_, err := plan(args, "package.json")
		assert.ErrorContains(t, err, "must not begin with -")
	}
	_, err := plan(`{}`)
	assert.ErrorContains(t, err, "no go.mod")
	act, err := plan(`{"write":true}`, "go.mod")
	require.NoError(t, err)
	assert.Equal(t, sandbox.WriteTransaction, act.Exec.Write)
	act, err = plan(`{"worktree_path":"../other"}`, "go.mod")
	if err == nil {
		assert.Equal(t, "../other", act.Exec.Dir, "a path outside stays as asked")
	}
}

// TestCutOutputMakesNoFailures reads a go test whose middle is lost.
func TestCutOutputMakesNoFailures(t *testing.T) {
	t.Parallel()
	out := `{"Action":"run","Package":"x","Test":"TestA"}
{"Action":"run","Package":"x","Te
[sallyport: 9000 bytes left out here]
ckage":"x","Test":"TestB"}
{"Action":"pass","Package":"x","Test":"TestC"}
{"Action":"output","Package":"x","Output":"FAIL\n"}
{"Action":"fail","Package":"x"}
`
	r := readGoTest(testOutput{out: out, cut: true})
	assert.Equal(t, []int{1, 1, 0}, []int{r.Passed, r.Failed, r.Skipped})
	assert.Equal(t, "x", r.Failures[0].Name, "the package failed; which test is lost")
	r = readGoTest(testOutput{out: out})
	assert.Equal(t, "x TestA", r.Failures[0].Name)
}

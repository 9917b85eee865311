package tools

import (
	"regexp"
	"strconv"
	"strings"
)

func npmArgv(a runTestsArgs, _ Place, _ string) []string {
	argv := []string{"npm", "test", "--silent"}
	if a.Pattern != "" {
		argv = append(argv, "--", a.Pattern)
	}
	return argv
}

func cargoArgv(a runTestsArgs, _ Place, _ string) []string {
	argv := []string{"cargo", "test", "--no-fail-fast", "--offline"}
	if a.Pattern != "" {
		argv = append(argv, "--", a.Pattern)
	}
	return argv
}

var (
	// "Tests:  1 failed, 2 skipped, 3 passed, 6 total" (jest), "Tests  1 failed | 3 passed (4)" (vitest)
	jestLine = regexp.MustCompile(`(?m)^\s*Tests:?\s+(.*(?:passed|failed|skipped|todo).*)$`)
	// "3 passing", "1 failing", "2 pending" (mocha)
	mochaLine = regexp.MustCompile(`(?m)^\s+(\d+) (passing|failing|pending)\b`)
	// "# pass 3" / "ℹ pass 3" (node --test)
	nodeLine    = regexp.MustCompile(`(?m)^(?:#|ℹ) (pass|fail|skipped) (\d+)$`)
	countedWord = regexp.MustCompile(`(\d+) (passed|failed|skipped|todo)`)
	cargoLine   = regexp.MustCompile(`(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored`)
	cargoFailed = regexp.MustCompile(`(?ms)^---- (\S+) std(?:out|err) ----\n(.*?)\n\n`)
	cargoPlace  = regexp.MustCompile(`(?m)(?:panicked at |^\s*--> )(\S+\.rs):(\d+)`)
	cargoError  = regexp.MustCompile(`(?m)^error(\[E\d+\])?: `)
)

// readNPM knows the last summaries of jest, vitest, mocha and node --test. The
// failures' text is the end of the output: the reporters differ too much.
func readNPM(o testOutput) TestReport {
	var r TestReport
	all := o.out + "\n" + o.errs
	if m := jestLine.FindAllStringSubmatch(all, -1); m != nil {
		for _, c := range countedWord.FindAllStringSubmatch(m[len(m)-1][1], -1) {
			r.count(c[2], c[1])
		}
	} else if m := nodeLine.FindAllStringSubmatch(all, -1); m != nil {
		for _, c := range m {
			r.count(c[1], c[2])
		}
	} else {
		for _, c := range mochaLine.FindAllStringSubmatch(all, -1) {
			r.count(c[2], c[1])
		}
	}
	if r.Failed > 0 {
		r.Failures = []TestFailure{{Name: "npm test", Output: clippedTail(strings.Trim(all, "\n"), 20_000)}}
	}
	return r
}

func (r *TestReport) count(word, digits string) {
	n, _ := strconv.Atoi(digits)
	switch word {
	case "pass", "passed", "passing":
		r.Passed += n
	case "fail", "failed", "failing":
		r.Failed += n
	case "skipped", "todo", "pending":
		r.Skipped += n
	}
}

// readCargo adds the result lines of all test binaries; a build error is one
// failure.
func readCargo(o testOutput) TestReport {
	var r TestReport
	for _, m := range cargoLine.FindAllStringSubmatch(o.out, -1) {
		r.count("passed", m[1])
		r.count("failed", m[2])
		r.count("skipped", m[3])
	}
	for _, m := range cargoFailed.FindAllStringSubmatch(o.out, -1) {
		r.Failures = append(r.Failures, cargoFailure(m[1], m[2]))
	}
	if at := cargoError.FindStringIndex(o.errs); r.empty() && at != nil {
		r.Failed = 1
		r.Failures = append(r.Failures, cargoFailure("build", o.errs[at[0]:]))
	}
	return r
}

func cargoFailure(name, out string) TestFailure {
	f := TestFailure{Name: name, Output: strings.Trim(out, "\n")}
	if m := cargoPlace.FindStringSubmatch(out); m != nil {
		f.File = m[1]
		f.Line, _ = strconv.Atoi(m[2])
	}
	return f
}

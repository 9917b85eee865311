package tools

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// pytestArgv runs pytest of the project's virtual environment when there is
// one. "python -m" puts the directory on the path, as most projects expect.
func pytestArgv(a runTestsArgs, p Place, dir string) []string {
	python := "python3"
	for _, venv := range []string{".venv/bin/python", "venv/bin/python"} {
		if p.has(path.Join(dir, venv)) {
			python = "./" + venv
			break
		}
	}
	argv := []string{python, "-m", "pytest", "-q", "-rfEs", "--tb=short", "--color=no", "-p", "no:cacheprovider"}
	if a.Pattern != "" {
		argv = append(argv, "-k", a.Pattern)
	}
	return argv
}

var (
	pytestCount  = regexp.MustCompile(`(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)`)
	pytestSum    = regexp.MustCompile(`^(=+ )?(\d+ \w+(, \d+ \w+)*|no tests ran) in [\d.]+s`)
	pytestHead   = regexp.MustCompile(`^_{3,} (.+?) _{3,}$`)
	pytestPlace  = regexp.MustCompile(`(?m)^(\S+\.py):(\d+): `)
	pytestFailed = regexp.MustCompile(`^(FAILED|ERROR) (\S.*?)(?: - (.*))?$`)
)

// readPytest reads the output of pytest -q -rfEs --tb=short. The counts are
// those of the last summary line.
func readPytest(o testOutput) TestReport {
	var r TestReport
	sections := map[string]string{} // headline of a traceback to its text
	head := ""
	for line := range strings.SplitSeq(o.out, "\n") {
		line = strings.TrimRight(line, "\r")
		if pytestSum.MatchString(line) {
			r.Passed, r.Failed, r.Skipped = pytestCounts(line)
		}
		if strings.HasPrefix(line, "=====") {
			head = ""
			continue
		}
		if m := pytestHead.FindStringSubmatch(line); m != nil {
			head = m[1]
			continue
		}
		if head != "" {
			sections[head] += line + "\n"
			continue
		}
		if m := pytestFailed.FindStringSubmatch(line); m != nil {
			r.Failures = append(r.Failures, pytestFailure(m[2], m[3], sections))
		}
	}
	if r.empty() && len(r.Failures) > 0 {
		r.Failed = len(r.Failures)
	}
	return r
}

func pytestCounts(line string) (passed, failed, skipped int) {
	for _, m := range pytestCount.FindAllStringSubmatch(line, -1) {
		n, _ := strconv.Atoi(m[1])
		switch strings.TrimSuffix(m[2], "s") {
		case "passed", "xpassed":
			passed += n
		case "failed", "error":
			failed += n
		case "skipped", "xfailed":
			skipped += n
		}
	}
	return passed, failed, skipped
}

// pytestFailure finds the traceback of a node id: its headline is the id's last
// parts joined with dots, or "ERROR collecting FILE".
func pytestFailure(id, why string, sections map[string]string) TestFailure {
	f := TestFailure{Name: id, Output: why}
	file, rest, _ := strings.Cut(id, "::")
	name := strings.ReplaceAll(rest, "::", ".")
	for _, head := range []string{name, "ERROR collecting " + file, "ERROR at setup of " + name, "ERROR at teardown of " + name} {
		if text, ok := sections[head]; ok && head != "" {
			f.Output = strings.Trim(text, "\n")
		}
	}
	f.File = file
	for _, m := range pytestPlace.FindAllStringSubmatch(f.Output, -1) {
		if m[1] == file { // the last frame in the test's own file
			f.Line, _ = strconv.Atoi(m[2])
		}
	}
	if f.Line == 0 {
		if m := pytestPlace.FindStringSubmatch(f.Output); m != nil {
			f.File = m[1]
			f.Line, _ = strconv.Atoi(m[2])
		}
	}
	return f
}

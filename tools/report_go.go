package tools

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func goTestArgv(a runTestsArgs, _ Place, _ string) []string {
	argv := []string{"go", "test", "-json"}
	if a.Pattern != "" {
		argv = append(argv, "-run="+a.Pattern)
	}
	return append(argv, "./...")
}

// goEvent is one line of go test -json (cmd/test2json; build events since Go 1.24).
type goEvent struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string
	FailedBuild string
}

type goTest struct {
	pkg, name string
	outcome   string
	out       strings.Builder
}

// goRun collects events.
type goRun struct {
	tests  []*goTest // in order of appearance; name "" is the package itself
	index  map[[2]string]*goTest
	builds map[string]*strings.Builder // compiler output by import path
	failed map[string]string           // package to the import path whose build failed
	cut    bool
	loose  strings.Builder // lines that are no events: old compilers, go vet, go itself
}

func (g *goRun) test(pkg, name string) *goTest {
	key := [2]string{pkg, name}
	t := g.index[key]
	if t == nil {
		t = &goTest{pkg: pkg, name: name}
		g.index[key] = t
		g.tests = append(g.tests, t)
	}
	return t
}

func (g *goRun) event(e goEvent) {
	switch e.Action {
	case "build-output":
		b := g.builds[e.ImportPath]
		if b == nil {
			b = &strings.Builder{}
			g.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
	case "run":
		g.test(e.Package, e.Test)
	case "output":
		g.test(e.Package, e.Test).out.WriteString(e.Output)
	case "pass", "fail", "skip":
		g.test(e.Package, e.Test).outcome = e.Action
		if e.FailedBuild != "" {
			g.failed[e.Package] = e.FailedBuild
		}
	}
}

// readGoTest reads the output of go test -json. Only tests without subtests
// count, and those that fail though all their subtests pass; a package that
// fails without a failing test (build error, panic, time-out) is one failure.
func readGoTest(o testOutput) TestReport {
	g := goRun{cut: o.cut, index: map[[2]string]*goTest{}, builds: map[string]*strings.Builder{}, failed: map[string]string{}}
	for line := range strings.SplitSeq(o.out, "\n") {
		var e goEvent
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
			if strings.TrimSpace(line) != "" {
				g.loose.WriteString(line + "\n")
			}
			continue
		}
		g.event(e)
	}
	g.loose.WriteString(o.errs)
	return g.report()
}

func (g *goRun) report() TestReport {
	var r TestReport
	failedIn := map[string]bool{}   // packages with a failing test
	parents := map[[2]string]bool{} // tests that have subtests
	redParents := map[[2]string]bool{}
	for _, t := range g.tests {
		for up := path.Dir(t.name); t.name != "" && up != "."; up = path.Dir(up) {
			parents[[2]string{t.pkg, up}] = true
			if t.outcome == "fail" {
				redParents[[2]string{t.pkg, up}] = true
			}
		}
	}
	for _, t := range g.tests {
		key := [2]string{t.pkg, t.name}
		unfinished := !g.cut && t.outcome == "" && t.name != "" && g.index[[2]string{t.pkg, ""}] != nil && g.test(t.pkg, "").outcome == "fail"
		switch {
		case t.name == "" || parents[key] && (t.outcome != "fail" || redParents[key]):
		case t.outcome == "fail" || unfinished:
			r.Failed++
			failedIn[t.pkg] = true
			r.Failures = append(r.Failures, goFailure(t.pkg+" "+t.name, t.out.String()))
		case t.outcome == "skip":
			r.Skipped++
		case t.outcome == "pass":
			r.Passed++
		}
	}
	seen := map[string]bool{}
	for _, t := range g.tests {
		if t.name != "" || t.outcome != "fail" || failedIn[t.pkg] {
			continue
		}
		text := t.out.String()
		if b := g.builds[g.failed[t.pkg]]; b != nil {
			text = b.String()
		} else if strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]") {
			text = g.loose.String() + text
		}
		if seen[text] {
			continue
		}
		seen[text] = true
		r.Failed++
		r.Failures = append(r.Failures, goFailure(t.pkg, text))
	}
	slices.SortStableFunc(r.Failures, func(a, b TestFailure) int { return strings.Compare(a.Name, b.Name) })
	return r
}

var goPlace = regexp.MustCompile(`(?m)^\s*([\w./\-]+\.go):(\d+)(?::\d+)?: `)

// goFailure drops go test's own lines and finds the first place named.
func goFailure(name, out string) TestFailure {
	var kept []string
	for line := range strings.SplitSeq(out, "\n") {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- FAIL") && line != "FAIL" {
			kept = append(kept, line)
		}
	}
	f := TestFailure{Name: name, Output: strings.Trim(strings.Join(kept, "\n"), "\n")}
	if m := goPlace.FindStringSubmatch(f.Output); m != nil {
		f.File = m[1]
		f.Line, _ = strconv.Atoi(m[2])
	}
	return f
}

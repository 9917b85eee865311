package rego

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/tester"
)

// testPatience is how long one Rego test may take.
const testPatience = time.Minute

// TestReport is the outcome of a layer's Rego tests.
type TestReport struct {
	Passed   int           `json:"passed"` // tests, or cases where a test has them
	Failed   []TestFailure `json:"failed"`
	Coverage float64       `json:"coverage"` // percent of the lines of the tested rules
	// Uncovered lists rules no test makes fire, by id.
	Uncovered []string `json:"uncovered"`
}

// TestFailure is one test that failed.
type TestFailure struct {
	Name   string `json:"name"`
	At     string `json:"at"` // file:line
	Reason string `json:"reason"`
}

// OK reports whether all tests passed.
func (r TestReport) OK() bool { return len(r.Failed) == 0 }

// testLayers runs the tests of every layer but the built-in one.
func (g *generation) testLayers(ctx context.Context) error {
	for _, s := range g.sources {
		if s.layer == builtin || !s.hasTests() {
			continue
		}
		report, err := g.test(ctx, s.layer)
		if err != nil {
			return err
		}
		if !report.OK() {
			lines := make([]string, len(report.Failed))
			for i, f := range report.Failed {
				lines[i] = fmt.Sprintf("%s: %s: %s", f.At, f.Name, f.Reason)
			}
			return fmt.Errorf("test the policy layer %q:\n%s", s.layer, strings.Join(lines, "\n"))
		}
	}
	return nil
}

func (s source) hasTests() bool {
	for _, m := range s.modules {
		if m.test {
			return true
		}
	}
	return false
}

// test runs the Rego tests of one layer over the rules of all.
func (g *generation) test(ctx context.Context, layer string) (TestReport, error) {
	compiler, err := newCompiler()
	if err != nil {
		return TestReport{}, err
	}
	modules := map[string]*ast.Module{}
	measured := map[string]*ast.Module{}
	for _, s := range g.sources {
		for _, m := range s.modules {
			if m.test && s.layer != layer {
				continue
			}
			modules[m.file] = m.ast
			if s.layer == layer && !m.test {
				measured[m.file] = m.ast
			}
		}
	}
	coverage := cover.New()
	runner := tester.NewRunner().
		SetCompiler(compiler).
		SetStore(g.store).
		SetModules(modules).
		RaiseBuiltinErrors(true).
		SetTimeout(testPatience).
		SetCoverageQueryTracer(coverage)
	var report TestReport
	err = storage.Txn(ctx, g.store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		results, err := runner.RunTests(ctx, txn)
		if err != nil {
			return err
		}
		for r := range results {
			if r.Pass() {
				report.Passed += max(1, len(r.SubResults))
				continue
			}
			report.Failed = append(report.Failed, failure(r))
		}
		return nil
	})
	if err != nil {
		return TestReport{}, fmt.Errorf("test the policy layer %q:\n%w", layer, err)
	}
	sort.Slice(report.Failed, func(i, j int) bool { return report.Failed[i].At < report.Failed[j].At })
	covered := coverage.Report(measured)
	report.Coverage = covered.Coverage
	for _, r := range g.rules {
		if r.Layer != layer {
			continue
		}
		file, line := splitAt(r.File)
		if c, ok := covered.Files[file]; !ok || !c.IsCovered(line) {
			report.Uncovered = append(report.Uncovered, r.ID)
		}
	}
	return report, nil
}

func failure(r *tester.Result) TestFailure {
	f := TestFailure{Name: r.Package + "." + r.Name, Reason: "it does not hold"}
	if r.Location != nil {
		f.At = fmt.Sprintf("%s:%d", r.Location.File, r.Location.Row)
	}
	switch {
	case r.Error != nil:
		f.Reason = firstLine(r.Error)
	case r.Skip:
		f.Reason = "it is skipped (todo_): finish or remove it"
	case len(r.SubResults) > 0:
		var cases []string
		for name, sub := range r.SubResults.Iter {
			if sub.Fail {
				cases = append(cases, strings.Join(name, "/"))
			}
		}
		f.Reason = "it does not hold for: " + strings.Join(cases, "; ")
	}
	return f
}

func splitAt(at string) (file string, line int) {
	i := strings.LastIndex(at, ":")
	fmt.Sscanf(at[i+1:], "%d", &line)
	return at[:i], line
}

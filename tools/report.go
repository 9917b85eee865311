package tools

import (
	"fmt"
	"strings"
)

// TestReport is what a test run came to.
type TestReport struct {
	Framework string        `json:"framework"`
	Passed    int           `json:"passed"`
	Failed    int           `json:"failed"`
	Skipped   int           `json:"skipped"`
	Failures  []TestFailure `json:"failures,omitempty"`
	// Cut says that the output was not complete, so that counts may be low.
	Cut bool `json:"cut,omitempty"`
}

// TestFailure is one test that failed, or a package that did not build.
type TestFailure struct {
	Name   string `json:"name"` // "package TestName", a pytest node id …
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Output string `json:"output,omitempty"`
}

func (r TestReport) empty() bool { return r.Passed+r.Failed+r.Skipped == 0 }

// text is the report for a model, at most most characters.
func (r TestReport) text(most int) string {
	var b strings.Builder
	verdict := "PASS"
	switch {
	case r.Failed > 0:
		verdict = "FAIL"
	case r.empty():
		verdict = "NO TESTS"
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped (%s)", verdict, r.Passed, r.Failed, r.Skipped, r.Framework)
	if r.Cut {
		b.WriteString("; the output was cut, so counts may be low")
	}
	each := most
	if n := len(r.Failures); n > 0 {
		each = max(most/n, 1500)
	}
	for i, f := range r.Failures {
		where := ""
		if f.File != "" {
			where = fmt.Sprintf(" at %s:%d", f.File, f.Line)
		}
		entry := fmt.Sprintf("\n\n--- %s%s\n%s", f.Name, where, clippedTail(indentless(f.Output), each-200))
		if len([]rune(b.String()))+len([]rune(entry)) > most-200 {
			fmt.Fprintf(&b, "\n\n… cut: %s; run fewer tests with test_pattern", plural(len(r.Failures)-i, "more failure"))
			break
		}
		b.WriteString(entry)
	}
	return b.String()
}

// indentless takes trailing space off lines and valid UTF-8 for granted.
func indentless(s string) string {
	lines := strings.Split(strings.ToValidUTF8(s, "\uFFFD"), "\n")
	for i := range lines {
		lines[i] = cutLine(strings.TrimRight(lines[i], " \t\r"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

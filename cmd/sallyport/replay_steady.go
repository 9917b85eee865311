package main

import "regexp"

// unsteady is what an output has anew in every run, with what stands for it: one
// list, in the order it is applied.
var unsteady = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`), ""},
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}([.,]\d+)?(Z| ?[+-]\d{2}:?\d{2}\b|\b)`), "TIME"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (\d{1,2} )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( +\d{1,2})?\b`), "DAY"},
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}\b`), "DAY"},
	{regexp.MustCompile(`\b\d{2}:\d{2}:\d{2}([.,]\d+)?(Z|[ ]?[+-]\d{2}:?\d{2})?\b`), "TIME"},
	{regexp.MustCompile(`\(cached\)`), "TOOK"}, // go test
	{regexp.MustCompile(`\b\d+m\d+(\.\d+)?s\b`), "TOOK"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|us|ms|s|sec|secs|seconds)\b`), "TOOK"},
	{regexp.MustCompile(`/tmp/[^\s:'"]+`), "/tmp/…"},
	{regexp.MustCompile(`\b0x[0-9a-fA-F]{6,16}\b`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9]+[a-f][0-9a-f]{5,62}\b`), "HASH"}, // of a commit, which has its time in it
	{regexp.MustCompile(`\b[a-f]+[0-9][0-9a-f]{5,62}\b`), "HASH"},
	{regexp.MustCompile(`\b(pid|PID)[ =:]+\d+\b`), "PID"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// steady is a text without what changes from run to run.
func steady(text string) string {
	for _, u := range unsteady {
		text = u.pattern.ReplaceAllString(text, u.with)
	}
	return text
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// lines are a text's lines without their ends.
func lines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if !yield(strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

// wantsJSON reports whether --json was given.
func wantsJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

// printJSON prints the one document of --json.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// paint colours text for a terminal; https://no-color.org and pipes get none.
type paint bool

func painter(w io.Writer) paint {
	f, ok := w.(*os.File)
	return paint(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

func (p paint) as(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) green(s string) string  { return p.as("32", s) }
func (p paint) red(s string) string    { return p.as("31", s) }
func (p paint) yellow(s string) string { return p.as("33", s) }
func (p paint) dim(s string) string    { return p.as("2", s) }
func (p paint) bold(s string) string   { return p.as("1", s) }

// verdict colours by what a word means.
func (p paint) verdict(word string) string {
	switch word {
	case "allow", "ok", "approved", "full":
		return p.green(word)
	case "ask", "pending", "reduced", "minimal", "ok_not_anchored":
		return p.yellow(word)
	}
	return p.red(word)
}

// diff is a unified diff of one file.
func diff(file string, before, after []byte) string {
	return udiff.Unified("a/"+file, "b/"+file, string(before), string(after))
}

// sortedKeys are a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func decodeJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

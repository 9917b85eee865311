package inspect

import (
	"strings"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds of one inspection. A developer's longest one-liners and scripts
// stay an order of magnitude below them.
const (
	maxText     = 32 << 10 // bytes of one command text
	maxScript   = 1 << 20  // bytes of one script
	maxParse    = 256 << 10
	maxNest     = 100   // brackets and substitutions inside each other
	maxDepth    = 24    // texts inside texts: eval, sh -c, scripts, functions
	maxCommands = 2000  // facts of one call
	maxSteps    = 20000 // statements walked
	maxWords    = 12000 // arguments of one command
	maxShown    = 1000  // arguments of one command that rules see; the rest counts as not known
	maxTargets  = 2000  // paths of one command
	maxItems    = 64    // turns of a loop that are walked
	maxWorlds   = 16    // combinations of alternative values of one command
	maxAlts     = 6     // alternative values of one variable
	maxTime     = 2 * time.Second
)

// budget counts down what is left of the bounds.
type budget struct {
	steps, commands, scripts, words int
	until                           time.Time
	spent                           string
}

func newBudget() budget {
	return budget{steps: maxSteps, commands: maxCommands, scripts: 32, words: 40 * maxWords, until: time.Now().Add(maxTime)}
}

// step reports whether one more statement may be walked.
func (in *inspection) step() bool {
	b := &in.budget
	if b.spent != "" {
		return false
	}
	b.steps--
	switch {
	case b.steps < 0:
		b.spent = "more statements than can be looked at"
	case b.commands < 0:
		b.spent = "more commands than can be looked at"
	case b.steps&63 == 0 && (in.ctx.Err() != nil || time.Now().After(b.until)):
		b.spent = "looking at it took too long"
	}
	if b.spent != "" {
		in.opaque(b.spent)
		return false
	}
	return true
}

// The two runes that fence the number of an unresolved part while the library
// expands a word. A text that holds them is refused before.
const (
	fenceOpen  = '\uE000'
	fenceClose = '\uE001'
)

// refusable returns why a text must not be parsed at all, or "".
func refusable(text string, limit int) string {
	if len(text) > limit {
		return "longer than can be looked at"
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == 0:
			return "holds a NUL byte"
		case c == '\r':
			return "holds a carriage return"
		case c >= utf8.RuneSelf:
			if strings.ContainsRune(text, fenceOpen) || strings.ContainsRune(text, fenceClose) {
				return "holds private-use characters"
			}
			return nesting(text)
		}
	}
	return nesting(text)
}

// nesting refuses texts nested deeper than a recursive parser should follow.
func nesting(text string) string {
	depth, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}
	if deepest > maxNest {
		return "nested deeper than can be looked at"
	}
	return ""
}

// parse turns a text into a tree. The reason is "" when it succeeded.
func (in *inspection) parse(text string, limit int) (f *syntax.File, reason string) {
	if reason := refusable(text, limit); reason != "" {
		return nil, reason
	}
	if in.parser == nil {
		in.parser = syntax.NewParser(syntax.Variant(syntax.LangBash))
	}
	f, err := in.parser.Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, "does not parse as bash: " + err.Error()
	}
	return f, ""
}

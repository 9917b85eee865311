package tools

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/sandbox"
)

// Bounds of an answer's text. Claude Code moves a result over 50,000 characters
// to a file; this stays well below whatever a client adds.
const (
	maxText = 30_000 // characters
	maxLine = 2_000  // characters of one line
)

// Answer is what a call gives back.
type Answer struct {
	Text    string // what the model reads
	IsError bool
	Failure *Failure // set when IsError
	Data    any      // the same for programs: stable JSON
}

// Answer words a run's outcome. err is what Plan or the run returned.
func (t Tool) Answer(a Args, act sandbox.Action, res sandbox.Result, err error) Answer {
	if err == nil {
		return t.answer(a.value, act, res)
	}
	f := FailureOf(err)
	text := f.Text()
	if res.Ran {
		text += "\n\n" + clippedTail("Output until then:\n"+streams(res), maxText)
	}
	return Answer{Text: text, IsError: true, Failure: f, Data: failedData{Failure: f}}
}

type failedData struct {
	Failure *Failure `json:"failure"`
}

func failed(f *Failure, text string, data any) Answer {
	return Answer{Text: text, IsError: true, Failure: f, Data: data}
}

// page gathers lines up to a number of characters.
type page struct {
	b    strings.Builder
	size int // characters
	n    int // lines taken
	most int // characters allowed; 0 means maxText
}

// add takes a line, cut at maxLine characters; false when the page is full, and
// then the line is not in it.
func (p *page) add(line string) bool {
	most := p.most
	if most == 0 {
		most = maxText
	}
	line = cutLine(line)
	size := utf8.RuneCountInString(line) + 1
	if p.size+size > most {
		return false
	}
	if p.n > 0 {
		p.b.WriteByte('\n')
	}
	p.b.WriteString(line)
	p.size += size
	p.n++
	return true
}

func (p *page) String() string { return p.b.String() }

// cutLine makes valid UTF-8 of at most maxLine characters.
func cutLine(line string) string {
	line = strings.ToValidUTF8(line, "\uFFFD")
	if len(line) <= maxLine {
		return line
	}
	n := 0
	for i := range line {
		if n == maxLine {
			return fmt.Sprintf("%s… (line cut: %d of %d characters)", line[:i], maxLine, utf8.RuneCountInString(line))
		}
		n++
	}
	return line
}

// clipped cuts s to at most n characters.
func clipped(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// clippedTail cuts the middle out of a long text: the beginning and, more of
// it, the end are what a reader of a build wants.
func clippedTail(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	head, tail := most/3, most-most/3
	return fmt.Sprintf("%s\n… cut: %d characters here …\n%s", string(r[:head]), len(r)-head-tail, string(r[len(r)-tail:]))
}

// shown is a path as one line of text: a name with line ends, escapes or bytes
// that are no UTF-8 is quoted, so that no file name can pass for an answer.
func shown(path string) string {
	for _, r := range path {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(path)
		}
	}
	return path
}

// one is the result of a plan with one file operation.
func one(res sandbox.Result) sandbox.FileResult {
	if len(res.Files) == 0 {
		return sandbox.FileResult{}
	}
	return res.Files[len(res.Files)-1]
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if strings.HasSuffix(word, "ry") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(word, "y"))
	}
	return fmt.Sprintf("%d %ss", n, word)
}

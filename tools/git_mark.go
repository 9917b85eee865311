package tools

import (
	"regexp"
	"strings"
)

// Mark names the call that made a commit. The zero Mark is none.
type Mark struct {
	Call, Agent, Session string
}

// markKey is the key of the trailer that carries a Mark.
const markKey = "Sallyport-Call"

// String is the trailer's line: "Sallyport-Call: CALL agent=AGENT session=SESSION".
func (m Mark) String() string {
	return markKey + ": " + word(m.Call) + " agent=" + word(m.Agent) + " session=" + word(m.Session)
}

// word keeps a name in one printable word, so that a line can be read back.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}, s)
}

var (
	trailerLine = regexp.MustCompile(`^[A-Za-z0-9-]+: \S`)
	markLine    = regexp.MustCompile(`(?m)^` + markKey + `: (\S+) agent=(\S*) session=(\S*)$`)
)

// sign puts a mark at the end of a commit message: as a line of the last
// paragraph where that holds trailers already, else as a paragraph of its own.
// It is done here and not by git's --trailer, which runs what the repository's
// trailer.*.cmd says.
func (m Mark) sign(message string) string {
	if m.Call == "" {
		return message
	}
	message = strings.TrimRight(message, " \t\r\n")
	paragraphs := strings.Split(message, "\n\n")
	last := paragraphs[len(paragraphs)-1]
	trailers := len(paragraphs) > 1
	for line := range strings.Lines(last) {
		trailers = trailers && trailerLine.MatchString(line)
	}
	if trailers {
		return message + "\n" + m.String()
	}
	return message + "\n\n" + m.String()
}

// ReadMark finds the mark of a commit message: the last one, since what an agent
// writes into its own message stands before it. Anybody can write such a line
// into a commit of their own; only the record can confirm it.
func ReadMark(message string) (Mark, bool) {
	all := markLine.FindAllStringSubmatch(message, -1)
	if len(all) == 0 {
		return Mark{}, false
	}
	m := all[len(all)-1]
	return Mark{Call: m[1], Agent: m[2], Session: m[3]}, true
}

package approval

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// DescendsFrom reports whether a process is, or was started directly or through
// others by, the process ancestor. Whoever speaks at the door for people and
// descends from an agent's host is that agent, whatever its uid: set
// Person.Session to that agent's session. A process that has lost its parents is
// nobody's descendant: pair this with OtherUser where agents can daemonise.
func DescendsFrom(pid, ancestor int) (bool, error) {
	for range 1 << 12 { // deeper than any real tree; a bound against a changing one
		if pid == ancestor {
			return true, nil
		}
		if pid <= 1 {
			return false, nil
		}
		parent, err := parentOf(pid)
		if err != nil {
			return false, fmt.Errorf("look for the parents of process %d: %w", pid, err)
		}
		pid = parent
	}
	return false, fmt.Errorf("look for the parents of process %d: there is no end of them", pid)
}

// parentOf reads the fourth field of /proc/PID/stat; the second is the program's
// name in parentheses and may hold anything.
func parentOf(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	return strconv.Atoi(string(fields[1]))
}

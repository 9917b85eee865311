package audit

import "os"

// ahead writes zeros to a segment's file before bbolt needs the room. A sync of
// a write into room that is there costs 0.13 ms here, into a hole 0.24 ms and at
// the end of a file 0.20 ms (ext4): the file system has nothing to note down.
type ahead struct {
	file *os.File
	to   int64 // zeros were written up to here
}

const (
	aheadStep  = 1 << 20
	aheadSpare = 256 << 10
)

var zeroes [64 << 10]byte

// open begins with a segment whose pages end at end.
func (a *ahead) open(path string, end int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	a.file, a.to = f, end
	return err
}

// reserve sees to it that there is room behind end, where the pages in use end.
// It is called before a commit writes. Without room on the disk it does nothing:
// the commit will find out.
func (a *ahead) reserve(end int64) {
	if a.file == nil || end+aheadSpare <= a.to {
		return
	}
	at, to := max(a.to, end), max(a.to, end)+aheadStep
	a.to = to
	for at < to {
		n, err := a.file.WriteAt(zeroes[:min(int64(len(zeroes)), to-at)], at)
		if err != nil {
			return
		}
		at += int64(n)
	}
}

func (a *ahead) close() {
	if a.file != nil {
		_ = a.file.Close()
		a.file = nil
	}
}

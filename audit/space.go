package audit

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// space watches the disk. Its ballast is room that is kept for outcomes.
type space struct {
	dir     string
	opt     *Options
	low     bool // the ballast is given up
	checked time.Time
	short   bool // last answer of the disk: fewer than MinFree bytes
}

func newSpace(dir string, opt *Options) space {
	s := space{dir: dir, opt: opt, low: true}
	s.restore()
	return s
}

// restore allocates the ballast when it is missing and there is room.
func (s *space) restore() {
	if !s.low {
		return
	}
	if s.opt.Ballast <= 0 {
		s.low = false
		return
	}
	path := filepath.Join(s.dir, ballastFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	err = reserve(f, s.opt.Ballast)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
		return
	}
	s.low = false
}

// release gives the ballast up and reports whether that freed anything.
func (s *space) release() bool {
	if s.low || s.opt.Ballast <= 0 {
		return false
	}
	s.low = true
	return os.Remove(filepath.Join(s.dir, ballastFile)) == nil
}

// full reports whether new calls must wait for room. It asks the disk at most
// once a second.
func (s *space) full() bool {
	if now := s.opt.Now(); now.Sub(s.checked) >= time.Second {
		s.checked = now
		s.look()
	}
	return s.low || s.short
}

func (s *space) look() {
	free, err := freeBytes(s.dir)
	if err != nil {
		s.short = false // nothing known: a write will tell
		return
	}
	s.short = s.opt.MinFree > 0 && free < s.opt.MinFree
	level := slog.LevelWarn
	if s.short {
		level = slog.LevelError
	}
	if free < 4*s.opt.MinFree {
		s.opt.Logger.Log(context.Background(), level, "the disk of the audit log is filling up", "dir", s.dir, "free", free, "refuses_below", s.opt.MinFree)
	}
	if s.low && !s.short && free >= 2*s.opt.Ballast { // twice, so that it does not come and go
		s.restore()
	}
}

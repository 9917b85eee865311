package main

import (
	"strings"
	"sync"
	"time"

	"sallyport/policy/approval"
)

// ownSession is how the names of sessions begin that the daemon made up itself.
// Nobody but their one connection knows them, so they end with it.
const ownSession = "s-"

// sessions follows which agents' sessions are at work, so that what a person
// granted for a session ends with it. A session that its host named may come back
// after a restart of the host; it ends when it has had no connection for a while.
type sessions struct {
	mu   sync.Mutex
	open map[string]int       // connections
	left map[string]time.Time // since when a named session has none
}

func newSessions() *sessions { return &sessions{open: map[string]int{}, left: map[string]time.Time{}} }

func (s *sessions) enter(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[session]++
	delete(s.left, session)
}

// leave reports whether the session has ended with this connection.
func (s *sessions) leave(session string, now time.Time) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session]--; s.open[session] > 0 {
		return false
	}
	delete(s.open, session)
	if strings.HasPrefix(session, ownSession) {
		return true
	}
	s.left[session] = now
	return false
}

// expect follows a session of before this daemon as one that has left just now.
func (s *sessions) expect(session string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session != "" && s.open[session] == 0 {
		s.left[session] = now
	}
}

// due takes out the sessions that have been without a connection for too long.
func (s *sessions) due(now time.Time, grace time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for session, since := range s.left {
		if now.Sub(since) >= grace {
			out = append(out, session)
			delete(s.left, session)
		}
	}
	return out
}

// sessionGrace is how long a named session may be without a connection: as long as
// a request and then its approval live, for a headless agent comes back for them.
func (c config) sessionGrace() time.Duration {
	ttl := time.Duration(c.ApprovalTTL)
	if ttl <= 0 {
		ttl = approval.DefaultTTL
	}
	return ttl + approval.DefaultApprovedTTL
}

// expectSessions follows the sessions that the desk knows of from before.
func (d *daemon) expectSessions() error {
	open, err := d.desk.List(approval.Filter{})
	if err != nil {
		return err
	}
	grants, err := d.desk.Grants()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range open {
		d.sessions.expect(r.Session, now)
	}
	for _, g := range grants {
		if g.State(now) == "active" {
			d.sessions.expect(g.Session, now)
		}
	}
	return nil
}

// sessionEnded withdraws what a session has open and revokes what was granted for
// it alone.
func (d *daemon) sessionEnded(session string) {
	if err := d.desk.EndSession(session, "its session ended"); err != nil {
		d.logger.Error("end a session at the desk", "session", session, "err", err)
	}
}

// Package limits bounds what agents do over time: rates, loops, budgets, broken
// tools, and how much runs at once. It keeps its state in memory and takes the
// clock as an argument, so that the same calls give the same answers.
package limits

import (
	"fmt"
	"sync"
	"time"

	"sallyport/policy"
)

// Config is the part of the policy data that this package obeys.
type Config = policy.RateLimits

// Key says whose call of what it is.
type Key struct {
	Agent   string
	Session string
	Tool    string
	// Shape is Shape of the call's arguments: equal for near-duplicates. Empty
	// leaves near-duplicates unseen.
	Shape string
}

// Violation is a refusal by a limit.
type Violation struct {
	Kind   string // "rate", "loop", "budget", "breaker"
	Limit  string // the name of the limit in the policy data: "per_agent" …
	Reason string
	Remedy string
	// RetryAfter is when the same call may be admitted; 0 means that waiting
	// does not help.
	RetryAfter time.Duration
}

// Rule is the violation as a rule that fired.
func (v Violation) Rule() policy.RuleHit {
	return policy.RuleHit{ID: "limits." + v.Kind, Tier: policy.L3, Verdict: policy.Deny, Reason: v.Reason, Remedy: v.Remedy}
}

// Outcome is what became of an admitted call.
type Outcome struct {
	Failed  bool          // the call did not do what was asked; also a program that exited non-zero
	Broken  bool          // the tool itself failed: a time-out, a wall, the machine
	Changed []string      // paths it changed
	Ran     time.Duration // wall time of its command
	// ReadSecret is set when it read a file of the guard "secret".
	ReadSecret bool
}

// Limiter admits calls. Its methods may be called concurrently.
type Limiter struct {
	mu       sync.Mutex
	config   Config
	global   *window
	agents   map[string]*window
	tools    map[[2]string]*window // agent, tool
	breakers map[[2]string]*breaker
	sessions map[string]*session
	swept    time.Time

	slots slots
}

type session struct {
	last     time.Time // of its newest call
	calls    int
	failures int
	changed  map[string]bool
	ran      time.Duration
	secret   bool
	trail    trail
}

// New makes a limiter. A zero field of the config means no limit, but for Slots,
// which is then a multiple of the number of processors.
func New(c Config) *Limiter {
	l := &Limiter{
		agents: map[string]*window{}, tools: map[[2]string]*window{},
		breakers: map[[2]string]*breaker{}, sessions: map[string]*session{},
	}
	l.slots.init(c.Slots)
	l.Configure(c)
	return l
}

// Configure puts new limits in force. What was counted stays counted; the
// number of slots stays as it was made.
func (l *Limiter) Configure(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.WindowSeconds <= 0 {
		c.WindowSeconds = 60
	}
	l.config = c
	l.global = l.global.resized(c.Global)
	for k, w := range l.agents {
		l.agents[k] = w.resized(c.PerAgent)
	}
	for k, w := range l.tools {
		l.tools[k] = w.resized(c.PerTool)
	}
}

// Admit counts a call and says whether it may go on. Digest identifies tool and
// arguments. A refused call is not counted, but for one refused as a loop, which
// stays a loop until something changes.
func (l *Limiter) Admit(now time.Time, k Key, digest string) (ok bool, v Violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	s := l.session(k.Session)
	s.last = now
	repeat := s.trail.add(now, k.Tool, digest, k.Shape, l.config.Repeats)
	for _, check := range []func() (Violation, bool){
		func() (Violation, bool) { return l.overBudget(s) },
		func() (Violation, bool) { return repeat, repeat.Kind != "" },
		func() (Violation, bool) { return l.broken(now, k) },
		func() (Violation, bool) { return l.overRate(now, k) },
	} {
		if v, bad := check(); bad {
			if v.Kind != "loop" {
				s.trail.drop()
			}
			return false, v
		}
	}
	s.calls++
	return true, Violation{}
}

// Observe tells what became of an admitted call.
func (l *Limiter) Observe(now time.Time, k Key, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session(k.Session)
	s.last = now
	if o.Failed {
		s.failures++
	} else {
		s.failures = 0
	}
	for _, p := range o.Changed {
		s.changed[p] = true
	}
	if len(o.Changed) > 0 {
		s.trail.progress()
	}
	s.trail.outcome(o.Failed)
	s.ran += o.Ran
	s.secret = s.secret || o.ReadSecret
	l.breaker(k).observe(now, o.Broken, l.config)
}

// Session is what rules see of a session. Asked after Admit, it does not count
// the call just admitted.
func (l *Limiter) Session(id string) policy.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.sessions[id]
	if !ok {
		return policy.Session{}
	}
	return policy.Session{
		Calls: max(0, s.calls-1), Repeats: max(0, s.trail.inRow()-1), Failures: s.failures,
		ChangedFiles: len(s.changed), ReadsSecret: s.secret,
	}
}

// End forgets a session.
func (l *Limiter) End(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, id)
}

func (l *Limiter) session(id string) *session {
	s, ok := l.sessions[id]
	if !ok {
		s = &session{changed: map[string]bool{}}
		l.sessions[id] = s
	}
	return s
}

// idle is after how long without a call a session and its windows are forgotten.
const idle = 24 * time.Hour

// sweep forgets what is idle, at most once an hour.
func (l *Limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Hour {
		return
	}
	l.swept = now
	for id, s := range l.sessions {
		if now.Sub(s.last) > idle {
			delete(l.sessions, id)
		}
	}
	for k, w := range l.agents {
		if w.quiet(now, idle) {
			delete(l.agents, k)
		}
	}
	for k, w := range l.tools {
		if w.quiet(now, idle) {
			delete(l.tools, k)
		}
	}
	for k, b := range l.breakers {
		if now.Sub(b.seen) > idle {
			delete(l.breakers, k)
		}
	}
}

func (l *Limiter) overBudget(s *session) (Violation, bool) {
	over := func(limit string, have, most int, what string) (Violation, bool) {
		return Violation{
			Kind: "budget", Limit: limit,
			Reason: fmt.Sprintf("this session has used its budget of %d %s", most, what),
			Remedy: "report what is done so far; a person can start a new session or raise limits." + limit,
		}, most > 0 && have >= most
	}
	if v, bad := over("calls", s.calls, l.config.Calls, "calls"); bad {
		return v, true
	}
	if v, bad := over("changed_files", len(s.changed), l.config.ChangedFiles, "changed files"); bad {
		return v, true
	}
	return over("run_seconds", int(s.ran/time.Second), l.config.RunSeconds, "seconds of running commands")
}

func (l *Limiter) overRate(now time.Time, k Key) (Violation, bool) {
	span := time.Duration(l.config.WindowSeconds) * time.Second
	windows := []struct {
		limit string
		w     *window
		what  string
	}{
		{"per_tool", windowOf(l.tools, [2]string{k.Agent, k.Tool}, l.config.PerTool), "calls of " + k.Tool},
		{"per_agent", windowOf(l.agents, k.Agent, l.config.PerAgent), "calls of this agent"},
		{"global", l.global, "calls of all agents"},
	}
	for _, w := range windows {
		if wait := w.w.wait(now, span); wait > 0 {
			return Violation{
				Kind: "rate", Limit: w.limit, RetryAfter: wait,
				Reason: fmt.Sprintf("more than %d %s within %s", len(w.w.at), w.what, span),
				Remedy: fmt.Sprintf("wait %s, then go on", wait.Round(time.Millisecond)),
			}, true
		}
	}
	for _, w := range windows {
		w.w.add(now)
	}
	return Violation{}, false
}

func windowOf[K comparable](m map[K]*window, k K, most int) *window {
	w, ok := m[k]
	if !ok {
		w = newWindow(most)
		m[k] = w
	}
	return w
}

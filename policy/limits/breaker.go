package limits

import (
	"fmt"
	"time"
)

// breaker stops calls of a tool that keeps failing by itself. It is kept per
// agent and tool, so that no agent can close a tool to others.
type breaker struct {
	failures int
	opened   time.Time // zero: closed
	trial    bool      // one call is under way to see whether the tool works again
	seen     time.Time
}

func (l *Limiter) breaker(k Key) *breaker {
	key := [2]string{k.Agent, k.Tool}
	b, ok := l.breakers[key]
	if !ok {
		b = &breaker{}
		l.breakers[key] = b
	}
	return b
}

func (b *breaker) observe(now time.Time, failed bool, c Config) {
	b.seen, b.trial = now, false
	if !failed {
		b.failures, b.opened = 0, time.Time{}
		return
	}
	b.failures++
	if c.BreakerAfter > 0 && b.failures >= c.BreakerAfter {
		b.opened = now
	}
}

// broken refuses while the breaker is open. After the cooling time one call is
// let through to see whether the tool works again.
func (l *Limiter) broken(now time.Time, k Key) (Violation, bool) {
	b := l.breaker(k)
	b.seen = now
	if b.opened.IsZero() || l.config.BreakerAfter <= 0 {
		return Violation{}, false
	}
	cool := time.Duration(max(1, l.config.BreakerCool)) * time.Second
	wait := b.opened.Add(cool).Sub(now)
	if wait <= 0 && !b.trial {
		b.trial = true
		b.opened = now // a trial that never ends does not hold the breaker open for ever
		return Violation{}, false
	}
	if wait <= 0 {
		b.trial = false
	}
	return Violation{
		Kind: "breaker", Limit: "breaker_after", RetryAfter: max(wait, time.Second),
		Reason: fmt.Sprintf("%s failed by itself %d times in a row", k.Tool, b.failures),
		Remedy: "use another tool, or wait; `sallyport doctor` tells what is wrong",
	}, true
}

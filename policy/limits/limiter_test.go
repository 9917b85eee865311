package limits_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/limits"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func key(tool string) limits.Key {
	return limits.Key{Agent: "a", Session: "s", Tool: tool}
}

// admit makes n calls, one a second, each with its own arguments, and returns
// the violation of the first refused one.
func admit(l *limits.Limiter, k limits.Key, from, n int) (admitted int, v limits.Violation) {
	for i := range n {
		ok, v := l.Admit(start.Add(time.Duration(from+i)*time.Second), k, fmt.Sprint(k.Tool, from+i))
		if !ok {
			return i, v
		}
	}
	return n, limits.Violation{}
}

func TestRates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config limits.Config
		limit  string
	}{
		"per agent": {limits.Config{PerAgent: 5}, "per_agent"},
		"per tool":  {limits.Config{PerTool: 5}, "per_tool"},
		"global":    {limits.Config{Global: 5}, "global"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits.New(tt.config)
			n, v := admit(l, key("grep"), 0, 10)
			assert.Equal(t, 5, n)
			assert.Equal(t, "rate", v.Kind)
			assert.Equal(t, tt.limit, v.Limit)
			assert.Equal(t, 55*time.Second, v.RetryAfter, "the first call leaves the window of 60 s then")

			ok, _ := l.Admit(start.Add(5*time.Second+v.RetryAfter), key("grep"), "x")
			assert.True(t, ok, "after the time named one more fits")
			ok, _ = l.Admit(start.Add(5*time.Second+v.RetryAfter), key("grep"), "y")
			assert.False(t, ok, "and only one")
		})
	}
}

func TestRatesOfOthersAreTheirOwn(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{PerAgent: 2, PerTool: 1})
	n, _ := admit(l, key("grep"), 0, 2)
	require.Equal(t, 1, n)
	ok, _ := l.Admit(start, key("glob"), "x")
	assert.True(t, ok, "another tool of the agent")
	ok, v := l.Admit(start, key("read_file"), "x")
	assert.False(t, ok)
	assert.Equal(t, "per_agent", v.Limit)
	ok, _ = l.Admit(start, limits.Key{Agent: "b", Session: "t", Tool: "grep"}, "x")
	assert.True(t, ok, "another agent")
}

func TestLoops(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		calls  []string // digests in order
		refuse int      // index of the first refused call, -1 for none
	}{
		"ten identical calls are borne":    {repeat([]string{"a"}, 10), -1},
		"the eleventh is a loop":           {repeat([]string{"a"}, 11), 10},
		"identical with others in between": {append(append(repeat([]string{"a"}, 10), "b", "c", "d"), "a"), 13},
		"A-B-A-B":                          {repeat([]string{"a", "b"}, 8), 9},
		"A-B-C-A-B-C":                      {repeat([]string{"a", "b", "c"}, 8), 14},
		"all different":                    {distinct(100), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits.New(limits.Config{Repeats: 10})
			refused := -1
			for i, d := range tt.calls {
				ok, v := l.Admit(start.Add(time.Duration(i)*time.Second), key("run_command"), d)
				if !ok {
					assert.Equal(t, "loop", v.Kind)
					refused = i
					break
				}
			}
			assert.Equal(t, tt.refuse, refused)
		})
	}
}

func repeat(cycle []string, n int) (out []string) {
	for range n {
		out = append(out, cycle...)
	}
	return out
}

func distinct(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestProgressEndsALoop(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{Repeats: 3})
	for i := range 20 {
		ok, v := l.Admit(start, key("run_tests"), "same")
		require.True(t, ok, "call %d: %s", i, v.Reason)
		l.Observe(start, key("edit_file"), limits.Outcome{Changed: []string{"main.go"}})
	}
}

func TestOldCallsAreNoLoop(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{Repeats: 3})
	for i := range 20 {
		ok, _ := l.Admit(start.Add(time.Duration(i)*10*time.Minute), key("git_status"), "same")
		require.True(t, ok)
	}
}

func TestNearDuplicates(t *testing.T) {
	t.Parallel()
	run := func(failed bool) int {
		l := limits.New(limits.Config{Repeats: 10})
		for i := range 100 {
			args := fmt.Appendf(nil, `{"command":"try  --attempt %d"}`, i)
			k := key("run_command")
			k.Shape = limits.Shape(k.Tool, args)
			if ok, _ := l.Admit(start, k, string(args)); !ok {
				return i
			}
			l.Observe(start, k, limits.Outcome{Failed: failed})
		}
		return -1
	}
	assert.Equal(t, 11, run(true), "failing ones are a loop soon")
	assert.Equal(t, 50, run(false), "paging is borne longer")
}

func TestShape(t *testing.T) {
	t.Parallel()
	a := limits.Shape("grep", []byte(`{"pattern":"Foo  12"}`))
	assert.Equal(t, a, limits.Shape("grep", []byte(`{"pattern":"foo 3456"}`)))
	assert.NotEqual(t, a, limits.Shape("glob", []byte(`{"pattern":"foo 3456"}`)))
	assert.NotEqual(t, a, limits.Shape("grep", []byte(`{"pattern":"bar 12"}`)))
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config  limits.Config
		outcome limits.Outcome
		limit   string
		after   int
	}{
		"calls":         {limits.Config{Calls: 3}, limits.Outcome{}, "calls", 3},
		"changed files": {limits.Config{ChangedFiles: 2}, limits.Outcome{Changed: []string{"x", "y"}}, "changed_files", 1},
		"run time":      {limits.Config{RunSeconds: 10}, limits.Outcome{Ran: 4 * time.Second}, "run_seconds", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits.New(tt.config)
			for i := range 10 {
				ok, v := l.Admit(start, key("run_command"), fmt.Sprint(i))
				if !ok {
					assert.Equal(t, "budget", v.Kind)
					assert.Equal(t, tt.limit, v.Limit)
					assert.Zero(t, v.RetryAfter, "waiting does not help")
					assert.Equal(t, tt.after, i)
					return
				}
				l.Observe(start, key("run_command"), tt.outcome)
			}
			t.Fatal("the budget never ended")
		})
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{BreakerAfter: 3, BreakerCool: 30})
	k := key("run_command")
	now := start
	call := func() bool {
		ok, _ := l.Admit(now, k, now.String())
		return ok
	}
	fail := func(broken bool) { l.Observe(now, k, limits.Outcome{Failed: true, Broken: broken}) }
	for range 5 {
		require.True(t, call())
		fail(false) // a program that exits non-zero does not break the tool
	}
	for range 3 {
		now = now.Add(time.Second)
		require.True(t, call())
		fail(true)
	}
	assert.False(t, call(), "open")
	ok, _ := l.Admit(now, key("grep"), "x")
	assert.True(t, ok, "another tool")
	ok, _ = l.Admit(now, limits.Key{Agent: "b", Session: "t", Tool: "run_command"}, "x")
	assert.True(t, ok, "another agent")

	now = now.Add(30 * time.Second)
	assert.True(t, call(), "one trial after cooling")
	assert.False(t, call(), "and only one")
	fail(true)
	assert.False(t, call(), "the trial failed")
	now = now.Add(30 * time.Second)
	assert.True(t, call())
	fail(false)
	assert.True(t, call(), "it works again")
	assert.True(t, call())
}

func TestSession(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{})
	assert.Equal(t, policy.Session{}, l.Session("s"))
	for range 3 {
		l.Admit(start, key("grep"), "same")
		l.Observe(start, key("grep"), limits.Outcome{Failed: true, Changed: []string{"a", "a"}, ReadSecret: true})
	}
	l.Admit(start, key("grep"), "same")
	l.Admit(start, key("grep"), "same")
	assert.Equal(t, policy.Session{Calls: 4, Repeats: 1, Failures: 3, ChangedFiles: 1, ReadsSecret: true}, l.Session("s"))
	l.End("s")
	assert.Equal(t, policy.Session{}, l.Session("s"))
}

func TestConfigureKeepsWhatWasCounted(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{PerAgent: 100})
	n, _ := admit(l, key("grep"), 0, 6)
	require.Equal(t, 6, n)
	l.Configure(limits.Config{PerAgent: 5})
	ok, v := l.Admit(start.Add(6*time.Second), key("grep"), "x")
	assert.False(t, ok)
	assert.Equal(t, "per_agent", v.Limit)
}

func TestSlots(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{Slots: 2})
	ctx := context.Background()
	var running, most atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			release, err := l.Slot(ctx, "")
			assert.NoError(t, err)
			defer release()
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			running.Add(-1)
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int32(2))

	release, err := l.Slot(ctx, "build")
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = l.Slot(short, "build")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	other, err := l.Slot(ctx, "test")
	require.NoError(t, err)
	_, err = l.Slot(short, "")
	assert.ErrorIs(t, err, context.DeadlineExceeded, "both slots are taken")
	other()
	release()
	release() // a second call does nothing
	again, err := l.Slot(ctx, "build")
	require.NoError(t, err)
	again()
}

func BenchmarkAdmit(b *testing.B) {
	l := limits.New(limits.Config{PerAgent: 240, PerTool: 120, Global: 1200, Repeats: 10})
	k := key("grep")
	i := 0
	for b.Loop() {
		i++
		l.Admit(start.Add(time.Duration(i)*time.Second), k, fmt.Sprint(i))
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// answered is what one agent was told of one call.
type answered struct {
	token string // in the arguments of this call and of no other
	text  string
	id    string // the daemon's call id, where the daemon answered
	begun time.Time
	ended time.Time
}

// chaosAgent calls until stop and once more, and keeps what it was told.
func chaosAgent(c *wire, n int, stop *atomic.Bool) []answered {
	var all []answered
	for i, last := 1, false; !last; i++ {
		last = stop.Load()
		token := fmt.Sprintf("t%dn%d", n, i)
		line := call(i, "grep", `{"pattern":"`+token+`"}`)
		if i%4 == 0 {
			line = call(i, "run_command", `{"command":"python3 -c 'print(\"`+token+`\")'"}`)
		}
		a := answered{token: token, begun: time.Now()}
		c.send(line)
		var m struct {
			ID     int `json:"id"`
			Result struct {
				Content []struct{ Text string }
				Meta    map[string]any `json:"_meta"`
			}
		}
		got := c.recv()
		if err := json.Unmarshal([]byte(got), &m); err != nil || m.ID != i || len(m.Result.Content) == 0 {
			c.t.Errorf("agent %d asked %d and was told %s", n, i, got)
			return all
		}
		a.ended, a.text = time.Now(), m.Result.Content[0].Text
		a.id, _ = m.Result.Meta["sallyport/call"].(string)
		all = append(all, a)
	}
	return all
}

// TestChaos kills the daemon again and again under twelve busy agents. Whatever
// a shim says of a call that was in flight has to be the truth of the log.
func TestChaos(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("SALLYPORT_TEST_LONG") != "" {
		kills = 50
	}
	w := newWorld(t)
	var stop atomic.Bool
	var wg sync.WaitGroup
	told := make([][]answered, 12)
	for n := range told {
		cmd := w.command("mcp", "--workspace", w.work, "--session", fmt.Sprint("chaos", n), "--agent", fmt.Sprint("chaos", n))
		c := w.over(cmd)
		wg.Go(func() { told[n] = chaosAgent(c, n, &stop) })
	}
	var killed []time.Time
	b := remote(place{state: w.state})
	defer b.close()
	for range kills {
		time.Sleep(time.Duration(200+rand.IntN(800)) * time.Millisecond)
		pid := w.daemonPID()
		killed = append(killed, time.Now())
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		waitFor(t, "another daemon serves", func() bool {
			var s status
			return b.do(t.Context(), http.MethodGet, "/v1/status", nil, &s) == nil && s.PID != pid
		})
	}
	stop.Store(true)
	wg.Wait()

	text, err := w.run("audit", "verify")
	require.NoError(t, err, text)
	calls := map[string][]audit.Record{} // by token
	tokens := map[string]string{}        // by call: an interrupted call's last record has no arguments
	for _, r := range w.records() {
		if token := tokenOf(r); token != "" {
			tokens[r.Call] = token
		}
		calls[tokens[r.Call]] = append(calls[tokens[r.Call]], r)
	}
	var pauses, works []time.Duration
	for n, all := range told {
		require.NotEmpty(t, all, "agent %d", n)
		assert.NotContains(t, all[len(all)-1].text, "ended while this was in flight", "agent %d did not recover", n)
		for _, a := range all {
			checkTold(t, a, calls[a.token])
		}
		for _, at := range killed {
			first, back := pausesOf(all, at)
			pauses, works = append(pauses, first...), append(works, back...)
		}
	}
	t.Logf("%d kills: %s until the call in flight is answered, %s until the new daemon answers a call", kills, spread(pauses), spread(works))
}

// pausesOf is how long after a kill an agent got the answer to its call in
// flight, and how long after it the next answer of a daemon.
func pausesOf(all []answered, at time.Time) (first, back []time.Duration) {
	for _, a := range all {
		switch {
		case a.ended.Before(at):
		case a.id != "":
			return first, append(back, a.ended.Sub(at))
		case len(first) == 0 && a.begun.Before(at):
			first = append(first, a.ended.Sub(at))
		}
	}
	return first, nil
}

func spread(of []time.Duration) string {
	if len(of) == 0 {
		return "nothing"
	}
	slices.Sort(of)
	at := func(q int) time.Duration { return of[(len(of)-1)*q/100].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, most %v of %d", at(50), at(99), at(100), len(of))
}

func tokenOf(r audit.Record) string {
	if r.Kind == audit.KindEvent {
		return ""
	}
	var a struct{ Pattern, Command string }
	if json.Unmarshal(r.Args, &a) != nil {
		return ""
	}
	if a.Command != "" {
		_, rest, _ := strings.Cut(a.Command, `"`)
		a.Pattern, _, _ = strings.Cut(rest, `"`)
	}
	return a.Pattern
}

// checkTold compares what an agent was told with the records of its call.
func checkTold(t *testing.T, a answered, records []audit.Record) {
	t.Helper()
	ids, intents := map[string]bool{}, 0
	var last audit.Record
	for _, r := range records {
		ids[r.Call] = true
		if r.Kind == audit.KindIntent {
			intents++
		} else {
			last = r
		}
	}
	assert.LessOrEqual(t, len(ids), 1, "%s was called twice", a.token)
	assert.LessOrEqual(t, intents, 1, "%s ran twice", a.token)
	switch {
	case a.id != "":
		assert.Equal(t, a.id, last.Call, "%s was acknowledged and is not on record: %s", a.token, a.text)
	case strings.Contains(a.text, "there is no record of it"):
		assert.Empty(t, records, a.token)
	case strings.Contains(a.text, "was cut off"):
		assert.Equal(t, audit.StatusInterrupted, last.Status, a.token)
	case strings.Contains(a.text, "it had ended"):
		assert.Equal(t, audit.StatusOK, last.Status, a.token)
	case strings.Contains(a.text, "whether it took effect is unknown"):
	default:
		t.Errorf("%s was told %q", a.token, a.text)
	}
}

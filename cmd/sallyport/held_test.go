package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// ci is a command with a harmless text whose effect changes CI configuration.
const ci = `{"command":"python3 run.py","write":true}`

// holding is a workspace whose command has run, and whose changes wait for a
// person.
func holding(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.write("names.txt", ".github/workflows/ci.yml\nmade.txt\n")
	w.write("run.py", `import pathlib
for n in open("names.txt"):
    p = pathlib.Path(n.strip())
    p.parent.mkdir(parents=True, exist_ok=True)
    with p.open("a") as f:
        f.write("once\n")
`)
	c := w.connect()
	c.send(call(1, "run_command", ci))
	require.Contains(t, c.recv(), "L2")
	w.approvePending()
	c.send(call(2, "run_command", ci))
	require.Regexp(t, `pending: approval .* needed \(L3\)`, c.recv())
	require.NoFileExists(t, filepath.Join(w.work, "made.txt"))
	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
	return w
}

// approvePending approves the one request that waits.
func (w *world) approvePending() {
	w.t.Helper()
	all := w.pending()
	require.Len(w.t, all, 1)
	out, err := w.run("approvals", "approve", all[0].ID)
	require.NoError(w.t, err, out)
}

// runs counts how often the command was run.
func (w *world) runs() int {
	n := 0
	for _, r := range w.records() {
		if r.Kind == audit.KindOutcome && r.Tool == "run_command" && r.Exit != nil && r.Status == audit.StatusPending {
			n++
		}
	}
	return n
}

// What waits to land outlives the daemon, however that ended.
func TestHeldChangesOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"stopped": func(w *world) { _, err := w.run("stop"); require.NoError(w.t, err) },
		"killed":  func(w *world) { w.kill() },
		"killed after the approval": func(w *world) {
			w.approvePending()
			w.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := holding(t)
			end(w)
			if len(w.pending()) > 0 {
				w.approvePending()
			}
			c := w.connect()
			c.send(call(1, "run_command", ci))
			answer := c.recv()
			require.NotContains(t, answer, "pending", answer)
			b, err := os.ReadFile(filepath.Join(w.work, "made.txt"))
			require.NoError(t, err)
			assert.Equal(t, "once\n", string(b), "landed, and not run again")
			assert.FileExists(t, filepath.Join(w.work, ".github/workflows/ci.yml"))
			assert.Equal(t, 1, w.runs())
			left, err := os.ReadDir(filepath.Join(w.state, "tx"))
			require.NoError(t, err)
			for _, d := range left {
				_, err := os.Stat(filepath.Join(w.state, "tx", d.Name(), "note"))
				assert.True(t, os.IsNotExist(err), "nothing waits any more")
			}
			out, err := w.run("audit", "verify")
			require.NoError(t, err, out)
		})
	}
}

// A person's no drops what waited, also after a restart.
func TestHeldChangesAreDroppedOnDenial(t *testing.T) {
	t.Parallel()
	w := holding(t)
	w.kill()
	out, err := w.run("approvals", "deny", w.pending()[0].ID, "not in CI")
	require.NoError(t, err, out)
	c := w.connect()
	c.send(call(1, "run_command", ci))
	assert.Contains(t, c.recv(), "not in CI")
	assert.NoFileExists(t, filepath.Join(w.work, "made.txt"))
}

// Identical calls that come while changes are held land them once, and each of them
// is told so.
func TestIdenticalCallsLandOnce(t *testing.T) {
	t.Parallel()
	w := holding(t)
	w.approvePending()
	const n = 6
	var all []*wire
	for range n {
		all = append(all, w.connect())
	}
	for i, c := range all {
		c.send(call(i+1, "run_command", ci))
	}
	landed, told, other := 0, 0, 0
	for _, c := range all {
		var m struct {
			Result struct {
				Content []struct{ Text string }
				IsError bool
			}
		}
		require.NoError(t, json.Unmarshal([]byte(c.recv()), &m))
		text := m.Result.Content[0].Text
		switch {
		case strings.Contains(text, "landed at this moment"):
			told++
		case m.Result.IsError && strings.Contains(text, "pending"): // came later: a new call, which asks anew
			other++
		default:
			landed++
		}
	}
	assert.Equal(t, 1, landed, "told %d, asked anew %d", told, other)
	assert.Equal(t, n, landed+told+other)
	b, err := os.ReadFile(filepath.Join(w.work, "made.txt"))
	require.NoError(t, err)
	assert.Equal(t, "once\n", string(b))
	t.Logf("%d landed, %d were told, %d asked anew", landed, told, other)
}

// TestHeldChangesKeepNoSecret: what a command printed before its changes wait
// lies on disk, over a restart, without the secrets in it.
func TestHeldChangesKeepNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	w.write("names.txt", ".github/workflows/ci.yml")
	w.write("run.py", `import pathlib
print("ghp_" + "a1B2" * 9)
p = pathlib.Path(open("names.txt").read())
p.parent.mkdir(parents=True)
p.write_text("on: push")
`)
	c := w.connect()
	c.send(call(1, "run_command", ci))
	require.Contains(t, c.recv(), "L2")
	w.approvePending()
	c.send(call(2, "run_command", ci))
	require.Regexp(t, `pending: approval .* needed \(L3\)`, c.recv())
	notes, err := filepath.Glob(filepath.Join(w.state, "tx", "*", "note"))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	note, err := os.ReadFile(notes[0])
	require.NoError(t, err)
	var kept struct {
		Result struct {
			Stdout struct{ Data []byte }
		}
	}
	require.NoError(t, json.Unmarshal(note, &kept))
	assert.NotEmpty(t, kept.Result.Stdout.Data)
	assert.NotContains(t, string(kept.Result.Stdout.Data), secret)
	assert.NotContains(t, string(note), secret)
}

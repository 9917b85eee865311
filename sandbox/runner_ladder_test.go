//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onRung makes a Runner believe that this machine gives no more than flags.
func onRung(t *testing.T, flags uintptr) *Runner {
	r := newRunner(t)
	r.rung = &rung{flags: flags, why: "taken away by the test"}
	return r
}

func TestEveryRungHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		flags uintptr
		root  bool
		level Level
	}{
		{"no network namespace", allNamespaces &^ unix.CLONE_NEWNET, false, LevelReduced},
		{"no user namespace", allNamespaces &^ unix.CLONE_NEWUSER, true, LevelReduced},
		{"no namespace", 0, false, LevelMinimal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.root && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			r, ws, outside := onRung(t, tc.flags), newWorkspace(t), newWorkspace(t)
			put(t, ws, map[string]string{"in": "in", ".env": "canary", "sub/f": "f"})
			put(t, outside, map[string]string{"secret": "canary"})
			res := run(t, r, ws, shell(`cat in sub/f; cat .env `+outside+`/secret /root/.bashrc; echo x > new; echo x > /var/tmp/sallyport-x
				echo tmp > $TMPDIR/t && cat $TMPDIR/t; echo home > ~/h && cat ~/h
				python3 -c 'import socket; socket.create_connection(("127.0.0.1", 1))'`, WriteNone))
			assert.Equal(t, tc.level, res.Level)
			assert.Equal(t, "inftmp\nhome\n", string(res.Stdout.Data), "stderr: %s", res.Stderr.Data)
			assert.NoFileExists(t, filepath.Join(ws, "new"))
			assert.NoFileExists(t, "/var/tmp/sallyport-x")
			for _, w := range res.Walls {
				if !w.Up {
					assert.NotEmpty(t, w.Reason, w.Name)
				}
			}
		})
	}
}

func TestWithoutNamespacesNothingOutlivesARun(t *testing.T) {
	t.Parallel()
	r, ws := onRung(t, 0), newWorkspace(t)
	for _, cmd := range []string{
		"setsid sleep 98761 & (setsid setsid sleep 98761 &) ; true",
		"setsid sleep 98761 & sleep 98761",
	} {
		_, err := r.Run(context.Background(), Action{Workspace: ws, Exec: &Exec{Shell: cmd, Timeout: 700 * time.Millisecond}}, Terms{})
		if err != nil {
			var typed *Error
			require.ErrorAs(t, err, &typed)
			assert.Equal(t, KindTimeout, typed.Kind)
		}
		assert.Empty(t, processes(t, "98761"), cmd)
	}
}

func TestWithoutNamespacesWritesAreRefused(t *testing.T) {
	t.Parallel()
	r, ws := onRung(t, 0), newWorkspace(t)
	put(t, ws, map[string]string{".env": "canary", ".mcp.json": "{}", "f": "f"})
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("cat f .env; echo x > new; echo x >> f; rm f; echo t > $TMPDIR/t && cat $TMPDIR/t", WriteDiscard)},
		Terms{Write: WriteDiscard})
	require.NoError(t, err, "what would be thrown away may fail instead")
	assert.Equal(t, LevelMinimal, res.Level)
	assert.Equal(t, "ft\n", string(res.Stdout.Data))
	assert.NoFileExists(t, filepath.Join(ws, "new"))
	var words []string
	for _, d := range res.Denials {
		words = append(words, d.What)
	}
	assert.Contains(t, words, "write to new refused: without a mount namespace the workspace is read-only")
	assert.Contains(t, words, "read of .env refused: hidden path")
	for _, mode := range []WriteMode{WriteTransaction, WriteDirect} {
		_, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("true", mode)}, Terms{Write: mode})
		var typed *Error
		require.ErrorAs(t, err, &typed)
		assert.Equal(t, KindWalls, typed.Kind)
		assert.NotEmpty(t, typed.Remedy)
	}
}

func TestBelowTheMinimumNothingRuns(t *testing.T) {
	t.Parallel()
	r, ws := onRung(t, 0), newWorkspace(t)
	r.opts.MinLevel = LevelReduced
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("true", WriteNone)}, Terms{})
	var typed *Error
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, KindWalls, typed.Kind)
	assert.False(t, res.Ran)
}

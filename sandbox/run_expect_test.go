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
)

// TestBytesJudgedAreBytesRun: once a command with a layer has started, a change
// of a judged file beneath the layer is not what it sees, whatever its mode.
func TestBytesJudgedAreBytesRun(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o644, 0o444, 0o755} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r, w := newRunner(t), newWorkspace(t)
			script := filepath.Join(w, "sub", "s.sh")
			require.NoError(t, os.Mkdir(filepath.Dir(script), 0o755))
			require.NoError(t, os.WriteFile(script, []byte("echo judged\n"), mode))
			go func() {
				held := filepath.Join(r.opts.State, "tx", "*", "upper", "sub", "s.sh")
				for range 600 {
					if found, _ := filepath.Glob(held); len(found) > 0 {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				_ = os.Chmod(script, 0o644)
				_ = os.WriteFile(script, []byte("echo swapped\n"), mode)
			}()
			wait := "for i in $(seq 100); do sleep 0.05; done; "
			res, err := r.Run(context.Background(), Action{Workspace: w, Exec: shell(wait+"sh sub/s.sh", WriteTransaction)},
				Terms{Write: WriteTransaction, Expect: map[string]string{"sub/s.sh": hexSum([]byte("echo judged\n"))}})
			require.NoError(t, err)
			assert.Equal(t, "judged\n", string(res.Stdout.Data))
			now, err := os.ReadFile(script)
			require.NoError(t, err)
			assert.Equal(t, "echo swapped\n", string(now), "the file was changed while the command ran")
			assert.Empty(t, res.Changes, "holding a file is no change of it")
		})
	}
}

// TestCellRefusesWhatWasNotJudged reaches the cell's own check, which is the last
// before the program starts: the runner's is left out.
func TestCellRefusesWhatWasNotJudged(t *testing.T) {
	t.Parallel()
	r, w := newRunner(t), newWorkspace(t)
	require.NoError(t, os.WriteFile(filepath.Join(w, "s.sh"), []byte("echo other\n"), 0o644))
	for name, expect := range map[string]map[string]string{
		"another content": {"s.sh": hexSum([]byte("echo judged\n"))},
		"absent then":     {"s.sh": ""},
		"gone now":        {"gone.sh": hexSum([]byte("echo judged\n"))},
	} {
		for _, mode := range []WriteMode{WriteNone, WriteDiscard, WriteTransaction, WriteDirect} {
			var res Result
			err := r.exec(context.Background(), w, *shell("echo ran; touch ran", mode), Terms{Write: mode, Expect: expect}, &res)
			var e *Error
			require.ErrorAs(t, err, &e, "%s %s", name, mode)
			assert.Equal(t, KindStale, e.Kind)
			assert.Contains(t, e.Msg, "changed after the call was judged")
			assert.False(t, res.Ran)
			assert.Empty(t, res.Tx)
			assert.NoFileExists(t, filepath.Join(w, "ran"))
		}
	}
	var res Result
	require.NoError(t, r.exec(context.Background(), w, *shell("cat s.sh", WriteNone), Terms{Expect: map[string]string{"s.sh": hexSum([]byte("echo other\n")), "gone.sh": ""}}, &res))
	assert.Equal(t, "echo other\n", string(res.Stdout.Data))
}

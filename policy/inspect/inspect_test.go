package inspect

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

// memory is a workspace in a map.
type memory map[string]string

func (m memory) ReadFile(p string, max int64) ([]byte, error) {
	s, ok := m[p]
	if !ok || int64(len(s)) > max {
		return nil, os.ErrNotExist
	}
	return []byte(s), nil
}

func (m memory) Exists(p string) string {
	if _, ok := m[p]; ok {
		return "file"
	}
	return "absent"
}

const root = "/work/space"

func look(t testing.TB, files memory, text string) policy.Facts {
	t.Helper()
	i := New(Options{Files: func(string) (Files, error) { return files, nil }})
	f, err := i.Inspect(context.Background(), shellCall(text))
	require.NoError(t, err)
	return f
}

func shellCall(text string) policy.Call {
	return policy.Call{Phase: policy.PhaseCall, Action: sandbox.Action{Workspace: root, Exec: &sandbox.Exec{Shell: text}}}
}

func TestShow(t *testing.T) {
	text := os.Getenv("LOOK")
	if text == "" {
		t.Skip("set LOOK to a command text")
	}
	b, _ := json.MarshalIndent(look(t, nil, text), "", " ")
	t.Log(string(b))
}

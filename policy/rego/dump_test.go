package rego_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/sandbox"
)

// TestDump prints facts and decision of the command in CMD.
func TestDump(t *testing.T) {
	text := os.Getenv("CMD")
	if text == "" {
		t.Skip("set CMD to a shell text")
	}
	g, _ := gate(t)
	c := shellCall()
	c.Action = sandbox.Action{Workspace: c.Workspace.Root, Exec: &sandbox.Exec{Shell: text}}
	d, f := g.Admit(context.Background(), c)
	facts, err := json.MarshalIndent(f, "", " ")
	require.NoError(t, err)
	decision, err := json.MarshalIndent(d, "", " ")
	require.NoError(t, err)
	fmt.Println(string(facts), string(decision))
}

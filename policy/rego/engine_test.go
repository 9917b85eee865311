package rego

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

func load(t testing.TB, layers ...Layer) *Engine {
	t.Helper()
	e, err := Load(context.Background(), Options{Layers: layers})
	require.NoError(t, err)
	return e
}

func call(tool string) policy.Call {
	c := policy.Call{
		Phase: policy.PhaseCall, Tool: tool, Now: time.Unix(1_700_000_000, 0),
		Agent:     policy.Agent{Name: "claude-code", MaxTier: policy.L3},
		Workspace: policy.Workspace{Root: "/w", Branch: "work", Preset: "strict"},
	}
	if tool == "run_command" || tool == "run_tests" {
		c.Action.Exec = &sandbox.Exec{}
	}
	return c
}

func command(argv ...string) policy.Cmd {
	c := policy.Cmd{Program: argv[0], Path: "/usr/bin/" + argv[0], Argv: argv, Dir: "/w"}
	for i, a := range argv[1:] {
		switch {
		case len(a) > 0 && a[0] == '-':
			c.Flags = append(c.Flags, a)
		case c.Sub == "" && i == 0:
			c.Sub = a
		default:
			c.Args = append(c.Args, a)
		}
	}
	for _, a := range argv {
		c.Text += a + " "
	}
	return c
}

func TestDecideCommands(t *testing.T) {
	t.Parallel()
	e := load(t)
	for _, tt := range []struct {
		argv    []string
		tier    policy.Tier
		verdict policy.Verdict
	}{
		{[]string{"ls", "-l"}, policy.L0, policy.Allow},
		{[]string{"git", "status"}, policy.L0, policy.Allow},
		{[]string{"git", "commit", "-m", "x"}, policy.L2, policy.Ask},
		{[]string{"git", "push"}, policy.L3, policy.Ask},
		{[]string{"go", "test", "./..."}, policy.L1, policy.Allow},
		{[]string{"mytool"}, policy.L1, policy.Allow},
		{[]string{"npm", "install"}, policy.L2, policy.Ask},
		{[]string{"npm", "publish"}, policy.L3, policy.Ask},
		{[]string{"psql", "-c", "select 1"}, policy.L3, policy.Ask},
		{[]string{"systemctl", "restart", "x"}, policy.L3, policy.Ask},
		{[]string{"mkfs.ext4", "/dev/sda1"}, policy.L3, policy.Ask},
	} {
		c := command(tt.argv...)
		d, err := e.Decide(context.Background(), call("run_command"), policy.Facts{Cmds: []policy.Cmd{c}})
		require.NoError(t, err)
		assert.Equal(t, tt.tier, d.Tier, "%v: %+v", tt.argv, d.Rules)
		assert.Equal(t, tt.verdict, d.Verdict, "%v: %+v", tt.argv, d.Rules)
	}
}

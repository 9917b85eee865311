package approval_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	call := policy.Call{
		Phase: policy.PhaseCall, ID: "c1", Tool: "exec", Args: json.RawMessage(`{"command":"…"}`),
		Agent:     policy.Agent{Name: "claude-code", User: "ann", Session: "s1"},
		Workspace: policy.Workspace{Root: "/work/demo", Branch: "main", Commit: "c0ffee"},
		Session:   policy.Session{ReadsSecret: true},
		Action: sandbox.Action{Workspace: "/work/demo", Exec: &sandbox.Exec{
			Shell: "bash deploy.sh $X > /etc/motd", Dir: "ops", Env: map[string]string{"B": "2", "A": "1"}, Stdin: []byte("yes\n"),
			Net: []sandbox.Endpoint{{Host: "api.example.com", Port: 443}},
		}},
	}
	facts := policy.Facts{
		Cmds: []policy.Cmd{{
			Program: "bash", Argv: []string{"bash", "deploy.sh", "$X"}, Via: []string{"sudo"},
			Opaque: policy.Opaque{Args: true, Reason: "$X comes from outside"},
			Redirects: []policy.Redirect{
				{Op: ">", Path: "/etc/motd", Scope: policy.ScopeOutside}, {Op: ">>", Path: "/work/demo/log.txt", Scope: policy.ScopeWorkspace},
				{Op: "2>", Path: "/dev/null", Scope: policy.ScopeDevice},
			},
			Script: &policy.Script{Path: "ops/deploy.sh", SHA256: "5fa2", Author: "claude-code/s1"},
			Targets: []policy.FileFact{
				{Op: "exec", Path: "ops/deploy.sh", Scope: policy.ScopeWorkspace, Kind: "file", SHA256: "5fa2"},
				{Op: "write", Path: ".github/workflows/ci.yml", Scope: policy.ScopeWorkspace, Kind: "file", Guard: policy.GuardCI, SHA256: "aa"},
				{Op: "read", Path: ".github/workflows/ci.yml", Scope: policy.ScopeWorkspace, Kind: "file", Guard: policy.GuardCI},
				{Op: "read", Path: ".env", Scope: policy.ScopeWorkspace, Kind: "absent", Guard: policy.GuardSecret},
			},
		}},
		Net: []policy.NetFact{{}},
	}
	s, show := approval.Describe(call, facts, policy.Decision{Revision: "r1"})
	require.Equal(t, approval.Subject{
		Agent: "claude-code", Session: "s1", User: "ann", Tool: "exec", Args: call.Args,
		Workspace: "/work/demo", Branch: "main", Commit: "c0ffee", Revision: "r1",
		Files:   map[string]string{"ops/deploy.sh": "5fa2", ".github/workflows/ci.yml": "aa", ".env": ""},
		Scripts: map[string]string{"ops/deploy.sh": "5fa2"},
	}, s)
	require.Equal(t, []approval.Step{{
		Depth: 1, Text: "bash deploy.sh '$X' > /etc/motd >> /work/demo/log.txt 2> /dev/null", Via: []string{"sudo"}, Note: "not fully known before it runs: $X comes from outside",
	}}, show.Tree)
	require.Equal(t, []string{"A=1", "B=2"}, show.Env)
	require.Equal(t, "ops", show.Dir)
	require.Equal(t, "yes\n", show.Stdin)
	require.Equal(t, []sandbox.Endpoint{{}, {Host: "api.example.com", Port: 443}}, show.Net)
	require.Equal(t, "exec: bash deploy.sh $X > /etc/motd", show.Summary)
	require.Equal(t, []approval.Touch{
		{Op: "exec", Path: "ops/deploy.sh"},
		{Op: "write", Path: ".github/workflows/ci.yml", Guard: policy.GuardCI},
		{Op: "read", Path: ".github/workflows/ci.yml", Guard: policy.GuardCI},
		{Op: "read", Path: ".env", Guard: policy.GuardSecret},
		{Op: "write", Path: "/etc/motd"},
		{Op: "write", Path: "log.txt"},
	}, show.Files)
	require.Equal(t, []string{
		"What bash is given is not fully known before it runs: $X comes from outside.",
		"It runs ops/deploy.sh, which claude-code/s1 wrote through the tools.",
		"It touches .github/workflows/ci.yml, which is guarded (ci).",
		"It reads a secret: .env.",
		"It touches /etc/motd, which is outside the workspace.",
		"It reaches a host that is not known before it runs.",
		"This session has read a secret earlier, and the call reaches the network.",
	}, show.Risks)
}

func TestDescribeWhatIsToLand(t *testing.T) {
	t.Parallel()
	call := policy.Call{Phase: policy.PhaseEffects, Tool: "exec", Changes: []sandbox.Change{
		{Path: "a.go", Kind: "modified", Before: "aa", After: "bb"}, {Path: "new.go", Kind: "added", After: "cc"},
	}}
	s, show := approval.Describe(call, policy.Facts{Opaque: &policy.Opaque{Reason: "it does not parse"}}, policy.Decision{})
	require.Equal(t, map[string]string{"a.go": "aa", "new.go": ""}, s.Files)
	require.Equal(t, []approval.Touch{{Op: "modified", Path: "a.go"}, {Op: "added", Path: "new.go"}}, show.Files)
	require.Equal(t, "exec: a.go and 1 more", show.Summary)
	require.Equal(t, []string{"The command as a whole cannot be understood: it does not parse."}, show.Risks)
}

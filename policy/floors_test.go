package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFloors(t *testing.T) {
	t.Parallel()
	rm := func(path string, flags ...string) Facts {
		return Facts{Cmds: []Cmd{{Program: "rm", Flags: flags, Targets: []FileFact{{Op: "remove", Path: path, Scope: ScopeOutside}}}}}
	}
	push := func(flags []string, args ...string) Facts {
		return Facts{Cmds: []Cmd{{Program: "git", Sub: "push", Flags: flags, Args: args}}}
	}
	force := []string{"--force"}
	for name, tt := range map[string]struct {
		facts  Facts
		branch string
		want   string
	}{
		"root":                        {facts: rm("/", "-f", "-r"), want: "floor.wipe"},
		"everything in root":          {facts: rm("/*", "-R"), want: "floor.wipe"},
		"home":                        {facts: rm("/home/ann/", "--recursive"), want: "floor.wipe"},
		"all homes":                   {facts: rm("/home/*", "-r"), want: "floor.wipe"},
		"root's home":                 {facts: rm("/root", "-r"), want: "floor.wipe"},
		"usr":                         {facts: rm("/usr", "-r"), want: "floor.wipe"},
		"usr lib":                     {facts: rm("/usr/lib/*", "-r"), want: "floor.wipe"},
		"without recursion":           {facts: rm("/", "-f")},
		"deep in usr":                 {facts: rm("/usr/share/dotnet", "-r")},
		"a directory of a home":       {facts: rm("/home/ann/project", "-r")},
		"find that deletes":           {facts: Facts{Cmds: []Cmd{{Program: "find", Targets: []FileFact{{Op: "remove", Path: "/"}}}}}, want: "floor.wipe"},
		"dd to a disk":                {facts: Facts{Cmds: []Cmd{{Program: "dd", Targets: []FileFact{{Op: "write", Path: "/dev/sda"}}}}}, want: "floor.raw-disk"},
		"redirect to a disk":          {facts: Facts{Cmds: []Cmd{{Redirects: []Redirect{{Op: ">", Path: "/dev/nvme0n1"}}}}}, want: "floor.raw-disk"},
		"redirect from a disk":        {facts: Facts{Cmds: []Cmd{{Redirects: []Redirect{{Op: "<", Path: "/dev/sda"}}}}}},
		"redirect to null":            {facts: Facts{Cmds: []Cmd{{Redirects: []Redirect{{Op: ">", Path: "/dev/null"}}}}}},
		"redirect to mapper/control":  {facts: Facts{Cmds: []Cmd{{Redirects: []Redirect{{Op: ">", Path: "/dev/mapper/control"}}}}}},
		"own socket":                  {facts: Facts{Files: []FileFact{{Op: "write", Path: "/s/agent.sock", Guard: GuardSelf}}}, want: "floor.self"},
		"own socket, read":            {facts: Facts{Cmds: []Cmd{{Targets: []FileFact{{Op: "read", Guard: GuardSelf}}}}}, want: "floor.self"},
		"fork bomb":                   {facts: Facts{Cmds: []Cmd{{Patterns: []string{"danger.fork-bomb"}}}}, want: "floor.fork-bomb"},
		"fork bomb in a script":       {facts: Facts{Cmds: []Cmd{{Script: &Script{Findings: []Finding{{Rule: "danger.fork-bomb"}}}}}}, want: "floor.fork-bomb"},
		"force to main":               {facts: push(force, "origin", "main"), want: "floor.force-push"},
		"plus to main":                {facts: push(nil, "origin", "+main"), want: "floor.force-push"},
		"plus with two sides":         {facts: push(nil, "origin", "+HEAD:refs/heads/main"), want: "floor.force-push"},
		"removal by empty source":     {facts: push(nil, "origin", ":master"), want: "floor.force-push"},
		"removal by flag":             {facts: push([]string{"-d"}, "origin", "release/1.0"), want: "floor.force-push"},
		"mirror":                      {facts: push([]string{"--mirror"}, "origin"), want: "floor.force-push"},
		"lease":                       {facts: push([]string{"--force-with-lease=main:abc"}, "origin", "main"), want: "floor.force-push"},
		"current branch main":         {facts: push(force), branch: "main", want: "floor.force-push"},
		"current branch unknown":      {facts: push(force), want: "floor.force-push"},
		"current branch by HEAD":      {facts: push(force, "origin", "HEAD"), branch: "main", want: "floor.force-push"},
		"current branch of one's own": {facts: push(force), branch: "ann/fix"},
		"force to one's own":          {facts: push(force, "origin", "ann/fix")},
		"plain push to main":          {facts: push(nil, "origin", "main")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hits := floors(Call{Workspace: Workspace{Branch: tt.branch}}, tt.facts)
			if tt.want == "" {
				assert.Empty(t, hits)
				return
			}
			if assert.NotEmpty(t, hits) {
				assert.Equal(t, tt.want, hits[0].ID)
				assert.Equal(t, Deny, hits[0].Verdict)
			}
		})
	}
}

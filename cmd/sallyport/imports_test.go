package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport is the table of docs/design.md: which of our packages each one may
// import. cmd/sallyport joins everything and is not in it.
var mayImport = map[string][]string{
	"audit":                    {"policy/secret"},
	"audit/push":               {"audit"},
	"policies":                 {},
	"sandbox/cell":             {},
	"sandbox":                  {"sandbox/cell"},
	"policy":                   {"sandbox"},
	"policy/inspect":           {"policy", "policy/secret", "sandbox"},
	"policy/secret":            {},
	"policy/rego":              {"policy", "policies", "sandbox"},
	"policy/limits":            {"policy"},
	"policy/approval":          {"policy", "sandbox"},
	"policy/approval/console":  {"policy", "policy/approval"},
	"policy/approval/terminal": {"policy", "policy/approval"},
	"policy/approval/webhook":  {"policy", "policy/approval"},
	"tools":                    {"sandbox"},
	"mcpserver":                {"audit", "policy", "policy/approval", "policy/limits", "sandbox", "tools"},
	"mcpserver/identity":       {"mcpserver", "policy"},
	"cmd/sallyport-cell":       {"sandbox/cell"},
	"cmd/sallyport-demo":       {"mcpserver"},
	"cmd/bench":                {},
}

// sole maps a dependency to the packages that alone may import it.
var sole = map[string][]string{
	"github.com/mark3labs/mcp-go":          {"mcpserver"},
	"github.com/open-policy-agent/opa":     {"policy/rego"},
	"mvdan.cc/sh":                          {"policy/inspect"},
	"github.com/seccomp/libseccomp-golang": {"sandbox"},
	"go.etcd.io/bbolt":                     {"audit", "policy/approval"},
	"golang.org/x/mod":                     {"audit"},
	"github.com/aws/aws-sdk-go-v2":         {"audit/push"},
	"os/exec":                              {"sandbox", "sandbox/cell", "cmd/sallyport-demo"},
}

func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "sallyport/...")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	seen := map[string]bool{}
	for d := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		name := strings.TrimPrefix(p.ImportPath, "sallyport/")
		seen[name] = true
		checkImports(t, name, p.Imports)
	}
	require.NoError(t, cmd.Wait())
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
}

func checkImports(t *testing.T, name string, imports []string) {
	t.Helper()
	allowed, listed := mayImport[name]
	if !listed && name != "cmd/sallyport" {
		t.Errorf("package %s is not in the table: give it a place in docs/design.md first", name)
	}
	for _, i := range imports {
		if ours, ok := strings.CutPrefix(i, "sallyport/"); ok && listed && !slices.Contains(allowed, ours) {
			t.Errorf("%s may not import %s", name, ours)
		}
		for dep, who := range sole {
			if (i == dep || strings.HasPrefix(i, dep+"/")) && !slices.Contains(who, name) {
				t.Errorf("%s imports %s, which only %v may", name, i, who)
			}
		}
	}
}

package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// paged is a Server whose lists have small pages.
func paged(size int) *Server {
	return New(Options{
		Gate: openGate{}, Desk: noDesk{}, Runner: &slowRunner{}, Log: &memoryLog{}, Limits: noLimits{}, Now: time.Now,
		ID: func() string { return "c" }, PageSize: size, Rules: func() []Rule { return nil },
		History: func(context.Context, string, int) ([]audit.Record, error) { return nil, nil },
	})
}

// listAll follows a list's cursors to its end.
func listAll(t *testing.T, k *talker, kind string, size int) (names []string) {
	t.Helper()
	cursor := ""
	for page := 0; page < 100; page++ {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		var m struct {
			Result map[string]json.RawMessage
		}
		got := k.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, kind+"/list", params))
		require.NoError(t, json.Unmarshal([]byte(got), &m), got)
		var list []struct{ Name string }
		require.NoError(t, json.Unmarshal(m.Result[kind], &list), got)
		assert.LessOrEqual(t, len(list), size)
		for _, one := range list {
			names = append(names, one.Name)
		}
		cursor = ""
		if next, ok := m.Result["nextCursor"]; ok {
			require.NoError(t, json.Unmarshal(next, &cursor))
		}
		if cursor == "" {
			return names
		}
	}
	require.Fail(t, "the list has no end")
	return nil
}

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	whole, small := paged(1000), paged(2)
	few := ann(t)
	few.Conn, few.Tools = "few", []string{"grep", "glob", "read_file", "run_command", "git_log"}
	for _, p := range []*Peer{ann(t), few} {
		a, b := talk(t, whole, p), talk(t, small, p)
		for _, kind := range []string{"tools", "resources", "prompts"} {
			want := listAll(t, a, kind, 1000)
			require.Greater(t, len(want), 2)
			assert.True(t, slices.IsSorted(want))
			assert.Equal(t, want, listAll(t, b, kind, 2), kind)
			assert.Equal(t, want, listAll(t, b, kind, 2), "again")
			if p.Tools != nil && kind == "tools" {
				assert.ElementsMatch(t, p.Tools, want)
			}
		}
	}
}

// badCursors are what no page of ours ends with.
func badCursors() map[string]string {
	of := func(name string) string {
		b, _ := json.Marshal(base64.StdEncoding.EncodeToString([]byte(name)))
		return string(b)
	}
	return map[string]string{
		"not base64": `"%%%"`, "a made-up name": of("m"), "a path": of("../../etc/passwd"), "empty": `""`, "a number": `7`, "an object": `{}`,
		"a tool that the caller has not": of("run_command"), "not UTF-8": of("\xff\xfe"), "of another list": of("work-here"),
	}
}

func TestMadeUpCursorsAreRefused(t *testing.T) {
	t.Parallel()
	p := ann(t)
	p.Tools = []string{"grep", "glob"}
	k := talk(t, paged(1), p)
	s := open(t, HTTPOptions{})
	id := s.session("ann")
	for name, cursor := range badCursors() {
		ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%s}}`, cursor)
		got := k.ask(ask)
		assert.Contains(t, got, "-32602", name)
		assert.Contains(t, got, "no such cursor", name)
		if name == "a tool that the caller has not" { // there it has
			continue
		}
		r := s.request(t.Context(), "ann", "POST", "/mcp", ask, "Mcp-Session-Id", id)
		assert.Equal(t, 200, r.StatusCode, name)
		assert.Contains(t, text(t, r), "-32602", name)
	}
	for _, kind := range []string{"resources", "prompts", "resources/templates"} {
		got := k.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"cursor":"Z3JlcA=="}}`, kind+"/list")) // grep
		assert.Contains(t, got, "-32602", kind)
	}
	assert.Contains(t, k.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"Z2xvYg=="}}`), `"grep"`, "the one after glob")
}

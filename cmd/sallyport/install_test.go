package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
)

var entry = stdioServer{Command: "/bin/s", Args: []string{"mcp"}}

// TestJSONEntryIsAddedWhereItMust shows files as their owners wrote them, and
// after the entry was put in: nothing else moves.
func TestJSONEntryIsAddedWhereItMust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, before, after string }{
		{"no file", "", `{
  "mcpServers": {
    "sallyport": {
      "command": "/bin/s",
      "args": [
        "mcp"
      ]
    }
  }
}
`},
		{"four spaces, another server, a comment behind it", `{
    // ours
    "mcpServers": {
        "other": { "command": "x" } // keep
    },
    "z": 1
}
`, `{
    // ours
    "mcpServers": {
        "other": { "command": "x" }, // keep
        "sallyport": {
            "command": "/bin/s",
            "args": [
                "mcp"
            ]
        }
    },
    "z": 1
}
`},
		{"tabs and a comma at the end", "{\n\t\"mcpServers\": {\n\t\t\"other\": {},\n\t},\n}", "{\n\t\"mcpServers\": {\n\t\t\"other\": {},\n\t\t\"sallyport\": {\n\t\t\t\"command\": \"/bin/s\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t]\n\t\t},\n\t},\n}"},
		{"one line", `{ "mcpServers": {"other":   {"command":"x"}} }`, `{ "mcpServers": {"other":   {"command":"x"}, "sallyport": {"command": "/bin/s", "args": ["mcp"]}} }`},
		{"Windows line ends", "{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"mcpServers\": {\r\n    \"sallyport\": {\r\n      \"command\": \"/bin/s\",\r\n      \"args\": [\r\n        \"mcp\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n"},
		{"an older entry keeps what its owner added", `{
  "mcpServers": {
    "sallyport": { "env": { "A": "b" }, "command": "/old/s", "args": ["mcp"] }
  }
}
`, `{
  "mcpServers": {
    "sallyport": { "env": { "A": "b" }, "command": "/bin/s", "args": ["mcp"] }
  }
}
`},
	} {
		e := jsonServer("f", "mcpServers", entry)
		after, changed, err := e.put([]byte(tc.before))
		require.NoError(t, err, tc.name)
		assert.True(t, changed, tc.name)
		assert.Equal(t, tc.after, string(after), tc.name)
		again, changed, err := e.put(after)
		require.NoError(t, err, tc.name)
		assert.False(t, changed, tc.name)
		assert.Equal(t, string(after), string(again), tc.name)
		taken, err := e.take(after, []byte(tc.before))
		require.NoError(t, err, tc.name)
		assert.NotContains(t, string(taken), "sallyport", tc.name)
	}
}

func TestJSONThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"a":`:                          "it is not JSON",
		`[1]`:                            "not a JSON object",
		`{"mcpServers": []}`:             `"mcpServers" is not what it should be`,
		`{"mcpServers": "x"}`:            `"mcpServers" is not what it should be`,
		`{"mcpServers":{"sallyport":1}}`: `"mcpServers.sallyport" is not what it should be`,
	} {
		_, _, err := jsonServer("f", "mcpServers", entry).put([]byte(doc))
		assert.ErrorContains(t, err, want, doc)
	}
}

// TestDenyListGivesBackOnlyWhatItAdded: what the owner denied stays denied.
func TestDenyListGivesBackOnlyWhatItAdded(t *testing.T) {
	t.Parallel()
	const before = `{"permissions": {"deny": ["Bash", "WebFetch"]}}`
	e := jsonList("f", []string{"permissions", "deny"}, anys(hostTools[:])...)
	after, changed, err := e.put([]byte(before))
	require.NoError(t, err)
	assert.True(t, changed)
	assert.Contains(t, string(after), `["Bash", "WebFetch", "Edit", "Write"`)
	edited := strings.Replace(string(after), `"WebFetch"`, `"WebFetch", "WebSearch"`, 1)
	taken, err := e.take([]byte(edited), []byte(before))
	require.NoError(t, err)
	assert.JSONEq(t, `{"permissions": {"deny": ["Bash", "WebFetch", "WebSearch"]}}`, string(taken))
}

func TestTOMLTable(t *testing.T) {
	t.Parallel()
	table := tomlTable{path: []string{"mcp_servers", "sallyport"}, lines: []string{`command = "/bin/s"`, `args = ["mcp"]`}}
	const ours = "[mcp_servers.sallyport]\ncommand = \"/bin/s\"\nargs = [\"mcp\"]\n"
	for _, tc := range []struct{ name, before, after string }{
		{"no file", "", ours},
		{"other tables, no newline at the end", "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"", "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"\n\n" + ours},
		{"an older entry with a table beneath it", "[mcp_servers.sallyport]\ncommand = \"/old\"\n[mcp_servers.\"sallyport\".env]\nA = \"b\"\n\n[z]\na = 1\n", "[z]\na = 1\n\n" + ours},
	} {
		after, changed, err := table.put([]byte(tc.before))
		require.NoError(t, err, tc.name)
		assert.True(t, changed, tc.name)
		assert.Equal(t, tc.after, string(after), tc.name)
		_, changed, err = table.put(after)
		require.NoError(t, err, tc.name)
		assert.False(t, changed, tc.name)
		taken, err := table.take(after)
		require.NoError(t, err, tc.name)
		assert.NotContains(t, string(taken), "sallyport", tc.name)
	}
	for doc, want := range map[string]string{
		"a = ":                     "it is not TOML",
		"mcp_servers = {a = {}}\n": "add this by hand",
		"x = '''\n[mcp_servers.sallyport]\n'''\n": "add this by hand",
	} {
		_, _, err := table.put([]byte(doc))
		assert.ErrorContains(t, err, want, doc)
	}
}

// FuzzJSONEdit holds an edit to what encoding/json says of the file: everything
// that was there is there, and the entry is.
func FuzzJSONEdit(f *testing.F) {
	for _, s := range []string{"", `{}`, `{"a":1}`, "{\n  \"mcpServers\": {}\n}", `{"mcpServers":{"x":{}},"b":[1,2]}`, "{ // c\n\"a\":1,}", "{\r\n\t\"a\":{}\r\n}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		e := jsonServer("f", "mcpServers", entry)
		after, _, err := e.put([]byte(doc))
		if err != nil {
			return
		}
		want, got := map[string]any{}, map[string]any{}
		if strings.TrimSpace(doc) != "" {
			std, err := hujson.Standardize([]byte(doc))
			if err != nil || json.Unmarshal(std, &want) != nil {
				return // two members of one name, for one
			}
		}
		std, err := hujson.Standardize(after)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(std, &got))
		servers, _ := got["mcpServers"].(map[string]any)
		mine, _ := servers["sallyport"].(map[string]any)
		assert.Equal(t, "/bin/s", mine["command"])
		if had, _ := want["mcpServers"].(map[string]any); had != nil {
			delete(had, "sallyport")
			delete(servers, "sallyport")
		} else {
			delete(got, "mcpServers")
		}
		assert.Equal(t, want, got)
	})
}

// FuzzTOMLEdit holds an edit to what the parser says of the file.
func FuzzTOMLEdit(f *testing.F) {
	for _, s := range []string{"", "a = 1\n", "[mcp_servers.x]\ncommand = 'y'", "[a]\n[a.b]\n[[c]]\n", "mcp_servers.x.command = 'y'\n"} {
		f.Add(s)
	}
	table := tomlTable{path: []string{"mcp_servers", "sallyport"}, lines: []string{`command = "/bin/s"`}}
	f.Fuzz(func(t *testing.T, doc string) {
		after, _, err := table.put([]byte(doc))
		if err != nil {
			return
		}
		var got map[string]any
		require.NoError(t, toml.Unmarshal(after, &got))
		assert.Equal(t, "/bin/s", pick(got, []string{"mcp_servers", "sallyport", "command"}))
	})
}

package main

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// bearer adds a token to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestGoSDKClient lets the official Go SDK's client use the real daemon over every
// transport: pages, a read, a refusal in words, a command, a cancellation.
func TestGoSDKClient(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t)
	h.configure("page_size: 4\n")
	h.serve()
	token, _ := h.token("--agent", "sdk", "--max-tier", "L1")
	web := &http.Client{Transport: bearer(token)}
	shim := h.command("mcp", "--workspace", h.workspace)
	for name, transport := range map[string]mcp.Transport{
		"stdio": &mcp.CommandTransport{Command: shim},
		"HTTP":  &mcp.StreamableClientTransport{Endpoint: h.url + "/mcp", HTTPClient: web},
		"SSE":   &mcp.SSEClientTransport{Endpoint: h.url + "/sse", HTTPClient: web},
	} {
		t.Run(name, func(t *testing.T) { useSDK(t, transport) })
	}
	out, err := h.sallyport("audit", "list", "--json", "--status", string(audit.StatusCancelled))
	require.NoError(t, err)
	assert.Contains(t, out, "sleep", "cancelled calls are on record")
}

func useSDK(t *testing.T, transport mcp.Transport) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil).Connect(ctx, transport, nil)
	require.NoError(t, err)
	defer s.Close()

	var names []string
	for tool, err := range s.Tools(ctx, nil) {
		require.NoError(t, err)
		names = append(names, tool.Name)
	}
	assert.True(t, slices.IsSorted(names), "pages follow each other")
	assert.Len(t, slices.Compact(slices.Clone(names)), len(names))
	assert.Subset(t, names, []string{"edit_file", "git_commit", "read_file", "run_command", "run_tests"})
	_, err = s.ListTools(ctx, &mcp.ListToolsParams{Cursor: "bWFkZSB1cA=="})
	assert.ErrorContains(t, err, "no such cursor")

	call := func(ctx context.Context, tool string, args map[string]any) (*mcp.CallToolResult, error) {
		return s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	}
	r, err := call(ctx, "read_file", map[string]any{"path": "a.txt"})
	require.NoError(t, err)
	assert.Contains(t, r.Content[0].(*mcp.TextContent).Text, "hello over http")
	r, err = call(ctx, "read_file", map[string]any{"path": "../state"})
	require.NoError(t, err)
	assert.True(t, r.IsError)
	assert.Contains(t, r.Content[0].(*mcp.TextContent).Text, "What to do:")
	r, err = call(ctx, "run_command", map[string]any{"command": "echo ran"})
	require.NoError(t, err)
	assert.Contains(t, r.Content[0].(*mcp.TextContent).Text, "ran")
	read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "sallyport://workspace"})
	require.NoError(t, err)
	assert.Contains(t, read.Contents[0].Text, "max_tier")

	soon, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	_, err = call(soon, "run_command", map[string]any{"command": "sleep 61"})
	assert.Error(t, err)
	r, err = call(ctx, "read_file", map[string]any{"path": "a.txt", "limit": 1})
	require.NoError(t, err, "the session lives on")
	assert.False(t, r.IsError)
}

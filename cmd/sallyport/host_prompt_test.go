package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy/approval"
)

// hostPerson is the person at an agent's host: the answer to each prompt, and what
// the prompts said.
type hostPerson struct {
	mu     sync.Mutex
	asked  []string
	answer func(ctx context.Context) mcp.ElicitationResponse
}

func (h *hostPerson) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Params.Message)
	answer := h.answer
	h.mu.Unlock()
	return &mcp.ElicitationResult{ElicitationResponse: answer(ctx)}, nil
}

func (h *hostPerson) says(action mcp.ElicitationResponseAction, content map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = func(context.Context) mcp.ElicitationResponse {
		return mcp.ElicitationResponse{Action: action, Content: content}
	}
}

func (h *hostPerson) prompts() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.asked...)
}

// hostedBy is the real mcp-go client over a real `sallyport mcp`.
func (w *world) hostedBy(h client.ElicitationHandler) func(tool string, args map[string]any) (string, bool) {
	w.t.Helper()
	io := transport.NewStdioWithOptions(filepath.Join(binaries, "sallyport"), w.command().Env, []string{"mcp", "--workspace", w.work})
	require.NoError(w.t, io.Start(w.t.Context()))
	var o []client.ClientOption
	if h != nil {
		o = append(o, client.WithElicitationHandler(h))
	}
	c := client.NewClient(io, o...)
	w.t.Cleanup(func() { c.Close() })
	require.NoError(w.t, c.Start(w.t.Context()))
	var in mcp.InitializeRequest
	in.Params.ProtocolVersion = "2025-11-25"
	in.Params.ClientInfo = mcp.Implementation{Name: "prompting-host", Version: "7"}
	_, err := c.Initialize(w.t.Context(), in)
	require.NoError(w.t, err)
	return func(tool string, args map[string]any) (string, bool) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		var r mcp.CallToolRequest
		r.Params.Name, r.Params.Arguments = tool, args
		out, err := c.CallTool(ctx, r)
		require.NoError(w.t, err)
		return out.Content[0].(mcp.TextContent).Text, out.IsError
	}
}

// pending are the requests that wait for a person.
func (w *world) pending() []approval.Request {
	w.t.Helper()
	out, err := w.command("approvals", "list", "--json").Output()
	require.NoError(w.t, err)
	var all []approval.Request
	require.NoError(w.t, json.Unmarshal(out, &all))
	return slices.DeleteFunc(all, func(r approval.Request) bool { return r.State != approval.StatePending })
}

func written(path, text string) map[string]any { return map[string]any{"path": path, "content": text} }

// Under solo the prompt of the host confirms one L2 call at a time; L3 never comes
// before it.
func TestHostPromptConfirmsL2(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person := &hostPerson{}
	call := w.hostedBy(person)
	person.says(mcp.ElicitationResponseActionAccept, map[string]any{"decision": "approve"})

	text, bad := call("write_file", written("b.txt", "one\n"))
	assert.True(t, bad, "strict: a person at the desk decides")
	assert.Contains(t, text, "pending")
	assert.Empty(t, person.prompts())

	out, err := w.run("preset", "solo")
	require.NoError(t, err, out)
	text, bad = call("write_file", written("b.txt", "one\n"))
	require.False(t, bad, text)
	require.FileExists(t, filepath.Join(w.work, "b.txt"))
	require.Len(t, person.prompts(), 1)
	for _, want := range []string{"write_file", "+one", "Why a person is asked"} {
		assert.Contains(t, person.prompts()[0], want, "the person sees all of it")
	}
	require.NoError(t, os.Remove(filepath.Join(w.work, "b.txt")))
	_, bad = call("write_file", written("b.txt", "one\n"))
	require.False(t, bad)
	assert.Len(t, person.prompts(), 2, "one answer is for one call")
	out, err = w.run("grants", "list")
	require.NoError(t, err)
	assert.Contains(t, out, "no grants")

	text, bad = call("write_file", written(".github/workflows/ci.yml", "x\n"))
	assert.True(t, bad)
	assert.Regexp(t, `pending: approval .* needed \(L3\)`, text)
	assert.Len(t, person.prompts(), 2, "L3 is not for the host's prompt")

	text, bad = call("write_file", written("long.txt", strings.Repeat("a line\n", 3000)))
	assert.True(t, bad)
	assert.Contains(t, text, "pending")
	assert.Len(t, person.prompts(), 2, "nothing is confirmed that a dialog would cut")

	var people []string
	for _, r := range w.records() {
		if r.Event == "approval.approved" {
			people = append(people, r.Person)
			var e approval.Event
			require.NoError(t, json.Unmarshal(r.Detail, &e))
			assert.Equal(t, approval.ChannelHost, e.Person.Channel)
			assert.Equal(t, "prompting-host/7", e.Person.From)
			assert.Equal(t, e.Request.Shown, e.Request.Votes[0].Shown, "with what the person was shown")
		}
	}
	assert.Len(t, people, 2)
	for _, p := range people {
		assert.Contains(t, p, "(host)")
	}
}

func TestHostPromptDeniesAndIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, err := w.run("preset", "solo")
	require.NoError(t, err, out)
	person := &hostPerson{}
	call := w.hostedBy(person)

	person.says(mcp.ElicitationResponseActionAccept, map[string]any{"decision": "deny", "advice": "put it into docs"})
	text, bad := call("write_file", written("c.txt", "1"))
	assert.True(t, bad)
	assert.Contains(t, text, "put it into docs")

	person.says(mcp.ElicitationResponseActionDecline, nil)
	text, _ = call("write_file", written("d.txt", "1"))
	assert.Contains(t, text, "a person denied request")

	for name, content := range map[string]map[string]any{"closed": nil, "an empty form": {}, "another word": {"decision": "always"}} {
		action := mcp.ElicitationResponseAction(mcp.ElicitationResponseActionAccept)
		if content == nil {
			action = mcp.ElicitationResponseActionCancel
		}
		person.says(action, content)
		text, _ = call("write_file", written("e.txt", name))
		assert.Contains(t, text, "pending", name)
	}
	assert.NoFileExists(t, filepath.Join(w.work, "e.txt"))

	// A client that shows no forms gets the ordinary answer at once.
	text, bad = w.hostedBy(nil)("write_file", written("g.txt", "1"))
	assert.True(t, bad)
	assert.Contains(t, text, "pending")

	// The desk is faster: the prompt is withdrawn and the call runs.
	shown, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	person.mu.Lock()
	person.answer = func(ctx context.Context) mcp.ElicitationResponse {
		close(shown)
		select {
		case <-ctx.Done():
		case <-over:
		}
		return mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}
	}
	person.mu.Unlock()
	go func() {
		<-shown
		for _, r := range w.pending() {
			if strings.Contains(r.Summary, "f.txt") {
				_, _ = w.run("approvals", "approve", r.ID)
			}
		}
	}()
	text, bad = call("write_file", written("f.txt", "1"))
	require.False(t, bad, text)
	assert.FileExists(t, filepath.Join(w.work, "f.txt"))

	// That answer came from the desk, so under solo it covers the session.
	asked := len(person.prompts())
	_, bad = call("write_file", written("h.txt", "1"))
	assert.False(t, bad)
	assert.Len(t, person.prompts(), asked)
}

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// NewFixture is the server that the MCP conformance suite is run against: the
// transports are those of HTTP, to the last line, and behind them are the tools,
// resources and prompts that the suite asks for by name instead of ours. It
// guards nothing and lets everybody in; serve it on loopback alone.
func NewFixture(logger *slog.Logger) *Endpoint {
	m := server.NewMCPServer("sallyport-conformance-fixture", "1",
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(true, true),
		server.WithPromptCapabilities(true),
		server.WithCompletions(),
		server.WithLogging(),
		server.WithElicitation(),
		server.WithRecovery(),
		server.WithCacheHints(1000, mcp.CacheScopePrivate),
	)
	m.EnableSampling()
	f := fixture{m}
	for name, t := range f.tools() {
		tool := mcp.NewToolWithRawSchema(name, "A fixture of the conformance suite: "+name, json.RawMessage(t.schema()))
		m.AddTool(tool, t.run)
	}
	f.resources()
	f.prompts()
	var ids atomic.Int64
	s := &Server{
		o:     Options{Now: time.Now, Logger: logger, ID: func() string { return fmt.Sprint(ids.Add(1)) }},
		mcp:   m,
		conns: map[*conn]struct{}{},
	}
	return s.HTTP(HTTPOptions{Authenticate: func(*http.Request) (*Peer, error) { return &Peer{Agent: "conformance"}, nil }})
}

type fixture struct{ m *server.MCPServer }

// fixtureTool is a tool by its input schema ("" for no arguments) and its answer.
type fixtureTool struct {
	input string
	run   server.ToolHandlerFunc
}

func (t fixtureTool) schema() string {
	if t.input == "" {
		return `{"type":"object","properties":{}}`
	}
	return t.input
}

// says answers always the same.
func says(content ...mcp.Content) fixtureTool {
	return fixtureTool{run: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}}
}

func fixtureText(uri, mime, text string) mcp.Content {
	return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: text})
}

// One red pixel, and an empty sound.
const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// tools are the fixtures by the names the suite calls them.
func (f fixture) tools() map[string]fixtureTool {
	all := map[string]fixtureTool{
		"test_simple_text":       says(mcp.NewTextContent("This is a simple text response for testing.")),
		"test_image_content":     says(mcp.NewImageContent(pixel, "image/png")),
		"test_audio_content":     says(mcp.NewAudioContent(sound, "audio/wav")),
		"test_embedded_resource": says(fixtureText("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		"test_multiple_content_types": says(mcp.NewTextContent("Multiple content types test:"), mcp.NewImageContent(pixel, "image/png"),
			fixtureText("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
		"test_error_handling": {run: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
		}},
		"json_schema_2020_12_tool": {input: schema2020, run: says(mcp.NewTextContent("ok")).run},
		"test_custom_header": {
			input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
			run:   says(mcp.NewTextContent("ok")).run,
		},
		"test_tool_with_logging":  {run: f.logging},
		"test_logging_tool":       {run: f.logging},
		"test_tool_with_progress": {run: f.progress},
		"test_trigger_tool_change": {run: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f.m.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
			return mcp.NewToolResultText("told"), nil
		}},
		"test_trigger_prompt_change": {run: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f.m.SendNotificationToAllClients(mcp.MethodNotificationPromptsListChanged, nil)
			return mcp.NewToolResultText("told"), nil
		}},
	}
	for name, t := range f.askingTools() {
		all[name] = t
	}
	return all
}

const schema2020 = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {
    "name": {"type": "string"},
    "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"},
    "email": {"type": "string"}
  },
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]},
  "else": {"required": ["email"]},
  "additionalProperties": false
}`

// logging sends three log messages; a request of 2026-07-28 gets those that it
// asked for only.
func (f fixture) logging(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	tell := tellOf(ctx)
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern && info.LogLevel == "" {
		tell = func(mcp.JSONRPCNotification) {}
	}
	for i, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		tell(notification("notifications/message", map[string]any{"level": "info", "logger": "fixture", "data": text}))
	}
	return mcp.NewToolResultText("logged"), nil
}

func (f fixture) progress(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i, done := range []int{0, 50, 100} {
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		if r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
			tellOf(ctx)(notification("notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": done, "total": 100,
			}))
		}
	}
	return mcp.NewToolResultText("done"), nil
}

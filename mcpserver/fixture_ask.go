package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The fixtures that ask the client something: by a request of their own up to
// 2025-11-25, by an input_required result from 2026-07-28 on.

// object is a JSON Schema of an object with these properties; the names after
// them are required.
func object(properties string, required ...string) map[string]any {
	var p map[string]any
	if err := json.Unmarshal([]byte(properties), &p); err != nil {
		panic(err) // a constant of this file
	}
	s := map[string]any{"type": "object", "properties": p}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func (f fixture) askingTools() map[string]fixtureTool {
	withText := func(name string) string {
		return fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, name, name)
	}
	contact := object(`{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}}`, "username", "email")
	return map[string]fixtureTool{
		"test_sampling": {input: withText("prompt"), run: f.sampling},
		"test_elicitation": {input: withText("message"), run: func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return f.elicit(ctx, "User response", r.GetString("message", ""), contact)
		}},
		"test_elicitation_sep1034_defaults": f.form(`{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","default":true}}`),
		"test_elicitation_sep1330_enums": f.form(`{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"}]}}}`),
		"test_missing_capability":                   {run: f.needsSampling},
		"test_streaming_elicitation":                {run: f.rounds(round{"user_name", askName("What is your name?")})},
		"test_input_required_result_elicitation":    {run: f.rounds(round{"user_name", askName("What is your name?")})},
		"test_input_required_result_sampling":       {run: f.rounds(round{"capital_question", askModel("What is the capital of France?", 100)})},
		"test_input_required_result_list_roots":     {run: f.rounds(round{"client_roots", askRoots})},
		"test_input_required_result_request_state":  {run: f.rounds(round{"confirm", askForm("Please confirm", object(`{"ok":{"type":"boolean"}}`, "ok"))})},
		"test_input_required_result_tampered_state": {run: f.rounds(round{"confirm", askForm("Please confirm", object(`{"ok":{"type":"boolean"}}`, "ok"))})},
		"test_input_required_result_multiple_inputs": {run: f.rounds(round{"user_name", func(b *server.InputRequestBuilder, id string) {
			askName("What is your name?")(b, id)
			askModel("Generate a greeting", 50)(b, "greeting")
			askRoots(b, "client_roots")
		}})},
		"test_input_required_result_multi_round": {run: f.rounds(round{"step1", askName("Step 1: What is your name?")},
			round{"step2", askForm("Step 2: What is your favorite color?", object(`{"color":{"type":"string"}}`, "color"))})},
		"test_input_required_result_capabilities": {run: f.whatTheClientCan},
	}
}

// form asks for what a schema describes.
func (f fixture) form(properties string) fixtureTool {
	schema := object(properties)
	return fixtureTool{run: func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return f.elicit(ctx, "Elicitation completed", "Please fill this in", schema)
	}}
}

func (f fixture) elicit(ctx context.Context, prefix, text string, schema map[string]any) (*mcp.CallToolResult, error) {
	if server.IsModernRequest(ctx) {
		return mcp.NewToolResultError("protocol 2026-07-28 has no elicitation/create"), nil
	}
	r, err := f.m.RequestElicitation(ctx, mcp.ElicitationRequest{
		Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)},
		Params:  mcp.ElicitationParams{Message: text, RequestedSchema: schema},
	})
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	content, err := json.Marshal(r.Content)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s: action=%s, content=%s", prefix, r.Action, content)), nil
}

func (f fixture) sampling(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	//lint:ignore SA1019 the suite of 2025-11-25 asks for it
	out, err := f.m.RequestSampling(ctx, mcp.CreateMessageRequest{
		Request: mcp.Request{Method: string(mcp.MethodSamplingCreateMessage)},
		CreateMessageParams: mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(r.GetString("prompt", ""))}},
			MaxTokens: 100,
		},
	})
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	text, _ := out.Content.(mcp.TextContent)
	return mcp.NewToolResultText("LLM response: " + text.Text), nil
}

func (f fixture) needsSampling(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if info := server.RequestProtocolInfoFromContext(ctx); info == nil || info.ClientCapabilities == nil || info.ClientCapabilities.Sampling == nil {
		return nil, mcp.MissingRequiredClientCapabilityError{Capability: "sampling"}
	}
	return mcp.NewToolResultText("ok"), nil
}

// round is one thing to ask before a tool can answer.
type round struct {
	id  string
	ask func(b *server.InputRequestBuilder, id string)
}

func askForm(text string, schema map[string]any) func(*server.InputRequestBuilder, string) {
	return func(b *server.InputRequestBuilder, id string) {
		b.Elicit(id, mcp.ElicitationParams{Message: text, RequestedSchema: schema})
	}
}

func askName(text string) func(*server.InputRequestBuilder, string) {
	return askForm(text, object(`{"name":{"type":"string"}}`, "name"))
}

func askModel(text string, most int) func(*server.InputRequestBuilder, string) {
	return func(b *server.InputRequestBuilder, id string) {
		b.Sample(id, mcp.CreateMessageParams{
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}}, MaxTokens: most,
		})
	}
}

func askRoots(b *server.InputRequestBuilder, id string) { b.Roots(id) }

// rounds asks one thing after the other. Where it stands is in a signed state
// that the client carries.
func (f fixture) rounds(rounds ...round) server.ToolHandlerFunc {
	seal := newSeal()
	return func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		at := 0
		if state := r.Params.RequestState; state != "" {
			var ok bool
			if at, ok = seal.open(state); !ok || at >= len(rounds) {
				return nil, errors.New("the request state was tampered with")
			}
		}
		if answered(r.Params.InputResponses, rounds[at].id) {
			at++
		}
		if at == len(rounds) {
			return mcp.NewToolResultText("state-ok: thank you"), nil
		}
		b := server.NewInputRequestBuilder(seal.close(at))
		rounds[at].ask(b, rounds[at].id)
		return b.ToolResult(), nil
	}
}

// answered reports whether a well-formed answer to id came in.
func answered(in mcp.InputResponses, id string) bool {
	if _, ok := in[id]; !ok {
		return false
	}
	if e := server.ElicitationResponse(in, id); e != nil && e.Action != "" {
		return true
	}
	if s := server.SamplingResponse(in, id); s != nil && s.Content != nil {
		return true
	}
	r := server.RootsResponse(in, id)
	return r != nil && r.Roots != nil
}

// whatTheClientCan asks only by what the client declared for this request.
func (f fixture) whatTheClientCan(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(r.Params.InputResponses) > 0 {
		return mcp.NewToolResultText("thank you"), nil
	}
	b := server.NewInputRequestBuilder("")
	info := server.RequestProtocolInfoFromContext(ctx)
	if info == nil || info.ClientCapabilities == nil {
		return mcp.NewToolResultText("you can do nothing"), nil
	}
	if info.ClientCapabilities.Elicitation != nil {
		askName("What is your name?")(b, "name")
	}
	if info.ClientCapabilities.Sampling != nil {
		askModel("Say hello", 50)(b, "greeting")
	}
	return b.ToolResult(), nil
}

// seal signs a round's number.
type seal []byte

func newSeal() seal {
	k := make(seal, 32)
	_, _ = rand.Read(k) // never fails since Go 1.24
	return k
}

func (s seal) close(n int) string {
	m := hmac.New(sha256.New, s)
	fmt.Fprint(m, n)
	return fmt.Sprintf("%d.%s", n, hex.EncodeToString(m.Sum(nil)))
}

func (s seal) open(state string) (int, bool) {
	number, _, _ := strings.Cut(state, ".")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil || n < 0 {
		return 0, false
	}
	return n, hmac.Equal([]byte(s.close(n)), []byte(state))
}

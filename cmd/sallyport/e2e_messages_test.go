package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// messagesAPI plays the Messages API for a real agent host, offline: each
// request that offers tools is answered with the next turn of a script, as
// server-sent events. It keeps what the model would have been told.
// https://docs.anthropic.com/en/api/messages-streaming
type messagesAPI struct {
	url   string
	turns []turn

	mu      sync.Mutex
	offered []offeredTool // the tools of the latest scripted request
	results [][]toolResult
	strays  []string // what went wrong, for the end of the test
	answers int
}

// turn is one answer of the scripted model.
type turn struct {
	// person, where set, acts before this turn is answered; it gets the results
	// of the turn before. This is what a human does while the model waits.
	person func(before []toolResult) error
	calls  []toolUse
}

type toolUse struct {
	Name  string
	Input any
}

type offeredTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

// toolResult is what reached the model of one tool call.
type toolResult struct {
	Text    string
	IsError bool
}

func newMessagesAPI(t *testing.T, turns ...turn) *messagesAPI {
	a := &messagesAPI{turns: turns}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", a.messages)
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"input_tokens":100}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

// messagesRequest is as much of a request as the script needs.
type messagesRequest struct {
	Model    string        `json:"model"`
	Stream   bool          `json:"stream"`
	Tools    []offeredTool `json:"tools"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// told collects the tool results of a conversation, one list a turn, in the order
// of the turn's calls: the client sends those of parallel calls as they end.
func (r messagesRequest) told() [][]toolResult {
	type answer struct {
		msg, call int
		toolResult
	}
	var all []answer
	for _, m := range r.Messages {
		var parts []struct {
			Type    string          `json:"type"`
			ID      string          `json:"tool_use_id"`
			Content json.RawMessage `json:"content"`
			IsError bool            `json:"is_error"`
		}
		if m.Role != "user" || json.Unmarshal(m.Content, &parts) != nil {
			continue
		}
		for _, p := range parts {
			if p.Type != "tool_result" {
				continue
			}
			a := answer{toolResult: toolResult{textOf(p.Content), p.IsError}}
			if n, _ := fmt.Sscanf(p.ID, "toolu_msg_%d_%d", &a.msg, &a.call); n == 2 {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b answer) int { return cmp.Or(a.msg-b.msg, a.call-b.call) })
	var turns [][]toolResult
	for i, a := range all {
		if i == 0 || all[i-1].msg != a.msg {
			turns = append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], a.toolResult)
	}
	return turns
}

// textOf is a tool result's content, which is a string or a list of blocks.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	for _, b := range blocks {
		s += b.Text
	}
	return s
}

func (a *messagesAPI) messages(w http.ResponseWriter, r *http.Request) {
	var req messagesRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	calls, id := a.next(req)
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answerOf(id, req.Model, "end_turn", []any{map[string]any{"type": "text", "text": "done"}}))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream(w, answerOf(id, req.Model, "", []any{}), calls)
}

// next is what the model asks for now; nil ends the conversation. The host also
// asks for titles and the like, without tools: those get a plain "done". Every
// answer has an id of its own, for the client merges messages of one id.
func (a *messagesAPI) next(req messagesRequest) ([]toolUse, string) {
	told := req.told()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers++
	id := fmt.Sprintf("msg_%d", a.answers)
	if len(req.Tools) == 0 || a.answers > 10*len(a.turns) {
		return nil, id
	}
	if len(told) >= len(a.results) {
		a.offered, a.results = req.Tools, told
	}
	if len(told) >= len(a.turns) {
		return nil, id
	}
	t := a.turns[len(told)]
	if t.person != nil {
		var before []toolResult
		if len(told) > 0 {
			before = told[len(told)-1]
		}
		if err := t.person(before); err != nil {
			a.strays = append(a.strays, fmt.Sprintf("the person of turn %d: %v", len(told), err))
			return nil, id
		}
	}
	return t.calls, id
}

func answerOf(id, model, stop string, content []any) map[string]any {
	m := map[string]any{
		"id": id, "type": "message", "role": "assistant", "model": model, "content": content,
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]int{"input_tokens": 10, "output_tokens": 1},
	}
	if stop != "" {
		m["stop_reason"] = stop
	}
	return m
}

// stream writes one answer as the API does: each block opened, filled and
// closed. The input of a tool call comes in pieces, as it really does.
func stream(w http.ResponseWriter, opening map[string]any, calls []toolUse) {
	send := func(kind string, fields map[string]any) {
		fields["type"] = kind
		b, _ := json.Marshal(fields)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	block := func(i int, start map[string]any, deltas ...map[string]any) {
		send("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, d := range deltas {
			send("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_start", map[string]any{"message": opening})
	stop := "end_turn"
	if len(calls) == 0 {
		block(0, map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"})
	}
	for i, c := range calls {
		stop = "tool_use"
		input, _ := json.Marshal(c.Input)
		half := strings.ToValidUTF8(string(input[:len(input)/2]), "")
		block(i, map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%v_%d", opening["id"], i), "name": c.Name, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta", "partial_json": half},
			map[string]any{"type": "input_json_delta", "partial_json": string(input[len(half):])})
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]int{"output_tokens": 5}})
	send("message_stop", map[string]any{})
}

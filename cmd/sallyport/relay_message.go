package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"sallyport/audit"
	"sallyport/mcpserver"
	"sallyport/tools"
)

// message is as much of a JSON-RPC message as the relay reads.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
	Error json.RawMessage `json:"error"`
}

// parse reads one message. A batch, or what is no JSON, is none.
func parse(line []byte) (message, bool) {
	var m message
	err := json.Unmarshal(line, &m)
	return m, err == nil
}

func (m message) key() string { return keyOf(m.ID) }

// keyOf is an id in one spelling: a string may be escaped in many ways.
func keyOf(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return "s" + s
	}
	return "n" + string(bytes.TrimSpace(id))
}

// maxKept is the longest line, in bytes, that is kept to be asked again, and the
// longest arguments that are kept to find a call in the log.
const maxKept = 64 << 10

// request is a host's request in flight.
type request struct {
	key    string
	id     json.RawMessage
	method string
	sent   time.Time
	line   []byte // to ask again; nil for a call, which is never sent twice
	tool   string
	args   json.RawMessage
}

func newRequest(m message, line []byte) *request {
	q := &request{key: m.key(), id: m.ID, method: m.Method, sent: time.Now()}
	switch {
	case m.Method == "tools/call":
		q.tool = m.Params.Name
		if len(m.Params.Arguments) <= maxKept {
			q.args = m.Params.Arguments
		}
	case len(line) <= maxKept:
		q.line = line
	}
	return q
}

// fate is what the log knows of a call whose answer was lost.
type fate struct {
	known  bool   // false: the log could not be asked, or holds several such calls
	record uint64 // the record that ends it; with known and without status there is none
	status audit.Status
	tier   string
}

// fate asks the daemon's log about a call. What may have an effect is recorded
// durably before it runs, so a call of which there is no record changed nothing.
func (r *relay) fate(ctx context.Context, q *request, unreachable error) fate {
	if q.tool == "" || unreachable != nil {
		return fate{}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	b := remote(r.place)
	defer b.close()
	body, err := b.stream(ctx, http.MethodPost, "/v1/audit/records", audit.Filter{Session: r.hello.Session, Tool: q.tool, Since: q.sent})
	if err != nil {
		return fate{}
	}
	defer body.Close()
	calls := map[string][]audit.Record{}
	for d := json.NewDecoder(body); d.More(); {
		var rec struct {
			audit.Record
			Error string `json:"error"`
		}
		if err := d.Decode(&rec); err != nil || rec.Call == "" && rec.Error != "" {
			return fate{}
		}
		if rec.Kind != audit.KindEvent {
			calls[rec.Call] = append(calls[rec.Call], rec.Record)
		}
	}
	return fateOf(q, calls)
}

// fateOf finds the call among those that the session made with the same tool
// since it was sent. Where arguments do not tell them apart nothing is known.
func fateOf(q *request, calls map[string][]audit.Record) fate {
	if len(calls) == 0 {
		return fate{known: true}
	}
	if len(calls) > 1 {
		same := map[string][]audit.Record{}
		for id, records := range calls {
			if sameJSON(records[0].Args, q.args) {
				same[id] = records
			}
		}
		if len(same) != 1 {
			return fate{}
		}
		calls = same
	}
	for _, records := range calls {
		last := records[len(records)-1]
		if last.Kind != audit.KindIntent {
			return fate{known: true, record: uint64(last.Seq), status: last.Status, tier: last.Tier}
		}
	}
	return fate{}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// reply is an answer of the shim's own: a result with an error text for a call,
// which the model reads, and a protocol error for everything else.
func reply(q *request, f *tools.Failure) any {
	head := map[string]any{"jsonrpc": "2.0", "id": q.id}
	if q.tool == "" {
		head["error"] = map[string]any{
			"code": -32000, "message": f.Msg, "data": map[string]any{"retryable": f.Class == tools.Transient, "remedy": f.Remedy},
		}
		return head
	}
	head["result"] = map[string]any{
		"content": []any{map[string]string{"type": "text", "text": f.Text()}},
		"isError": true,
		"_meta":   map[string]any{"sallyport/status": audit.StatusInterrupted, "sallyport/retryable": f.Class == tools.Transient},
	}
	return head
}

// lost answers a request that was in flight when the daemon ended.
func lost(q *request, t fate, unreachable error) any {
	f := &tools.Failure{Kind: tools.KindExecutionFailed, Class: tools.Transient}
	f.Msg = "sallyport's daemon ended while this was in flight; "
	switch {
	case unreachable != nil:
		f.Class = tools.Fixable
		f.Msg += "whether it took effect is unknown, and there is no new daemon yet: " + unreachable.Error()
		f.Remedy = "tell the user; look at the state (git_status, read_file) before you repeat it"
	case q.tool == "":
		f.Msg += "another runs now"
		f.Remedy = "ask again"
	case !t.known:
		f.Class = tools.Fixable
		f.Msg += "whether it took effect is unknown"
		f.Remedy = "look at the state (git_status, read_file) before you repeat it; `sallyport audit list` has what was recorded"
	case t.status == "":
		f.Msg += "there is no record of it, so it changed nothing"
		f.Remedy = "repeat the identical call"
	case t.status == audit.StatusInterrupted:
		f.Class = tools.Fixable
		f.Msg += fmt.Sprintf("it was running and was cut off (record %d): whether it took effect is unknown", t.record)
		f.Remedy = "look at the files it names (git_status, read_file), then repeat it if its effect is missing"
	case t.tier == "L0" || t.status == audit.StatusPending:
		f.Msg += fmt.Sprintf("it had ended (%s, record %d) and only the answer was lost", t.status, t.record)
		f.Remedy = "repeat the identical call"
	default:
		f.Class = tools.Fixable
		f.Msg += fmt.Sprintf("it had ended (%s, record %d) and only the answer was lost", t.status, t.record)
		f.Remedy = fmt.Sprintf("do not repeat it; look at its effect, or ask the user for `sallyport audit show %d`", t.record)
	}
	return reply(q, f)
}

// unreachable answers a request that could not be sent to any daemon.
func unreachable(q *request, err error) any {
	return reply(q, &tools.Failure{
		Kind: tools.KindExecutionFailed, Class: tools.Transient,
		Msg:    "sallyport's daemon is away and nothing was run: " + err.Error(),
		Remedy: "tell the user; repeat the call when the daemon is back",
	})
}

// frozen answers a request that a stopped daemon has.
func frozen(q *request, pid int) any {
	return reply(q, &tools.Failure{
		Kind: tools.KindExecutionFailed, Class: tools.Fixable,
		Msg:    frozenDaemon(pid).Error(),
		Remedy: "tell the user; the call may still run when the daemon goes on, so look at the state before you repeat it",
	})
}

// tooLong tells a host that its message was not read.
func tooLong() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"message longer than %d MiB: send less at a time"}}`+"\n",
		mcpserver.MaxLine>>20)
}

// twice refuses a second request under the id of one that still runs.
func twice(q *request) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"a request with this id is still running: use a fresh id"}}`+"\n", q.id)
}

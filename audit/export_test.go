package audit

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionLog has one session with a read, an edit that a person approved, a
// denied push and a command that still runs.
func sessionLog(t *testing.T) *Log {
	t.Helper()
	o := quiet()
	o.Now = (&clock{at: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), step: time.Second}).now
	l := openTest(t, t.TempDir(), o)
	who := Record{Session: "s1", Agent: "claude-code", User: "dev", Client: "claude/2"}
	with := func(r Record) Record {
		r.Session, r.Agent, r.User, r.Client = who.Session, who.Agent, who.User, who.Client
		return r
	}
	add(t, l, with(Record{Kind: KindCall, Call: "c1", Tool: "read_file", Tier: "L0", Verdict: "allow", Status: StatusOK, Args: json.RawMessage(`{"path":"a.go"}`)}))
	intent := add(t, l, with(Record{Kind: KindIntent, Call: "c2", Key: "k2", Tool: "edit_file", Tier: "L2", Verdict: "ask", Person: "ann (cli)", Args: json.RawMessage(`{"path":"a.go","old":"=x<y>","password":"hunter22"}`)}))
	add(t, l, Record{Kind: KindEvent, Event: "policy.load", Session: "s1", Detail: json.RawMessage(`{"revision":"r2"}`)})
	add(t, l, call(99))
	exit := 0
	add(t, l, with(Record{Kind: KindOutcome, Call: "c2", Key: "k2", Intent: &intent, Tool: "edit_file", Tier: "L2", Verdict: "ask", Status: StatusOK, Exit: &exit, Took: 40 * time.Millisecond, Changes: []Change{{Path: "a.go", Kind: "modified"}}, Outputs: []Output{{Name: "answer", Preview: "done", Bytes: 4}}}))
	add(t, l, with(Record{Kind: KindCall, Call: "c3", Tool: "run_command", Tier: "L3", Verdict: "deny", Status: StatusDenied, Error: "=push is for people", Rules: []string{"git.push"}}))
	add(t, l, with(Record{Kind: KindIntent, Call: "c4", Key: "k4", Tool: "run_tests", Tier: "L1", Verdict: "allow"}))
	return l
}

func TestSession(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	steps, err := l.Session(context.Background(), "s1")
	require.NoError(t, err)
	var tools []string
	for _, s := range steps {
		if s.Call.Call != "c99" {
			tools = append(tools, or(s.Call.Tool, s.Call.Event)+":"+string(s.End().Status))
		}
	}
	assert.Equal(t, []string{"read_file:ok", "edit_file:ok", "policy.load:", "run_command:denied", "run_tests:"}, tools)
	assert.True(t, steps[len(steps)-1].Running())

	step, err := l.ByKey(context.Background(), "s1", "k2")
	require.NoError(t, err)
	assert.Equal(t, StatusOK, step.End().Status)
	step, err = l.ByKey(context.Background(), "s1", "k4")
	require.NoError(t, err)
	assert.True(t, step.Running())
	step, err = l.ByKey(context.Background(), "s2", "k4")
	require.NoError(t, err)
	assert.Nil(t, step)

	var b bytes.Buffer
	require.NoError(t, Show(&b, steps))
	assert.Contains(t, b.String(), "edit_file")
	assert.Contains(t, b.String(), "approved by: ann (cli)")
	assert.Contains(t, b.String(), "-> running")
	assert.NotContains(t, b.String(), "hunter22")
}

func TestAsciicast(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	steps, err := l.Session(context.Background(), "s1")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Asciicast(&b, steps, 0))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var head struct{ Version int }
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &head))
	assert.Equal(t, 2, head.Version)
	last := 0.0
	for _, line := range lines[1:] {
		var ev []any
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		require.Len(t, ev, 3)
		assert.GreaterOrEqual(t, ev[0].(float64), last)
		last = ev[0].(float64)
		assert.Equal(t, "o", ev[1])
	}
	assert.LessOrEqual(t, last, 2.0*float64(len(lines)))
}

func TestExportJSONLIsVerifiableOffline(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	var b bytes.Buffer
	require.NoError(t, l.Export(context.Background(), &b, FormatJSONL, Filter{Session: "s1"}))
	keys := l.publicKeys()
	n, err := CheckExport(bytes.NewReader(b.Bytes()), keys)
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	_, err = CheckExport(strings.NewReader(strings.Replace(b.String(), "read_file", "edit_file", 1)), keys)
	require.ErrorContains(t, err, "record 1 is not proven")
	_, err = CheckExport(bytes.NewReader(b.Bytes()), openTest(t, t.TempDir(), quiet()).publicKeys())
	require.ErrorContains(t, err, "check the signature")
}

func TestExportCSV(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	var b bytes.Buffer
	require.NoError(t, l.Export(context.Background(), &b, FormatCSV, Filter{Agent: "claude-code"}))
	rows, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 6)
	assert.Equal(t, "seq", rows[0][0])
	assert.Equal(t, "'=push is for people", rows[4][len(columns)-1], "no formula for a spreadsheet")
}

func TestExportOCSF(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	var b bytes.Buffer
	require.NoError(t, l.Export(context.Background(), &b, FormatOCSF, Filter{Agent: "claude-code"}))
	dec := json.NewDecoder(&b)
	var got []ocsfEvent
	for dec.More() {
		var e ocsfEvent
		require.NoError(t, dec.Decode(&e))
		got = append(got, e)
		assert.Equal(t, 6003, e.ClassUID)
		assert.Equal(t, 6003*100+e.ActivityID, e.TypeUID)
		assert.Equal(t, "1.8.0", e.Metadata.Version)
		assert.NotEmpty(t, e.API.Operation)
		assert.NotEmpty(t, e.Actor.User.Name)
		assert.NotEmpty(t, e.SrcEndpoint.Name)
		assert.NotZero(t, e.SeverityID)
	}
	require.Len(t, got, 5)
	assert.Equal(t, []int{2, 1, 1, 1}, []int{got[0].ActivityID, got[0].StatusID, got[0].ActionID, got[0].DispositionID})
	assert.Equal(t, 3, got[2].ActivityID)
	assert.Equal(t, []int{2, 2, 2, 4}, []int{got[3].StatusID, got[3].ActionID, got[3].DispositionID, got[3].SeverityID})
}

func TestExportTrace(t *testing.T) {
	t.Parallel()
	l := sessionLog(t)
	var b bytes.Buffer
	require.NoError(t, l.Export(context.Background(), &b, FormatTrace, Filter{Agent: "claude-code"}))
	var doc executionTrace
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	require.Len(t, doc.Sessions, 1)
	require.Len(t, doc.Sessions[0].Steps, 5)
	edit := doc.Sessions[0].Steps[1]
	assert.Equal(t, "edit_file", edit.Tool)
	assert.InDelta(t, 40, edit.DurationMS, 0.01)
	assert.Equal(t, "ann (cli)", edit.Decision.Person)
	assert.NotContains(t, b.String(), "hunter22")
	require.Error(t, l.Export(context.Background(), &b, "xml", Filter{}))
}

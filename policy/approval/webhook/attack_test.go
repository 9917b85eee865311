package webhook_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
)

func TestForgedAnswersDecideNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer func(*webhook.Answer)
		ask    func(*approval.Ask)
		late   time.Duration
		change func(*http.Request)
		status int
		note   string
	}{
		"no signature":       {change: func(r *http.Request) { r.Header.Del(webhook.HeaderSignature) }, status: 401, note: "signature does not fit"},
		"no time":            {change: func(r *http.Request) { r.Header.Del(webhook.HeaderTimestamp) }, status: 401, note: "no timestamp"},
		"another time":       {change: func(r *http.Request) { r.Header.Set(webhook.HeaderTimestamp, "1") }, status: 401, note: "signature does not fit"},
		"another secret":     {change: func(r *http.Request) { r.Header.Set(webhook.HeaderSignature, "v1="+strings.Repeat("0", 64)) }, status: 401, note: "signature does not fit"},
		"too old":            {late: 6 * time.Minute, status: 401, note: "time is off by 6m"},
		"from the future":    {late: -6 * time.Minute, status: 401, note: "time is off by 6m"},
		"another target":     {change: func(r *http.Request) { r.URL.Path = "/webhook/other" }, status: 404, note: "does not take any"},
		"unknown person":     {answer: func(a *webhook.Answer) { a.Person = "mallory" }, status: 403, note: "mallory is not a person"},
		"the agent's name":   {answer: func(a *webhook.Answer) { a.Person = "claude-code" }, status: 403, note: "not a person"},
		"a wider look":       {answer: func(a *webhook.Answer) { a.Shown = "else" }, status: 403, note: "something else"},
		"part of an id":      {answer: func(a *webhook.Answer) { a.Request = a.Request[:4] }, status: 403, note: "whole id"},
		"an L3 request":      {ask: func(a *approval.Ask) { a.Decision.Tier = policy.L3 }, status: 403, note: "decides up to L2 and this is L3"},
		"an unknown action":  {answer: func(a *webhook.Answer) { a.Action = "always" }, status: 400},
		"an unknown request": {answer: func(a *webhook.Answer) { a.Request = "zzzzzz" }, status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r)}})
			var req approval.Request
			if tc.ask != nil {
				req = f.ask(t, tc.ask)
			} else {
				req = f.ask(t)
			}
			a := webhook.Answer{Request: req.ID, Action: "approve", Person: "bob@example.com", Shown: req.Shown}
			if tc.answer != nil {
				tc.answer(&a)
			}
			body, err := json.Marshal(a)
			require.NoError(t, err)
			change := func(*http.Request) {}
			if tc.change != nil {
				change = tc.change
			}
			status, text := f.send(t, body, f.clock().Add(-tc.late), change)
			require.Equal(t, tc.status, status, text)
			got, err := f.desk.Get(req.ID)
			require.NoError(t, err)
			require.Equal(t, approval.StatePending, got.State)
			if tc.note != "" {
				require.Len(t, f.refused(), 1)
				require.Contains(t, f.refused()[0], tc.note)
			}
		})
	}
}

func TestAnAnswerIsUsedOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	f := newFixture(t, webhook.Options{Targets: []webhook.Target{target(r)}})
	first := f.ask(t)
	body, err := json.Marshal(webhook.Answer{Request: first.ID, Action: "deny", Person: "bob@example.com", Shown: first.Shown})
	require.NoError(t, err)
	status, _ := f.send(t, body, f.clock())
	require.Equal(t, http.StatusOK, status)
	status, text := f.send(t, body, f.clock())
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, "used before")
	f.pass(4 * time.Minute)
	status, _ = f.send(t, body, f.clock().Add(-4*time.Minute))
	require.Equal(t, http.StatusUnauthorized, status)

	// Our own message, sent back, is no answer.
	m := r.next(t)
	status, _ = f.send(t, m.raw, f.clock(), func(req *http.Request) {
		for _, k := range []string{webhook.HeaderSignature, webhook.HeaderTimestamp} {
			req.Header.Set(k, m.header.Get(k))
		}
	})
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = f.send(t, []byte(`{"request":"x","action":"approve","person":"U1","shown":"","more":1}`), f.clock())
	require.Equal(t, http.StatusUnauthorized, status, "an unknown field is no answer")
	status, _ = f.send(t, []byte(strings.Repeat("x", 65<<10)), f.clock())
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
}

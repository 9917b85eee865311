package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/policy/approval"
)

// Answer is the body of a callback in the plain format.
type Answer struct {
	Request string `json:"request"`
	Action  string `json:"action"` // "approve" or "deny"
	Person  string `json:"person"` // a key of Target.People
	Note    string `json:"note,omitempty"`
	Shown   string `json:"shown"` // from the message
}

// maxAnswer bounds a callback's body, in bytes.
const maxAnswer = 64 << 10

// errForged marks an answer that was not made by the target, or not now.
var errForged = errors.New("not a valid answer")

// answer takes a callback: signature, time, first use, person, tier, and then the
// desk's own rules.
func (h *Hook) answer(w http.ResponseWriter, r *http.Request) {
	b := h.targets[r.PathValue("target")]
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAnswer))
	if err != nil {
		reply(w, http.StatusRequestEntityTooLarge, object{"error": "an answer is 64 KiB at most"})
		return
	}
	if b == nil || b.target.Format == Feishu {
		h.refuse(r, "an answer for a target that does not take any")
		reply(w, http.StatusNotFound, object{"error": "no such target"})
		return
	}
	a, err := h.open(b.target, r, body)
	if err != nil {
		h.refuse(r, err.Error())
		reply(w, http.StatusUnauthorized, object{"error": err.Error()})
		return
	}
	done, err := h.decide(b.target, a, r.RemoteAddr)
	if err != nil {
		reply(w, status(err), object{"error": err.Error()})
		return
	}
	reply(w, http.StatusOK, object{"request": done.ID, "state": done.State})
}

// open checks that an answer comes from the target, now, and for the first time.
func (h *Hook) open(t Target, r *http.Request, body []byte) (Answer, error) {
	seal, stamp := r.Header.Get(HeaderSignature), r.Header.Get(HeaderTimestamp)
	if t.Format == Slack {
		seal, stamp = r.Header.Get("X-Slack-Signature"), r.Header.Get("X-Slack-Request-Timestamp")
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: it has no timestamp", errForged)
	}
	at := time.Unix(seconds, 0)
	want := SignAnswer(t.Secret, at, body)
	if t.Format == Slack {
		want = signSlack(t.Secret, stamp, body)
	}
	if !hmac.Equal([]byte(seal), []byte(want)) {
		return Answer{}, fmt.Errorf("%w: its signature does not fit", errForged)
	}
	if off := h.o.Now().Sub(at).Abs(); off > h.o.Window {
		return Answer{}, fmt.Errorf("%w: its time is off by %s; set the clocks", errForged, off.Round(time.Second))
	}
	if !h.first(t.Name + " " + want) {
		return Answer{}, fmt.Errorf("%w: it was used before", errForged)
	}
	if t.Format == Slack {
		return slackAnswer(body)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var a Answer
	if err := d.Decode(&a); err != nil || d.More() {
		return Answer{}, fmt.Errorf("%w: its body is not an answer", errForged)
	}
	return a, nil
}

// first reports whether a signature is new, and remembers it for as long as its
// time can be taken.
func (h *Hook) first(seal string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.o.Now()
	for k, until := range h.used {
		if now.After(until) {
			delete(h.used, k)
		}
	}
	if _, ok := h.used[seal]; ok {
		return false
	}
	h.used[seal] = now.Add(2*h.o.Window + time.Second)
	return true
}

// decide hands an answer to the desk.
func (h *Hook) decide(t Target, a Answer, from string) (approval.Request, error) {
	p, ok := t.People[a.Person]
	if !ok {
		p = approval.Person{Name: a.Person}
	}
	p.Channel, p.From, p.UID = "webhook", t.Name+" "+from, -1
	r, err := h.o.Desk.Get(a.Request)
	if err != nil {
		return r, err
	}
	refusal := ""
	switch {
	case t.Format == Slack && a.Action == slackOpen:
		return r, nil // Slack reports a click on a link too
	case !ok:
		refusal = fmt.Sprintf("%s is not a person target %s may speak for", approval.Visible(a.Person), t.Name)
	case r.ID != a.Request:
		refusal = "an answer names the whole id"
	case r.Tier > t.maxTier():
		refusal = fmt.Sprintf("target %s decides up to %s and this is %s", t.Name, t.maxTier(), r.Tier)
	case a.Shown != r.Shown:
		refusal = "the answer is to something else than the desk holds"
	}
	if refusal != "" {
		return r, errors.Join(fmt.Errorf("%w: %s", approval.ErrRefused, refusal), h.o.Desk.Refuse(p, refusal+" ("+r.ID+")"))
	}
	switch a.Action {
	case "approve":
		return h.o.Desk.Approve(r.ID, p, approval.ApproveOptions{Note: a.Note, Shown: a.Shown})
	case "deny":
		return h.o.Desk.Deny(r.ID, p, a.Note, a.Shown)
	}
	return r, fmt.Errorf("%w: an action is approve or deny", approval.ErrInvalid)
}

// signSlack is Slack's signature of a request: see "Verifying requests from
// Slack" in its documentation.
func signSlack(secret []byte, stamp string, body []byte) string {
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "v0:%s:", stamp)
	m.Write(body)
	return "v0=" + hex.EncodeToString(m.Sum(nil))
}

// slackAnswer reads the form that a click on a button of ours sends.
func slackAnswer(body []byte) (Answer, error) {
	bad := fmt.Errorf("%w: it is not a click on one of our buttons", errForged)
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return Answer{}, bad
	}
	var p struct {
		Type string `json:"type"`
		User struct {
			ID string `json:"id"`
		} `json:"user"`
		Actions []struct {
			ID    string `json:"action_id"`
			Value string `json:"value"`
		} `json:"actions"`
	}
	if json.Unmarshal([]byte(form.Get("payload")), &p) != nil || p.Type != "block_actions" || len(p.Actions) != 1 {
		return Answer{}, bad
	}
	id, shown, ok := strings.Cut(p.Actions[0].Value, " ")
	if !ok {
		return Answer{}, bad
	}
	return Answer{Request: id, Action: p.Actions[0].ID, Person: p.User.ID, Shown: shown}, nil
}

// refuse records a callback that was turned away.
func (h *Hook) refuse(r *http.Request, note string) {
	if !h.refusals.Allow() {
		return
	}
	p := approval.Person{Name: "unknown", Channel: "webhook", From: r.RemoteAddr, UID: -1}
	if err := h.o.Desk.Refuse(p, note); err != nil {
		h.o.Log.Error("record a refused answer", "error", err)
	}
}

func status(err error) int {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, approval.ErrRefused):
		return http.StatusForbidden
	case errors.Is(err, approval.ErrDecided):
		return http.StatusConflict
	case errors.Is(err, approval.ErrInvalid):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

func reply(w http.ResponseWriter, status int, v object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The answer has been taken or refused already; nobody is left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

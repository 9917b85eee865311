package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"sallyport/policy/approval"
)

// The headers of a message and of an answer.
const (
	HeaderTimestamp = "Sallyport-Timestamp" // Unix seconds
	HeaderSignature = "Sallyport-Signature" // "v1=" and a hex HMAC-SHA256
)

// What a signature is for: a message of ours is no answer when it comes back.
const (
	messagePurpose = "sallyport-message"
	answerPurpose  = "sallyport-answer"
)

// SignAnswer is the value of HeaderSignature for an answer: the HMAC-SHA256 over
// "sallyport-answer:<timestamp>:<body>".
func SignAnswer(secret []byte, at time.Time, body []byte) string {
	return sign(answerPurpose, secret, at, body)
}

// SignMessage is the value of HeaderSignature of our messages, for receivers to
// check: the HMAC-SHA256 over "sallyport-message:<timestamp>:<body>".
func SignMessage(secret []byte, at time.Time, body []byte) string {
	return sign(messagePurpose, secret, at, body)
}

func sign(purpose string, secret []byte, at time.Time, body []byte) string {
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "%s:%d:", purpose, at.Unix())
	m.Write(body)
	return "v1=" + hex.EncodeToString(m.Sum(nil))
}

// The kinds of message.
const (
	kindWaiting = "waiting"
	kindStill   = "still_waiting"
	kindDecided = "decided"
)

type item struct {
	kind    string
	request approval.Request
}

// backlog is how many messages a target that does not answer may hold up.
const backlog = 1024

// outbox is a target and what it is still to be told, in order.
type outbox struct {
	target Target
	queue  chan item
	told   map[string]bool // requests it knows of; used by follow alone
}

func newOutbox(t Target) *outbox {
	if t.Format == "" {
		t.Format = Plain
	}
	return &outbox{target: t, queue: make(chan item, backlog), told: map[string]bool{}}
}

func (h *Hook) queue(b *outbox, it item) {
	select {
	case b.queue <- it:
	default:
		h.o.Log.Error("a webhook target holds up too many messages; one is dropped", "target", b.target.Name, "request", it.request.ID)
		if h.o.Dropped != nil {
			h.o.Dropped(b.target.Name, it.request.ID)
		}
	}
}

// deliver sends a target's messages one after another.
func (h *Hook) deliver(ctx context.Context, b *outbox) {
	for {
		select {
		case <-ctx.Done():
			return
		case it := <-b.queue:
			if err := h.send(ctx, b.target, it); err != nil && ctx.Err() == nil {
				h.o.Log.Error("tell a webhook target", "target", b.target.Name, "request", it.request.ID, "error", err)
			}
		}
	}
}

// send makes the message of an item and posts it until it is taken, refused for
// good or tried often enough. A request that was decided meanwhile is not sent as
// waiting.
func (h *Hook) send(ctx context.Context, t Target, it item) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.Multiplier, policy.MaxInterval = h.o.Backoff, 2, 64*h.o.Backoff
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if it.kind != kindDecided {
			now, err := h.o.Desk.Get(it.request.ID)
			if err != nil || now.State != approval.StatePending {
				return struct{}{}, nil
			}
			it.request = now
		}
		m, err := h.message(t, it)
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, h.post(ctx, t, m)
	}, backoff.WithBackOff(policy), backoff.WithMaxTries(h.o.Tries), backoff.WithMaxElapsedTime(time.Hour))
	return err
}

// post makes one attempt. The time and the signature are of the attempt.
func (h *Hook) post(ctx context.Context, t Target, m message) error {
	at := h.o.Now()
	body, err := encode(t, m, at)
	if err != nil {
		return backoff.Permanent(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "sallyport")
	r.Header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	r.Header.Set(HeaderSignature, SignMessage(t.Secret, at, body))
	res, err := h.o.Client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return err
	}
	return verdict(t, res, answer)
}

// verdict reads a target's answer to one attempt: nil when the message is taken,
// a permanent error when trying again is of no use.
func verdict(t Target, res *http.Response, answer []byte) error {
	err := fmt.Errorf("%s answered %s: %s", t.Name, res.Status, approval.Visible(string(answer[:min(len(answer), 200)])))
	switch {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		if s, convErr := strconv.Atoi(res.Header.Get("Retry-After")); convErr == nil && s >= 0 && s <= 3600 {
			return backoff.RetryAfter(s)
		}
		return err
	case res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout:
		return err
	case res.StatusCode < 200 || res.StatusCode > 299:
		return backoff.Permanent(err)
	case t.Format == Feishu:
		// Feishu says in the body what others say in the status.
		var f struct {
			Code int `json:"code"`
		}
		if json.Unmarshal(answer, &f) == nil && f.Code != 0 {
			if f.Code == feishuTooMany {
				return err
			}
			return backoff.Permanent(err)
		}
	}
	return nil
}

// feishuTooMany is Feishu's code for "frequency limited", which passes.
const feishuTooMany = 11232

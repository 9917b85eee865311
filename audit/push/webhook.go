package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"sallyport/audit"
)

// Webhook posts each batch as one JSON document.
type Webhook struct {
	URL string
	// Sign sets the headers that prove who sent the body, and when.
	Sign func(h http.Header, at time.Time, body []byte)

	client http.Client
}

// NewWebhook completes a Webhook.
func NewWebhook(w Webhook, t *tls.Config) *Webhook {
	w.client = plainClient(t)
	return &w
}

// Message is the body of a push.
type Message struct {
	Version int               `json:"version"` // 1
	Log     string            `json:"log"`
	From    audit.Seq         `json:"from"`
	To      audit.Seq         `json:"to"`
	Records []json.RawMessage `json:"records"`
}

// Send implements Sink. A receiver that finds a batch too large gets it in halves.
func (w *Webhook) Send(ctx context.Context, b Batch) error {
	status, err := w.post(ctx, b)
	if status == http.StatusRequestEntityTooLarge && len(b.Entries) > 1 {
		half := len(b.Entries) / 2
		for _, part := range []Batch{
			{Log: b.Log, From: b.From, To: b.Entries[half-1].Record.Seq, Entries: b.Entries[:half], Lines: b.Lines[:half]},
			{Log: b.Log, From: b.Entries[half].Record.Seq, To: b.To, Entries: b.Entries[half:], Lines: b.Lines[half:]},
		} {
			if err := w.Send(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("post the records: %w", err)
	}
	return nil
}

func (w *Webhook) post(ctx context.Context, b Batch) (int, error) {
	m := Message{Version: 1, Log: b.Log, From: b.From, To: b.To}
	for _, l := range b.Lines {
		m.Records = append(m.Records, l)
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // the records' bytes stay what the log hashed
	if err := enc.Encode(m); err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body.Bytes()))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "sallyport")
	r.Header.Set("Idempotency-Key", fmt.Sprintf("%s/%d-%d", b.Log, b.From, b.To))
	w.Sign(r.Header, time.Now(), body.Bytes())
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return resp.StatusCode, nil
}

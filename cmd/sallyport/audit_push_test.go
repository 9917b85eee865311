package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
	"sallyport/audit/push"
	"sallyport/policy/approval/webhook"
)

// A receiver checks a push as it checks a message of the approvals.
func TestPushedRecordsAreSignedAsWebhooksAre(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600))
	got := false
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		at, err := strconv.ParseInt(r.Header.Get(webhook.HeaderTimestamp), 10, 64)
		assert.NoError(t, err)
		assert.Equal(t, webhook.SignMessage([]byte("0123456789abcdef"), time.Unix(at, 0), body), r.Header.Get(webhook.HeaderSignature))
		assert.Equal(t, "l/3-3", r.Header.Get("Idempotency-Key"))
		assert.JSONEq(t, `{"version":1,"log":"l","from":3,"to":3,"records":[{"seq":3}]}`, string(body))
		got = true
	}))
	defer srv.Close()
	target, err := pushConfig{Name: "hook", URL: srv.URL, SecretFile: secret}.target()
	require.NoError(t, err)
	require.NoError(t, target.Sink.Send(context.Background(), push.Batch{
		Log: "l", From: 3, To: 3, Entries: []audit.Entry{{Record: audit.Record{Seq: 3}}}, Lines: [][]byte{[]byte(`{"seq":3}`)},
	}))
	require.True(t, got)
}

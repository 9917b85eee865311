package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
)

// FuzzDecode holds Decode against skim, which reads the same bytes another way,
// and against encoding: what is decoded is encoded again to the same record.
func FuzzDecode(f *testing.F) {
	seq := Seq(3)
	for _, r := range []Record{call(1), {Kind: KindOutcome, Intent: &seq, Error: "\"intent\":7"}, {Kind: KindEvent, Event: "start"}} {
		body, err := encodeBody(&r)
		require.NoError(f, err)
		f.Add(encodeStored(stamp{seq: 4, boot: "b"}, body))
	}
	f.Add([]byte(`{"v":1,"seq":4} x`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Decode(raw)
		if err != nil {
			return
		}
		body, err := encodeBody(&r)
		require.NoError(t, err)
		stored := encodeStored(stamp{r.Seq, r.Time, r.Mono, "boot"}, body)
		again, err := Decode(stored)
		require.NoError(t, err)
		again.Boot = r.Boot
		require.True(t, r.Time.Equal(again.Time))
		r.Time = again.Time
		bodyAgain, err := encodeBody(&again)
		require.NoError(t, err)
		require.Equal(t, string(body), string(bodyAgain))
		if l, err := skim(stored); err == nil {
			require.Equal(t, r.Seq, l.seq)
			require.Equal(t, r.Kind, l.kind)
			if r.Kind == KindOutcome {
				require.NotNil(t, r.Intent)
				require.Equal(t, *r.Intent, l.intent)
			}
		}
	})
}

// FuzzCheckpoint: a text that is taken for a checkpoint is the one text for it.
func FuzzCheckpoint(f *testing.F) {
	f.Add(checkpoint{"log", 7, tlog.RecordHash([]byte("x"))}.text())
	f.Add("log\n-1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseCheckpoint(text); err == nil {
			require.Equal(t, text, c.text())
		}
	})
}

// FuzzRedact: a second pass changes nothing, and what is not a secret is kept.
func FuzzRedact(f *testing.F) {
	l, err := Open(f.TempDir(), quiet())
	require.NoError(f, err)
	f.Cleanup(func() { _ = l.Close() })
	f.Add("password=hunter2 AKIAIOSFODNN7EXAMPLE")
	f.Add(`{"token": "abc", "x": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"}`)
	f.Fuzz(func(t *testing.T, text string) {
		once := l.Redact(text)
		require.Equal(t, once, l.Redact(once))
	})
}

// FuzzCheckExport: an export is taken only when each of its records is proven.
func FuzzCheckExport(f *testing.F) {
	l, err := Open(f.TempDir(), quiet())
	require.NoError(f, err)
	f.Cleanup(func() { _ = l.Close() })
	for n := range 3 {
		_, err := l.Append(f.Context(), call(n))
		require.NoError(f, err)
	}
	var b bytes.Buffer
	require.NoError(f, l.Export(f.Context(), &b, FormatJSONL, Filter{}))
	f.Add(b.String())
	f.Add(b.String()[:b.Len()/2])
	f.Fuzz(func(t *testing.T, text string) {
		n, err := CheckExport(strings.NewReader(text), l.publicKeys())
		if err != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(text))
		var head Proof
		require.NoError(t, dec.Decode(&head))
		for range n {
			var p Proof
			require.NoError(t, dec.Decode(&p))
			raw, err := l.raw(p.Seq)
			require.NoError(t, err)
			require.Equal(t, string(raw), p.Record)
		}
	})
}

package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample makes a secret of a format. The text is put together here, so that no
// scanner takes this file for a leak.
func sample(f format) string {
	var b strings.Builder
	b.WriteString(f.prefix)
	for i := 0; b.Len() < len(f.prefix)+f.min+3; i++ {
		b.WriteByte(f.set[(i*7+len(f.prefix)*3)%len(f.set)])
	}
	if f.rule == "jwt" {
		return "eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("eyJzdWIiOiIx", 2) + "." + strings.Repeat("SflKxwRJSMeK", 3)
	}
	return b.String()
}

// TestPlantedSecretsAreNowhere plants secrets of every format, and known values
// in other encodings, in all fields of records, and looks for them in every byte
// of the log's files and exports.
func TestPlantedSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.SegmentBytes = 40 << 10
	known := []string{"correct horse battery staple", "p4ss:w0rd/with+odd=chars"}
	o.Secrets = known
	l := openTest(t, dir, o)
	secrets := append([]string{}, known...)
	for _, f := range formats {
		secrets = append(secrets, sample(f))
	}
	ctx := context.Background()
	for i, s := range secrets {
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		content := base64.StdEncoding.EncodeToString([]byte("first line\nvalue " + s + "\n"))
		_, err = l.Append(ctx, Record{
			Kind: KindCall, Session: "s", Agent: "agent " + s, Branch: "b-" + s, Error: "failed with " + s + ".",
			Args:    json.RawMessage(fmt.Sprintf(`{"command":"curl -H 'X: %s' https://x","nested":[{"plain":%s}],%s:1}`, s, quoted, quoted)),
			Action:  json.RawMessage(fmt.Sprintf(`{"files":[{"op":"write","path":"x","write":{"content":%q}}]}`, content)),
			Facts:   json.RawMessage(`{"env":{"A":` + string(quoted) + `}}`),
			Outputs: []Output{{Name: "stdout", Preview: "out\n" + s + "\nend"}},
			Changes: []Change{{Path: "dir/" + s}},
			Detail:  json.RawMessage(quoted), Rules: []string{s}, Person: s, Approval: s,
		})
		require.NoError(t, err, "%d", i)
	}
	for _, s := range known {
		add(t, l, Record{Kind: KindCall, Error: "hex " + hex.EncodeToString([]byte(s)) + " b64 " + base64.StdEncoding.EncodeToString([]byte("x"+s+"y"))})
	}
	l.sealer.work.Wait()
	places := map[string][]byte{}
	for _, format := range []Format{FormatJSONL, FormatCSV, FormatOCSF, FormatTrace} {
		var b bytes.Buffer
		require.NoError(t, l.Export(ctx, &b, format, Filter{}))
		places["export "+string(format)] = b.Bytes()
	}
	steps, err := l.Session(ctx, "s")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Show(&b, steps))
	places["show"] = b.Bytes()
	require.NoError(t, l.Close())
	files, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		places[filepath.Base(f)] = text
	}
	for _, s := range secrets {
		for _, form := range newKnownSecrets([]string{s}).forms {
			for place, text := range places {
				assert.False(t, bytes.Contains(text, []byte(form)), "%s is in %s as %s", s, place, form)
			}
		}
	}
}

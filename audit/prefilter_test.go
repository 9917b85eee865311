package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// every is a filter that lets everything be looked for.
func everyHit(text string) (hits []hit) {
	for i := range formats {
		hits = formats[i].find(text, hits)
	}
	for i := range shapes {
		hits = shapes[i].find(text, hits)
	}
	return hits
}

func TestPrefilterKnowsEveryLiteral(t *testing.T) {
	t.Parallel()
	all := append([]string{}, assignedHints...)
	for _, f := range formats {
		all = append(all, f.prefix)
	}
	for _, s := range shapes {
		all = append(all, s.literal)
	}
	require.LessOrEqual(t, len(all), 128, "a set of literals has 128 bits")
	for _, l := range all {
		require.GreaterOrEqual(t, len(l), 3, l)
	}
	for i, f := range formats {
		found := false
		literalFilter().in("x "+f.prefix+" y").part(0, len(formats), func(n int) { found = found || n == i })
		require.True(t, found, f.prefix)
	}
	for _, hint := range assignedHints {
		may := literalFilter().in("x " + strings.ToUpper(hint) + " y")
		require.True(t, may.hints(), hint)
	}
	may := literalFilter().in("0 1 2 3 4 5")
	require.Equal(t, literals{}, may)
}

// samples are texts with and without secrets.
func samples() []string {
	out := []string{"", "a", "ls -la && go test ./...", "password=hunter2hunter2", `{"a":1}`, "https://user:secret@host/x", "Bearer abcdefgh12345678", "line\nwith \"quotes\" \\ and\ttabs",
		"curl -u me:hunter2 https://x", "Cookie: session=abcdef0123", "déjà vu", "aGVsbG8gd29ybGQhISEhIQ==", `\u0041`, "K", "x\\\"y", strings.Repeat("a", 300<<10)}
	for _, f := range formats {
		out = append(out, "see "+sample(f)+" there", sample(f))
	}
	return out
}

func FuzzFastRedaction(f *testing.F) {
	l, err := Open(f.TempDir(), Options{Logger: quiet().Logger, MinFree: -1, Ballast: -1, Secrets: []string{"correct horse"}})
	require.NoError(f, err)
	f.Cleanup(func() { _ = l.Close() })
	for _, s := range samples() {
		quoted, err := json.Marshal(s)
		require.NoError(f, err)
		f.Add(s)
		f.Add(string(quoted))
		f.Add(fmt.Sprintf(`{"path":%s,"list":[1,%s,{"password":"%d"}]}`, quoted, quoted, len(s)))
		f.Add(fmt.Sprintf(`{ "command" : %s , "a\"b" : [ ] }`, quoted))
	}
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, everyHit(text), findFormats(text+"", nil), "what is looked for is what may be there")
		if !l.clean(json.RawMessage(text)) {
			return
		}
		var pointers []string
		slow := l.redactJSONValue(json.RawMessage(text), "", &pointers)
		require.Empty(t, pointers, "redaction replaces something in what was called clean")
		require.JSONEq(t, string(slow), text)
	})
}

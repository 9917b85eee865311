package audit

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryFieldIsClassed(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for i := range reflect.TypeFor[Record]().NumField() {
		want[reflect.TypeFor[Record]().Field(i).Name] = true
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Output](), reflect.TypeFor[Change]()} {
		for i := range typ.NumField() {
			want[typ.Name()+"."+typ.Field(i).Name] = true
		}
	}
	for name := range want {
		assert.NotZero(t, fieldClasses[name], "%s is not classed in fields.go: say whether it may hold what others wrote", name)
	}
	for name := range fieldClasses {
		assert.True(t, want[name], "fields.go classes %s, which does not exist", name)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Secrets = []string{"correct-horse-battery", "short"}
	l := openTest(t, t.TempDir(), o)
	known := base64.StdEncoding.EncodeToString([]byte("xy correct-horse-battery z"))
	for _, c := range []struct{ rule, text, secret string }{
		{"known", "say correct-horse-battery now", "correct-horse-battery"},
		{"known", "hex " + hex.EncodeToString([]byte("correct-horse-battery")), hex.EncodeToString([]byte("correct-horse-battery"))},
		{"known", "b64 " + known + " end", "correct"},
		{"aws-key-id", "export A=AKIA" + "IOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"},
		{"github", "git clone https://ghp_" + strings.Repeat("a1B2", 9) + "@github.com/x/y", strings.Repeat("a1B2", 9)},
		{"url", "psql postgres://bob:hunter2pw@db.local/x", "hunter2pw"},
		{"header", "curl -H 'Authorization: Bearer abcdefgh12345678'", "abcdefgh12345678"},
		{"name", `{"password": "hunter2"}`, "hunter2"},
		{"name", "DB_PASSWORD=hunterhunter", "hunterhunter"},
		{"name", "mytool --token abcdefghij", "abcdefghij"},
		{"pem", "x\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\ny", "MIIabc"},
		{"jwt", "t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "eyJzdWIi"},
		{"random", "value q7Zx9Lm2Vb8Rt4Yw1Ks6Pd3Nf5Hg0J here", "q7Zx9Lm2Vb8Rt4Yw1Ks6Pd3Nf5Hg0J"},
		{"header", "curl -H 'Cookie: sid=abcdef12345; b=2' x", "abcdef12345"},
		{"name", "tool --api-key=abcdefghij", "abcdefghij"},
		{"name", "apiKey: 'abcd efgh'", "abcd efgh"},
		{"userpass", "curl -s -u admin:pa55word https://x", "pa55word"},
	} {
		got := l.Redact(c.text)
		assert.NotContains(t, got, c.secret, c.text)
		assert.Contains(t, got, "[redacted:"+c.rule+":", c.text)
		assert.Equal(t, got, l.Redact(got), "a second pass changes nothing")
		assert.Equal(t, got, l.Redact(c.text), "equal secrets give equal placeholders")
	}
}

func TestRedactLeavesOrdinaryTextAlone(t *testing.T) {
	t.Parallel()
	l := openTest(t, t.TempDir(), quiet())
	for _, text := range []string{
		"commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"id 123e4567-e89b-12d3-a456-426614174000",
		"github.com/x/y v1.2.3 h1:2gKiOnpOl5qO3SEkRU3r0lyGrjBH7JRMgqKHXoQZ9bQ=",
		`"integrity": "sha512-2gKiOnpOl5qO3SEkRU3r0lyGrjBH7JRMgqKHXoQZ9bQ2gKiOnpOl5qO3SEkRU3r0lyGrjBH7JRMgqKHXoQ=="`,
		"src/components/Button2/IndexPageWithLongName/ComponentFactory.tsx",
		"TestVerifyDetectsEverySingleBitFlipOfASmallLog42",
		"func newToken(secret string) (token string, err error)",
		"password := os.Getenv(\"PASSWORD\")",
		"max_tokens: 4096, tokenizer = cl100k",
		"export TOKEN=$GITHUB_TOKEN",
		"password: ${PASSWORD}",
		"getent passwd `whoami` | cut -d : -f 5",
		"mysqldump --password --all-databases > file.sql",
		"http2cipher_TLS_RSA_EXPORT_WITH_RC4_40_MD5 uint16 = 0x0003",
		"The header carries HTTP Basic Authentication data",
		"the token is checked before the password changes",
		"https://example.com/path?x=1#frag",
		"hmac-sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	} {
		assert.Equal(t, text, l.Redact(text))
	}
}

func TestRecordIsRedactedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	l := openTest(t, t.TempDir(), quiet())
	secret := "AKIAIOSFODNN7EXAMPLE"
	content := base64.StdEncoding.EncodeToString([]byte("key = " + secret + "\nmore\n"))
	seq := add(t, l, Record{
		Kind: KindCall, Key: "toolu_01A09q90qw90lq917835lq9", Session: "s",
		Args:    json.RawMessage(`{"content":"x ` + secret + `","password":"p","nested":[{"api_key":"v"}]}`),
		Action:  json.RawMessage(`{"files":[{"op":"write","write":{"content":"` + content + `"}}]}`),
		Error:   "no " + secret,
		Outputs: []Output{{Name: "stdout", Preview: secret}},
		Changes: []Change{{Path: "a/" + secret}},
		Sources: map[string]string{"agent": "token"},
		Detail:  json.RawMessage(`not json ` + secret),
	})
	got, err := l.Get(seq)
	require.NoError(t, err)
	raw, err := l.raw(seq)
	require.NoError(t, err)
	assert.NotContains(t, string(raw), secret)
	assert.ElementsMatch(t, []string{
		"/args/content", "/args/password", "/args/nested/0/api_key", "/action/files/0/write/content",
		"/error", "/outputs/0/preview", "/changes/0/path", "/detail",
	}, got.Redacted)
	assert.Equal(t, "toolu_01A09q90qw90lq917835lq9", got.Key)
	var action struct {
		Files []struct{ Write struct{ Content []byte } }
	}
	require.NoError(t, json.Unmarshal(got.Action, &action))
	assert.Regexp(t, `^key = \[redacted:aws-key-id:[0-9a-f]{8}:20\]\nmore\n$`, string(action.Files[0].Write.Content))
	require.NoError(t, l.Select(context.Background(), Filter{Text: secret}, func(Record) bool {
		t.Error("the secret can be found")
		return false
	}))
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	l := openTest(t, t.TempDir(), quiet())
	long := strings.Repeat("a line of a long file\n", 40000)
	content, err := json.Marshal(map[string]any{"path": "x", "text": long, "content": []byte(long)})
	require.NoError(t, err)
	seq := add(t, l, Record{Kind: KindCall, Args: content, Error: long})
	raw, err := l.raw(seq)
	require.NoError(t, err)
	assert.Less(t, len(raw), longestText)
	got, err := l.Get(seq)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"/args/content", "/args/text", "/error"}, got.Redacted)
	var args struct {
		Text    string
		Content []byte
	}
	require.NoError(t, json.Unmarshal(got.Args, &args))
	assert.Equal(t, args.Text, string(args.Content), "base64 stays base64")
	assert.Regexp(t, `…\[cut:[0-9a-f]{16}:880000\]$`, args.Text)
	assert.Equal(t, long, l.Redact(long), "answers are not cut here")
}

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example in docs/config.md holds every key there is, and is one that the
// program takes.
func TestConfigIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(doc)
	require.NotNil(t, example)
	for _, key := range keysOf(reflect.TypeFor[config]()) {
		assert.Regexp(t, `(?m)(^|[\s{-])`+key+`:`, string(example[1]))
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), example[1], 0o600))
	c, err := loadConfig(dir)
	require.NoError(t, err)
	assert.Equal(t, "ada", c.Webhooks[0].People["U024BE7LH"])
}

// keysOf lists the YAML keys of a configuration struct, nested ones too.
func keysOf(t reflect.Type) []string {
	var keys []string
	for t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if key := strings.Split(f.Tag.Get("yaml"), ",")[0]; key != "" {
			keys = append(append(keys, key), keysOf(f.Type)...)
		}
	}
	return keys
}

func TestConfigRefusesInWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"presett: solo\n", "line 1: field presett not found"},
		{"preset: yolo\n", `preset "yolo" is not strict, worktree or solo`},
		{"min_level: none\n", `min_level "none" is not full, reduced or minimal`},
		{"idle_exit: soon\n", `line 1: "soon" is not a duration such as 30m`},
		{"approvers: me\n", `approvers "me" is not any, other-process, other-user or role:NAME`},
		{"http: {listem: x}\n", "field listem not found"},
		{"audit: {seal_to: [age1x]}\n", "audit.seal_to: read the keys to seal to"},
		{"audit: {anchors: [carrier-pigeon]}\n", `"carrier-pigeon" is not file:/path`},
		{"audit: {anchors: [\"file:relative\"]}\n", `"file:relative" is not file:/path`},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tc.text), 0o600))
		_, err := loadConfig(dir)
		assert.ErrorContains(t, err, tc.want)
	}
	c, err := loadConfig(t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, "strict", c.Preset)
}

func TestPushTargetsAreRefusedInWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	long, short := secret("long", "0123456789abcdef\n", 0o600), secret("short", "0123:", 0o600)
	for _, tc := range []struct {
		p    pushConfig
		want string
	}{
		{pushConfig{URL: "syslog+udp://host"}, "is not syslog+udp://host:port"},
		{pushConfig{URL: "gopher://x"}, "is not syslog+udp://host:port"},
		{pushConfig{URL: "http://collector.example/x", SecretFile: long}, "is not syslog+udp://host:port"},
		{pushConfig{URL: "https://collector.example/x"}, "needs secret_file"},
		{pushConfig{URL: "https://collector.example/x", SecretFile: short}, "less than 16 bytes"},
		{pushConfig{URL: "https://collector.example/x", SecretFile: secret("open", "0123456789abcdef", 0o644)}, "others can read"},
		{pushConfig{URL: "file:/x", Format: "xml"}, `format "xml" is not record or ocsf`},
		{pushConfig{URL: "s3://b/p", SecretFile: long, Region: "r"}, "ACCESS_KEY:SECRET_KEY"},
		{pushConfig{URL: "s3://b/p", SecretFile: short}, "needs region"},
		{pushConfig{URL: "s3://b/p", SecretFile: short, Region: "r", Endpoint: "http://store.example"}, "is not https://host"},
		{pushConfig{URL: "syslog+tls://host:6514", CA: long}, "holds no certificate"},
	} {
		_, err := tc.p.target()
		assert.ErrorContains(t, err, tc.want)
	}
	for _, ok := range []pushConfig{
		{URL: "syslog+udp://host:514"}, {URL: "syslog+unix:/dev/log"}, {URL: "http://127.0.0.1:1/x", SecretFile: long}, {URL: "file:/x", Format: "ocsf"},
		{URL: "s3://b/p", SecretFile: short, Region: "r", Endpoint: "http://127.0.0.1:9000"},
	} {
		got, err := ok.target()
		require.NoError(t, err)
		assert.NotNil(t, got.Sink)
	}
}

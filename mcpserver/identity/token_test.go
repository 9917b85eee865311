package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func store(t *testing.T) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	s, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s, path
}

var ann = Rights{Agent: "ann", Workspace: "/work/a", MaxTier: policy.L2, Tools: []string{"read_file", "grep"}}

func TestTokenProvesItsRights(t *testing.T) {
	t.Parallel()
	s, path := store(t)
	text, tok, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour, By: "root"})
	require.NoError(t, err)
	id, err := s.Check(noon.Add(time.Minute), text)
	require.NoError(t, err)
	assert.Equal(t, Identity{Rights: ann, Credential: "token:" + tok.ID, Expires: noon.Add(time.Hour)}, id)

	i, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), i.Mode().Perm())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	_, secret, _ := strings.Cut(strings.TrimPrefix(text, Prefix), "_")
	assert.GreaterOrEqual(t, len(secret), 43, "256 bits")
	assert.NotContains(t, string(raw), secret)
}

func TestTokenIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	text, _, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	other, _, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	revoked, tok, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	_, err = s.Revoke(noon, tok.ID)
	require.NoError(t, err)
	cut := strings.LastIndex(text, "_")
	swapped := text[:cut] + other[strings.LastIndex(other, "_"):]
	for name, text := range map[string]string{
		"empty": "", "prefix": Prefix, "no secret": text[:cut], "empty secret": text[:cut+1], "another's secret": swapped,
		"flipped": text[:cut+1] + flip(text[cut+1]) + text[cut+2:], "not base64": text[:len(text)-1] + "!", "without prefix": strings.TrimPrefix(text, Prefix),
		"long": text + "A", "revoked": revoked, "unknown": Prefix + "aaaaaaaaaaaaaaaa" + text[cut:],
	} {
		_, err := s.Check(noon, text)
		assert.ErrorIs(t, err, ErrUnknown, name)
	}
	_, err = s.Check(noon.Add(time.Hour), text)
	assert.ErrorIs(t, err, ErrUnknown, "expired")
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestChildOnlyNarrows(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	_, parent, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	for _, tc := range []struct {
		name  string
		child Rights
		err   string
	}{
		{"the same", ann, ""},
		{"less of all", Rights{Agent: "ann/search", Workspace: "/work/a/sub", MaxTier: policy.L0, Tools: []string{"grep"}}, ""},
		{"no tools at all", Rights{Agent: "ann", Workspace: "/work/a", Tools: []string{}}, ""},
		{"another agent", Rights{Agent: "annette", Workspace: "/work/a", Tools: ann.Tools}, "agent"},
		{"another workspace", Rights{Agent: "ann", Workspace: "/work/b", Tools: ann.Tools}, "workspace"},
		{"a wider workspace", Rights{Agent: "ann", Workspace: "/work", Tools: ann.Tools}, "workspace"},
		{"a workspace that only begins alike", Rights{Agent: "ann", Workspace: "/work/ab", Tools: ann.Tools}, "workspace"},
		{"a way out", Rights{Agent: "ann", Workspace: "/work/a/../b", Tools: ann.Tools}, "workspace"},
		{"a higher tier", Rights{Agent: "ann", Workspace: "/work/a", MaxTier: policy.L3, Tools: ann.Tools}, "tier"},
		{"all tools", Rights{Agent: "ann", Workspace: "/work/a"}, "tools"},
		{"one more tool", Rights{Agent: "ann", Workspace: "/work/a", Tools: []string{"grep", "run_command"}}, "run_command"},
	} {
		_, tok, err := s.Create(noon, Request{Rights: tc.child, Parent: parent.ID, TTL: 48 * time.Hour})
		if tc.err != "" {
			assert.ErrorContains(t, err, tc.err, tc.name)
			continue
		}
		require.NoError(t, err, tc.name)
		assert.Equal(t, parent.Expires, tok.Expires, "a child lives no longer")
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	s, path := store(t)
	_, parent, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	_, child, err := s.Create(noon, Request{Rights: ann, Parent: parent.ID, TTL: time.Hour})
	require.NoError(t, err)
	text, _, err := s.Create(noon, Request{Rights: ann, Parent: child.ID, TTL: time.Hour})
	require.NoError(t, err)
	_, err = s.Check(noon, text)
	require.NoError(t, err)
	_, err = s.Revoke(noon, parent.ID)
	require.NoError(t, err)
	_, err = s.Check(noon, text)
	assert.ErrorIs(t, err, ErrUnknown)
	_, _, err = s.Create(noon, Request{Rights: ann, Parent: child.ID, TTL: time.Hour})
	assert.Error(t, err)
	assert.Empty(t, s.List(noon, false))
	assert.Len(t, s.List(noon, true), 3)

	again, err := Open(path)
	require.NoError(t, err)
	defer again.Close()
	_, err = again.Check(noon, text)
	assert.ErrorIs(t, err, ErrUnknown, "also after a restart")
}

func TestStoreSurvivesATornWrite(t *testing.T) {
	t.Parallel()
	s, path := store(t)
	text, _, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, torn := range []string{"{", `{"id":"x"`} {
		require.NoError(t, os.WriteFile(path, append(whole[:len(whole):len(whole)], torn...), 0o600))
		again, err := Open(path)
		require.NoError(t, err)
		_, err = again.Check(noon, text)
		assert.NoError(t, err)
		second, _, err := again.Create(noon, Request{Rights: ann, TTL: time.Hour})
		require.NoError(t, err)
		require.NoError(t, again.Close())
		again, err = Open(path)
		require.NoError(t, err)
		_, err = again.Check(noon, second)
		assert.NoError(t, err)
		require.NoError(t, again.Close())
	}
}

func TestStoreRefusesToGuess(t *testing.T) {
	t.Parallel()
	_, path := store(t)
	require.NoError(t, os.WriteFile(path, []byte("nonsense\n"), 0o600))
	_, err := Open(path)
	assert.ErrorContains(t, err, "line 1")
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = Open(path)
	assert.ErrorContains(t, err, "chmod 600")
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	s, _ := store(t)
	for name, r := range map[string]Request{
		"no agent":           {Rights: Rights{Workspace: "/w"}, TTL: time.Hour},
		"a spaced agent":     {Rights: Rights{Agent: "a b", Workspace: "/w"}, TTL: time.Hour},
		"relative workspace": {Rights: Rights{Agent: "a", Workspace: "w"}, TTL: time.Hour},
		"the root":           {Rights: Rights{Agent: "a", Workspace: "/"}, TTL: time.Hour},
		"a fifth tier":       {Rights: Rights{Agent: "a", Workspace: "/w", MaxTier: 4}, TTL: time.Hour},
		"no lifetime":        {Rights: Rights{Agent: "a", Workspace: "/w"}},
		"unknown parent":     {Rights: Rights{Agent: "a", Workspace: "/w"}, Parent: "x", TTL: time.Hour},
	} {
		_, _, err := s.Create(noon, r)
		assert.Error(t, err, name)
	}
	_, err := s.Revoke(noon, "x")
	assert.ErrorIs(t, err, ErrNoToken)
}

// FuzzCheck looks for a text other than the token itself that passes for it.
func FuzzCheck(f *testing.F) {
	s, err := Open(filepath.Join(f.TempDir(), "tokens"))
	require.NoError(f, err)
	f.Cleanup(func() { s.Close() })
	text, _, err := s.Create(noon, Request{Rights: ann, TTL: time.Hour})
	require.NoError(f, err)
	cut := strings.LastIndex(text, "_")
	for _, seed := range []string{text, text[:cut], text[cut:], text + "=", strings.ToUpper(text), Prefix + "__", text + "\n", " " + text} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, other string) {
		if _, err := s.Check(noon, other); err == nil && other != text {
			t.Errorf("%q passes for %q", other, text)
		}
	})
}

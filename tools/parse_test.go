package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, raw, want, err string }{
		{"read_file", `{"path":"a"}`, `{"path":"a"}`, ""},
		{"read_file", ` {"limit" : 1e1, "path":"\u0061", "offset": 2.0 } `, `{"limit":10,"offset":2,"path":"a"}`, ""},
		{"read_file", `{"path":"a","offset":null}`, `{"path":"a"}`, ""},
		{"read_file", `{"path":"<&>é"}`, `{"path":"<&>é"}`, ""},
		{"git_status", ``, `{}`, ""},
		{"git_status", `null`, `{}`, ""},
		{"read_file", `{}`, "", "missing path"},
		{"read_file", `{"path":7}`, "", "path: must be a string; got number"},
		{"read_file", `{"path":null}`, "", "missing path"},
		{"read_file", `{"path":""}`, "", "path: "},
		{"read_file", `{"path":"a","limit":1.5}`, "", "limit: must be an integer; got number"},
		{"read_file", `{"path":"a","limit":"10"}`, "", "limit: must be an integer; got string"},
		{"read_file", `{"path":"a","limit":0}`, "", "limit: "},
		{"read_file", `{"path":"a","offset":99999999999999999999}`, "", "offset: "},
		{"read_file", `{"path":"safe","PATH":"evil"}`, "", `PATH: differs from "path" only in case`},
		{"read_file", `{"path":"safe","\u0050ath":"evil"}`, "", "only in case"},
		{"read_file", `{"Path":"a"}`, "", "unknown argument Path; write it path"},
		{"read_file", `{"path":"a","path":"b"}`, "", "path: given twice"},
		{"read_file", `{"path":"a","p\u0061th":"b"}`, "", "path: given twice"},
		{"read_file", `{"path":"a","file":"b"}`, "", "unknown argument file; there are limit, offset, path"},
		{"read_file", `{"path":"a"} {}`, "", "text after the JSON object"},
		{"read_file", `{"path":"a"`, "", "ends too early"},
		{"read_file", `{"path":}`, "", "not valid JSON"},
		{"read_file", `["a"]`, "", "must be a JSON object; got array"},
		{"read_file", `"a"`, "", "must be a JSON object; got string"},
		{"read_file", "{\"path\":\"a\xff\"}", "", "not valid UTF-8"},
		{"read_file", `{"path":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, "", "nested more than"},
		{"read_file", `{"path":"a","offset":1e999999999}`, "", "exponent"},
		{"run_command", `{"command":"x","network":[{"host":"a","port":1,"PORT":2}]}`, "", `network[0].PORT: differs from "port" only in case`},
		{"run_command", `{"command":"x","network":[{"host":"a","port":70000}]}`, "", "network.0.port: "},
		{"run_command", `{"argv":["a",1]}`, "", "argv.1: must be a string; got number"},
		{"grep", `{"pattern":"x","output_mode":"lines"}`, "", "output_mode: must be one of content, files_with_matches, count"},
		{"git_diff", `{"ref":"--output=/etc/x"}`, "", "ref: "},
		{"git_log", `{"ref":"-x"}`, "", "ref: "},
		{"git_commit", `{"message":"  "}`, "", "message: "},
	} {
		tool, ok := Find(tc.tool)
		require.True(t, ok)
		a, err := tool.Parse(json.RawMessage(tc.raw))
		if tc.err == "" {
			require.NoError(t, err, tc.raw)
			assert.Equal(t, tc.want, string(a.Canonical()))
			continue
		}
		var f *Failure
		require.ErrorAs(t, err, &f, tc.raw)
		assert.Equal(t, KindInvalidParameters, f.Kind)
		assert.Equal(t, Fixable, f.Class)
		assert.Contains(t, f.Msg, "arguments of "+tc.tool+": ")
		assert.Contains(t, f.Msg, tc.err, tc.raw)
		assert.NotContains(t, f.Msg, "\n")
	}
	tool, _ := Find("write_file")
	_, err := tool.Parse(json.RawMessage(`{"path":"a","content":"` + strings.Repeat("x", maxArgs) + `"}`))
	assert.ErrorContains(t, err, "bytes are more than")
	_, err = tool.Plan(Args{tool: "read_file"}, Place{})
	assert.Error(t, err)
}

// FuzzParse checks what Parse accepts against a second reader that keeps every
// key as it was written: no object may hold two keys that fold to one, the
// canonical text must be a fixed point, and encoding/json must read the same
// values from the raw and from the canonical text.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		`{"path":"a","offset":1}`, `{"path":"a","PATH":"b"}`, `{"command":"x","network":[{"host":"h","port":1}]}`,
		`{"pattern":"x","-A":1e0,"-i":true}`, `{"path":"a","offset":-0.0}`, `{"argv":["a","b"],"k":{"K":1,"\u212a":2}}`,
	} {
		for i := range All() {
			f.Add(i, []byte(raw))
		}
	}
	all := All()
	f.Fuzz(func(t *testing.T, i int, raw []byte) {
		tool := all[(i%len(all)+len(all))%len(all)]
		a, err := tool.Parse(raw)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		again, err := tool.Parse(a.Canonical())
		require.NoError(t, err)
		require.Equal(t, string(a.Canonical()), string(again.Canonical()))
		if len(bytes.TrimSpace(raw)) == 0 {
			return
		}
		require.NoError(t, uniqueKeys(json.NewDecoder(bytes.NewReader(raw))))
		require.Equal(t, looseValues(t, raw), looseValues(t, a.Canonical()))
		_, err = tool.Plan(a, Place{Root: "/w", Exists: func(string) bool { return true }})
		if err != nil {
			require.IsType(t, &Failure{}, err)
		}
	})
}

// uniqueKeys walks the token stream and compares each object's keys pairwise.
func uniqueKeys(d *json.Decoder) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	var keys []string
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			for _, k := range keys {
				if strings.EqualFold(k, key.(string)) {
					return fmt.Errorf("%q and %q", k, key)
				}
			}
			keys = append(keys, key.(string))
		}
		if err := uniqueKeys(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func looseValues(t *testing.T, raw []byte) map[string]any {
	var v map[string]any
	require.NoError(t, json.Unmarshal(raw, &v))
	for k := range v {
		if v[k] == nil {
			delete(v, k)
		}
	}
	return v
}

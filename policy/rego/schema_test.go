package rego

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the input schema from the Go types, keeping its descriptions")

// The schema that rules are checked against says exactly what the Go types say.
func TestSchemaIsTheInput(t *testing.T) {
	file := filepath.Join("..", "..", "policies", "schema", "input.json")
	want := schemaOf(reflect.TypeFor[Input](), true)
	want["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	want["title"] = "Input of a policy rule, version 1"

	var have map[string]any
	if text, err := os.ReadFile(file); err == nil {
		require.NoError(t, json.Unmarshal(text, &have))
	}
	if *update {
		describe(want, have)
		text, err := json.MarshalIndent(want, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
		return
	}
	undescribed := []string{}
	strip(have, "", &undescribed)
	wantText, err := json.MarshalIndent(want, "", "  ")
	require.NoError(t, err)
	haveText, err := json.MarshalIndent(have, "", "  ")
	require.NoError(t, err)
	assert.JSONEq(t, string(wantText), string(haveText), "run `go test ./policy/rego -run TestSchemaIsTheInput -update`, then describe what is new")
	assert.Empty(t, undescribed, "properties without a description")
}

func schemaOf(t reflect.Type, top bool) map[string]any {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem(), false)
	}
	if t.Implements(textType) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), false)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), false)}
	}
	properties := map[string]any{}
	required := []any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := schemaOf(f.Type, false)
			for k, v := range inner["properties"].(map[string]any) {
				properties[k] = v
			}
			required = append(required, inner["required"].([]any)...)
			continue
		}
		properties[name] = schemaOf(f.Type, false)
		if f.Type.Kind() != reflect.Pointer && !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}

// describe copies descriptions from an older schema.
func describe(to, from map[string]any) {
	if d, ok := from["description"]; ok {
		to["description"] = d
	}
	for key, v := range to {
		next, ok := v.(map[string]any)
		old, had := from[key].(map[string]any)
		if ok && had {
			describe(next, old)
		}
	}
}

// strip removes descriptions and lists properties that had none.
func strip(s map[string]any, path string, missing *[]string) {
	delete(s, "description")
	for key, v := range s {
		next, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if key != "properties" {
			strip(next, path, missing)
			continue
		}
		for name, p := range next {
			property := p.(map[string]any)
			if _, ok := property["description"]; !ok {
				*missing = append(*missing, path+name)
			}
			strip(property, path+name+".", missing)
		}
	}
}

// The reference in docs/policy.md names every part of the input and says what
// the schema says of it.
func TestReferenceIsTheSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "policies", "schema", "input.json"))
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	require.NoError(t, err)
	var walk func(schema map[string]any, prefix string)
	walk = func(schema map[string]any, prefix string) {
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property := p.(map[string]any)
			row := "| `" + prefix + name + "` |"
			assert.Contains(t, string(page), row)
			assert.Contains(t, string(page), property["description"].(string)+" |", row)
			walk(property, prefix+name+".")
			if items, ok := property["items"].(map[string]any); ok {
				walk(items, prefix+name+"[_].")
			}
		}
	}
	walk(schema, "input.")
}

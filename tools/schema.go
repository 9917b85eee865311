package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

func compact(schema string) json.RawMessage {
	var buf bytes.Buffer
	if err := json.Compact(&buf, []byte(schema)); err != nil {
		panic("tools: a schema is not JSON: " + err.Error())
	}
	return buf.Bytes()
}

func compile(name string, schema json.RawMessage) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		panic("tools: the schema of " + name + ": " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(name, doc); err != nil {
		panic("tools: the schema of " + name + ": " + err.Error())
	}
	return c.MustCompile(name)
}

// explain turns a validation error into one sentence per wrong argument, at
// most three.
func explain(err error, t Tool) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	var lines []string
	for _, leaf := range leaves(v) {
		if line := explainOne(leaf, t); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	if len(lines) > 3 {
		lines = append(lines[:3], fmt.Sprintf("and %d more", len(lines)-3))
	}
	return errors.New(strings.Join(lines, "; "))
}

func leaves(v *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(v.Causes) == 0 {
		return []*jsonschema.ValidationError{v}
	}
	var out []*jsonschema.ValidationError
	for _, c := range v.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

func explainOne(v *jsonschema.ValidationError, t Tool) string {
	at := strings.Join(v.InstanceLocation, ".")
	prefix := ""
	if at != "" {
		prefix = at + ": "
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%smust be %s; got %s", prefix, article(strings.Join(k.Want, " or ")), k.Got)
	case *kind.Required:
		return prefix + "missing " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties:
		return prefix + unknown(k.Properties, at, t)
	case *kind.Enum:
		return fmt.Sprintf("%smust be one of %s", prefix, words(k.Want))
	case *kind.Not:
		return prefix + "these arguments do not go together"
	}
	return prefix + v.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

func words(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

func article(noun string) string {
	if strings.IndexByte("aeio", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}

// unknown names arguments that do not exist and those that do.
func unknown(names []string, at string, t Tool) string {
	for i := range names {
		names[i] = clipped(names[i], 100)
	}
	text := "unknown argument " + strings.Join(names, ", ")
	if at != "" {
		return text
	}
	known := slices.Sorted(func(yield func(string) bool) {
		for k := range t.schema.Properties {
			if !yield(k) {
				return
			}
		}
	})
	for _, k := range known {
		if folded(k) == folded(names[0]) {
			return text + "; write it " + k
		}
	}
	return text + "; there are " + strings.Join(known, ", ")
}

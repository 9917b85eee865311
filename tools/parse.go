package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"unicode/utf8"
)

// Bounds of the arguments of one call.
const (
	maxArgs  = 16 << 20 // bytes
	maxNests = 16       // levels of objects and arrays
)

// Args are validated arguments of one tool. There is one value: what is judged,
// digested and recorded (Canonical) is what Plan works on.
type Args struct {
	tool      string
	canonical json.RawMessage
	value     any
}

// Canonical is the one JSON text of the arguments: keys sorted, no spaces,
// whole numbers without point or exponent, top-level nulls left out.
func (a Args) Canonical() json.RawMessage { return a.canonical }

// Parse reads arguments strictly: one JSON object that fits the schema, with no
// unknown key, no key twice at any depth and none that differs from another
// only in case. An absent or null argument object counts as empty, and a
// top-level null as not given. The error is a *Failure.
func (t Tool) Parse(raw json.RawMessage) (Args, error) {
	args, err := t.parse(raw)
	if err != nil {
		return Args{}, invalid(fmt.Sprintf("arguments of %s: %v", t.Name, err), "correct the arguments as the tool's input schema says and call again")
	}
	return args, nil
}

func (t Tool) parse(raw json.RawMessage) (Args, error) {
	obj, err := strictObject(raw)
	if err != nil {
		return Args{}, err
	}
	for k, v := range obj {
		if v == nil {
			delete(obj, k)
		}
	}
	if err := explain(t.schema.Validate(obj), t); err != nil {
		return Args{}, err
	}
	canonical, err := canonicalJSON(obj)
	if err != nil {
		return Args{}, err
	}
	v, err := t.decode(canonical)
	if err != nil {
		return Args{}, fmt.Errorf("read the values: %w", err)
	}
	return Args{tool: t.Name, canonical: canonical, value: v}, nil
}

// Strict decodes the arguments of a tool that is not in All, as strictly as
// Parse but for a schema: v is a pointer to a struct. The error is a *Failure.
func Strict(raw json.RawMessage, v any) error {
	obj, err := strictObject(raw)
	var canonical json.RawMessage
	if err == nil {
		canonical, err = canonicalJSON(obj)
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(canonical))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err != nil {
		return invalid(fmt.Sprintf("arguments: %v", err), "correct the arguments as the tool's input schema says and call again")
	}
	return nil
}

// canonicalJSON writes v with sorted keys.
func canonicalJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the arguments: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// strictObject decodes raw into maps, slices, strings, booleans, nil and
// json.Number, and refuses what two readers might read differently.
func strictObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > maxArgs {
		return nil, fmt.Errorf("%d bytes are more than the %d allowed; send less at once", len(raw), maxArgs)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := strictValue(d, "", 0)
	if err != nil {
		return nil, readable(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is text after the JSON object")
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be a JSON object; got %s", kindName(v))
	}
	return obj, nil
}

func readable(err error) error {
	var syn *json.SyntaxError
	if errors.As(err, &syn) {
		return fmt.Errorf("not valid JSON at byte %d: %v", syn.Offset, syn)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: it ends too early")
	}
	return err
}

func strictValue(d *json.Decoder, at string, depth int) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if depth >= maxNests {
			return nil, fmt.Errorf("nested more than %d levels deep", maxNests)
		}
		if tok == '{' {
			return strictMap(d, at, depth+1)
		}
		return strictSlice(d, at, depth+1)
	case json.Number:
		return plainNumber(tok, at)
	}
	return tok, nil
}

func strictMap(d *json.Decoder, at string, depth int) (any, error) {
	obj := map[string]any{}
	seen := map[string]string{} // lower case to the key as it was written
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, errors.New("not valid JSON: a key is no string")
		}
		name := under(at, key)
		if before, ok := seen[folded(key)]; ok {
			if before == key {
				return nil, fmt.Errorf("%s: given twice", name)
			}
			return nil, fmt.Errorf("%s: differs from %q only in case", name, before)
		}
		seen[folded(key)] = key
		if obj[key], err = strictValue(d, name, depth); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return obj, err
}

func strictSlice(d *json.Decoder, at string, depth int) (any, error) {
	items := []any{}
	for d.More() {
		v, err := strictValue(d, fmt.Sprintf("%s[%d]", at, len(items)), depth)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return items, err
}

func under(at, key string) string {
	if at == "" {
		return clipped(key, 100)
	}
	return at + "." + clipped(key, 100)
}

// folded makes keys that encoding/json would take for one another equal: it
// folds case as Unicode does (so "K" and the Kelvin sign are one).
func folded(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// plainNumber gives whole numbers one spelling: 10, 10.0 and 1e1 are 10.
func plainNumber(n json.Number, at string) (any, error) {
	if len(n) > 64 {
		return nil, fmt.Errorf("%s: the number has more than 64 characters", at)
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 && len(n)-i > 4 {
		return nil, fmt.Errorf("%s: the number's exponent is too large", at)
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil, fmt.Errorf("%s: not a number", at)
	}
	if r.IsInt() {
		return json.Number(r.Num().String()), nil
	}
	return n, nil
}

func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

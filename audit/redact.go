package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Redact replaces the secrets in a text by placeholders, as Append does in a
// record: exact known values, known formats, values of tell-tale names, and
// strings too random to be anything else. A placeholder reads
// [redacted:RULE:HMAC8:LEN]; equal values give equal ones in one log.
func (r *Reader) Redact(text string) string {
	out, _ := r.redactText(text)
	return out
}

// placeholder stands for a secret. The digest is keyed: a bare hash of a short
// secret could be guessed.
func (r *Reader) placeholder(rule, secret string) string {
	return fmt.Sprintf("[redacted:%s:%s:%d]", rule, hex.EncodeToString(r.mac("placeholder", []byte(secret))[:4]), len(secret))
}

// hit is a secret in a text: text[from:to], found by rule.
type hit struct {
	from, to int
	rule     string
}

// redactText replaces every secret in text.
func (r *Reader) redactText(text string) (string, bool) {
	if len(text) < shortestSecret {
		return text, false
	}
	if inner, ok := encodedText(text); ok {
		out, changed := r.redactText(inner)
		if changed {
			return base64.StdEncoding.EncodeToString([]byte(out)), true
		}
		return r.redactName(text)
	}
	hits := r.knownHits(text)
	hits = findAssigned(text, hits)
	hits = findRandom(text, hits)
	return r.replace(text, hits)
}

// redactName replaces known values and formats only: an identifier that others
// made is random by nature and must stay what it is to be found again.
func (r *Reader) redactName(text string) (string, bool) {
	return r.replace(text, r.knownHits(text))
}

func (r *Reader) knownHits(text string) []hit {
	return findFormats(text, r.exact.find(text, nil))
}

func (r *Reader) replace(text string, hits []hit) (string, bool) {
	slices.SortStableFunc(hits, func(a, b hit) int { return a.from - b.from })
	var out strings.Builder
	done := 0
	for i := 0; i < len(hits); {
		h := hits[i]
		for i++; i < len(hits) && hits[i].from < h.to; i++ { // overlapping hits become one
			h.to = max(h.to, hits[i].to)
			if h.rule == "random" {
				h.rule = hits[i].rule
			}
		}
		if isPlaceholder(text, h) {
			continue
		}
		out.WriteString(text[done:h.from])
		out.WriteString(r.placeholder(h.rule, text[h.from:h.to]))
		done = h.to
	}
	out.WriteString(text[done:])
	return out.String(), done > 0
}

// isPlaceholder reports whether a hit is inside of a placeholder already.
func isPlaceholder(text string, h hit) bool {
	open := strings.LastIndex(text[:h.to], "[redacted:")
	return open >= 0 && (open >= h.from || !strings.Contains(text[open:h.from], "]"))
}

// encodedText decodes a text that is base64 as a whole, as file contents are in
// JSON, when what it holds is text.
func encodedText(text string) (string, bool) {
	if len(text) < 16 || len(text)%4 != 0 || strings.ContainsAny(text[:16], " /.:{<") {
		return "", false
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || !utf8.Valid(plain) || bytes.IndexFunc(plain, unprintable) >= 0 {
		return "", false
	}
	return string(plain), true
}

func unprintable(c rune) bool { return c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f }

// redactRecord replaces the secrets in the fields of rec that are not plain, and
// adds the JSON pointers of what it replaced to rec.Redacted.
func (r *Reader) redactRecord(rec *Record) {
	var pointers []string
	v := reflect.ValueOf(rec).Elem()
	for _, f := range looked {
		field := v.Field(f.index)
		switch {
		case field.IsZero():
		case f.class == name:
			if text, changed := r.redactName(field.String()); changed {
				field.SetString(text)
				pointers = append(pointers, f.pointer)
			}
		default:
			r.redactValue(field, f.pointer, &pointers)
		}
	}
	if len(pointers) > 0 {
		rec.Redacted = append(slices.Clip(rec.Redacted), pointers...)
	}
}

// lookedAt is a field of Record that is not plain.
type lookedAt struct {
	index   int
	pointer string
	class   class
}

var looked = fieldsLookedAt()

func fieldsLookedAt() []lookedAt {
	var out []lookedAt
	for i := range reflect.TypeFor[Record]().NumField() {
		f := reflect.TypeFor[Record]().Field(i)
		if c := fieldClasses[f.Name]; c != plain {
			out = append(out, lookedAt{i, "/" + jsonName(f), c})
		}
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// redactValue redacts v in a fresh copy, since the caller may go on using what
// it passed.
func (r *Reader) redactValue(v reflect.Value, pointer string, pointers *[]string) {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes(r.redactJSON(value, pointer, pointers))
	case map[string]string:
		out := make(map[string]string, len(value))
		for k, text := range value {
			out[k] = r.redactNamed(k, text, pointer+"/"+escapePointer(k), pointers)
		}
		v.Set(reflect.ValueOf(out))
	case []string, []Output, []Change:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(out, v)
		for i := range out.Len() {
			r.redactValue(out.Index(i), pointer+"/"+strconv.Itoa(i), pointers)
		}
		v.Set(out)
	default:
		if v.Kind() == reflect.String {
			v.SetString(r.redactNamed("", v.String(), pointer, pointers))
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if fieldClasses[v.Type().Name()+"."+f.Name] != plain {
				r.redactValue(v.Field(i), pointer+"/"+jsonName(f), pointers)
			}
		}
	}
}

// redactJSON redacts every string in a JSON value; what is not JSON is kept as
// a JSON string, so that nothing is lost.
func (r *Reader) redactJSON(raw json.RawMessage, pointer string, pointers *[]string) json.RawMessage {
	if r.clean(raw) {
		return slices.Clone(raw)
	}
	return r.redactJSONValue(raw, pointer, pointers)
}

// redactJSONValue is redactJSON by way of the value.
func (r *Reader) redactJSONValue(raw json.RawMessage, pointer string, pointers *[]string) json.RawMessage {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil || dec.More() {
		v = string(raw)
	}
	v = r.redactAny("", v, pointer, pointers)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // cannot be: v came from JSON
		return json.RawMessage(strconv.Quote("unreadable: " + err.Error()))
	}
	return bytes.TrimSpace(out.Bytes())
}

func (r *Reader) redactAny(name string, v any, pointer string, pointers *[]string) any {
	switch v := v.(type) {
	case string:
		return r.redactNamed(name, v, pointer, pointers)
	case json.Number:
		if secretName(name) && len(v) >= shortestSecret {
			return r.redactNamed(name, v.String(), pointer, pointers)
		}
	case []any:
		for i := range v {
			v[i] = r.redactAny(name, v[i], pointer+"/"+strconv.Itoa(i), pointers)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			clean, changed := r.redactText(k)
			value := r.redactAny(k, v[k], pointer+"/"+escapePointer(clean), pointers)
			if changed {
				delete(v, k)
				*pointers = append(*pointers, pointer)
			}
			v[clean] = value
		}
	}
	return v
}

// redactNamed redacts a text that has a name: all of it when the name tells of
// a secret.
func (r *Reader) redactNamed(name, text, pointer string, pointers *[]string) string {
	if text == "" {
		return text
	}
	out, changed := text, false
	if secretName(name) && !harmlessValue(text) {
		out, changed = r.placeholder("name", text), true
	} else {
		out, changed = r.redactText(text)
	}
	if len(out) > longestText {
		out, changed = r.cut(out), true
	}
	if changed {
		*pointers = append(*pointers, pointer)
	}
	return out
}

// longestText bounds one text in a record, in bytes. A whole file that was
// written is better kept as its digest than twice in the log.
const longestText = 256 << 10

// cut keeps the beginning of a text and its keyed digest.
func (r *Reader) cut(text string) string {
	if inner, ok := encodedText(text); ok {
		return base64.StdEncoding.EncodeToString([]byte(r.cut(inner)))
	}
	return clip(text, longestText/8) + fmt.Sprintf("[cut:%s:%d]", hex.EncodeToString(r.mac("cut", []byte(text))[:8]), len(text))
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(k string) string { return pointerEscapes.Replace(k) }

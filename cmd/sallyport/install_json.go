package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonDoc is a JSON file that is changed where it must be and nowhere else: its
// owner's indentation, order, comments and trailing commas stay.
type jsonDoc struct {
	root hujson.Value
	unit string // one step of indentation
	eol  string
}

// parseJSON reads a file; an empty one is an empty object.
func parseJSON(b []byte) (*jsonDoc, error) {
	d := &jsonDoc{unit: "  ", eol: "\n"}
	if bytes.Contains(b, []byte("\r\n")) {
		d.eol = "\r\n"
	}
	if len(bytes.TrimSpace(b)) == 0 {
		b = []byte("{}\n")
	}
	root, err := hujson.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w (mend it first; nothing was changed)", err)
	}
	d.root = root
	o, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("it is not a JSON object (mend it first; nothing was changed)")
	}
	if len(o.Members) > 0 {
		extra := string(o.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(extra, '\n'); i >= 0 && strings.Trim(extra[i+1:], " \t") == "" && extra[i+1:] != "" {
			d.unit = extra[i+1:]
		}
	}
	return d, nil
}

func (d *jsonDoc) bytes() []byte { return d.root.Pack() }

// list is an object or an array: a place for items.
type list struct {
	depth  int  // of its items
	inline bool // written on one line
	object *hujson.Object
	array  *hujson.Array
}

func (l list) len() int {
	if l.object != nil {
		return len(l.object.Members)
	}
	return len(l.array.Elements)
}

func (l list) after() *hujson.Extra {
	if l.object != nil {
		return &l.object.AfterExtra
	}
	return &l.array.AfterExtra
}

// oneLine reports whether a list is written on one line; an empty one is
// written as what it stands in.
func (l list) oneLine(parent bool) bool {
	if l.len() == 0 {
		return parent
	}
	var first *hujson.Extra
	if l.object != nil {
		first = &l.object.Members[0].Name.BeforeExtra
	} else {
		first = &l.array.Elements[0].BeforeExtra
	}
	return !bytes.ContainsRune(*first, '\n') && !bytes.ContainsRune(*l.after(), '\n')
}

// at is the list at a path of member names. With make it is made where it is
// missing, the last one as an array if wanted; without, ok is false.
func (d *jsonDoc) at(path []string, array, make bool) (l list, ok bool, err error) {
	v := &d.root
	l.inline = false
	for i := 0; ; i++ {
		l.object, l.array = nil, nil
		switch x := v.Value.(type) {
		case *hujson.Object:
			l.object = x
		case *hujson.Array:
			l.array = x
		}
		if isArray := array && i == len(path); isArray && l.array == nil || !isArray && l.object == nil {
			return l, false, fmt.Errorf("%q is not what it should be there (an object or a list)", strings.Join(path[:i], "."))
		}
		l.depth, l.inline = i+1, l.oneLine(l.inline)
		if i == len(path) {
			return l, true, nil
		}
		m := member(l.object, path[i])
		if m == nil {
			if !make {
				return l, false, nil
			}
			empty := any(struct{}{})
			if array && i == len(path)-1 {
				empty = []any{}
			}
			if err := d.add(l, path[i], empty); err != nil {
				return l, false, err
			}
			m = member(l.object, path[i])
		}
		v = &m.Value
	}
}

func member(o *hujson.Object, name string) *hujson.ObjectMember {
	for i := range o.Members {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			return &o.Members[i]
		}
	}
	return nil
}

// set gives the object at path the members of value, which encodes as an object.
// Other members of it stay. It reports whether that changed anything.
func (d *jsonDoc) set(path []string, value any) (bool, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	want, err := hujson.Parse(raw)
	if err != nil {
		return false, err
	}
	parent, _, err := d.at(path[:len(path)-1], false, true)
	if err != nil {
		return false, err
	}
	last := path[len(path)-1]
	if member(parent.object, last) == nil {
		return true, d.add(parent, last, value)
	}
	l, _, err := d.at(path, false, false)
	if err != nil {
		return false, err
	}
	changed := false
	for _, m := range want.Value.(*hujson.Object).Members {
		name := m.Name.Value.(hujson.Literal).String()
		have := member(l.object, name)
		switch {
		case have == nil:
			if err := d.add(l, name, decoded(m.Value)); err != nil {
				return false, err
			}
		case reflect.DeepEqual(decoded(have.Value), decoded(m.Value)):
			continue
		default:
			v, err := d.render(decoded(m.Value), l)
			if err != nil {
				return false, err
			}
			have.Value.Value = v.Value
		}
		changed = true
	}
	return changed, nil
}

// include adds to the array at path the values that it lacks.
func (d *jsonDoc) include(path []string, values ...any) (bool, error) {
	l, _, err := d.at(path, true, true)
	if err != nil {
		return false, err
	}
	changed := false
	for _, v := range values {
		if !slices.ContainsFunc(l.array.Elements, func(e hujson.Value) bool { return same(decoded(e), v) }) {
			changed = true
			if err := d.add(l, "", v); err != nil {
				return false, err
			}
		}
	}
	return changed, nil
}

// unset removes the member at path.
func (d *jsonDoc) unset(path []string) error {
	l, ok, err := d.at(path[:len(path)-1], false, false)
	if err != nil || !ok {
		return err
	}
	for i, m := range l.object.Members {
		if m.Name.Value.(hujson.Literal).String() == path[len(path)-1] {
			l.object.Members = slices.Delete(l.object.Members, i, i+1)
			return nil
		}
	}
	return nil
}

// exclude removes values from the array at path.
func (d *jsonDoc) exclude(path []string, values ...any) error {
	l, ok, err := d.at(path, true, false)
	if err != nil || !ok {
		return err
	}
	l.array.Elements = slices.DeleteFunc(l.array.Elements, func(e hujson.Value) bool {
		return slices.ContainsFunc(values, func(v any) bool { return same(decoded(e), v) })
	})
	return nil
}

// add puts one item at the end of a list, written as the list is.
func (d *jsonDoc) add(l list, name string, value any) error {
	v, err := d.render(value, l)
	if err != nil {
		return err
	}
	var last *hujson.Value
	if n := l.len(); n > 0 && l.object != nil {
		last = &l.object.Members[n-1].Value
	} else if n > 0 {
		last = &l.array.Elements[n-1]
	}
	if last != nil && last.AfterExtra != nil { // the list ends with a comma
		v.AfterExtra = hujson.Extra{}
	}
	before := d.room(l)
	if l.array != nil {
		v.BeforeExtra = before
		l.array.Elements = append(l.array.Elements, v)
		return nil
	}
	v.BeforeExtra = hujson.Extra(" ")
	l.object.Members = append(l.object.Members, hujson.ObjectMember{
		Name: hujson.Value{BeforeExtra: before, Value: hujson.String(name)}, Value: v,
	})
	return nil
}

// room is the white space before a new last item. What stood behind the item
// that was the last, such as a comment, stays behind that.
func (d *jsonDoc) room(l list) hujson.Extra {
	after := l.after()
	if l.inline {
		if l.len() == 0 {
			return nil
		}
		return hujson.Extra(" ")
	}
	kept := bytes.TrimRight(*after, " \t\r\n")
	before := slices.Concat(kept, []byte(d.eol+strings.Repeat(d.unit, l.depth)))
	*after = hujson.Extra(d.eol + strings.Repeat(d.unit, l.depth-1))
	return before
}

// render is a value as an item of a list is written.
func (d *jsonDoc) render(value any, l list) (hujson.Value, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(strings.Repeat(d.unit, l.depth), d.unit)
	if err := e.Encode(value); err != nil {
		return hujson.Value{}, err
	}
	text := strings.TrimSpace(b.String())
	if l.inline {
		text = onOneLine(text)
	}
	v, err := hujson.Parse([]byte(strings.ReplaceAll(text, "\n", d.eol)))
	v.BeforeExtra, v.AfterExtra = nil, nil
	return v, err
}

// onOneLine joins the lines of indented JSON.
func onOneLine(text string) string {
	var b strings.Builder
	for line := range lines(text) {
		line = strings.TrimLeft(line, " \t")
		if b.Len() > 0 && strings.HasSuffix(b.String(), ",") {
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

// decoded is a value as encoding/json sees it.
func decoded(v hujson.Value) any {
	v = v.Clone()
	v.Standardize()
	var out any
	if json.Unmarshal(v.Pack(), &out) != nil {
		return nil
	}
	return out
}

// same compares a decoded value with any that encodes to it.
func same(have, want any) bool {
	raw, err := json.Marshal(want)
	if err != nil {
		return false
	}
	var w any
	return json.Unmarshal(raw, &w) == nil && reflect.DeepEqual(have, w)
}

package audit

import (
	"bytes"
	"encoding/json"
)

// textMatch looks for a text in stored bytes: in the form JSON gives it, with
// small ASCII letters standing for capitals too.
type textMatch struct {
	want []byte
	// low and high are the two forms of want[pivot], the byte of want that is
	// rarest in JSON text.
	pivot     int
	low, high byte
}

func newTextMatch(text string) textMatch {
	if text == "" {
		return textMatch{}
	}
	quoted := quotedJSON(text)
	m := textMatch{want: quoted[1 : len(quoted)-1]}
	for i, c := range m.want {
		if rarity(c) > rarity(m.want[m.pivot]) {
			m.pivot = i
		}
	}
	m.low = m.want[m.pivot]
	m.high = upper(m.low)
	return m
}

// quotedJSON is a text as encodeBody writes it.
func quotedJSON(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// rarity ranks bytes by how seldom they are in records of commands and paths.
func rarity(c byte) int {
	switch {
	case bytes.IndexByte([]byte(`"etaoinsrl:,/.`), c) >= 0:
		return 0
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return 1
	}
	return 2
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// in reports whether raw has the text.
func (m *textMatch) in(raw []byte) bool {
	if len(m.want) == 0 {
		return true
	}
	return m.find(raw, m.low) || m.high != m.low && m.find(raw, m.high)
}

// find looks for the text where its pivot is the byte c.
func (m *textMatch) find(raw []byte, c byte) bool {
	for at := m.pivot; at < len(raw); at++ {
		i := bytes.IndexByte(raw[at:], c)
		if i < 0 {
			return false
		}
		at += i
		if m.at(raw, at-m.pivot) {
			return true
		}
	}
	return false
}

func (m *textMatch) at(raw []byte, start int) bool {
	if start+len(m.want) > len(raw) {
		return false
	}
	for i, w := range m.want {
		if c := raw[start+i]; c != w && c != upper(w) {
			return false
		}
	}
	return true
}

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// stamp is what the log adds to a record when it gives it a place.
type stamp struct {
	seq  Seq
	at   time.Time
	mono time.Duration
	boot string
}

// unstamped encodes every field of a Record but those of stamp and Version.
type unstamped struct {
	*Record
	Version *struct{} `json:"v,omitempty"`
	Seq     *struct{} `json:"seq,omitempty"`
	Time    *struct{} `json:"time,omitempty"`
	Mono    *struct{} `json:"mono,omitempty"`
	Boot    *struct{} `json:"boot,omitempty"`
}

// encodeBody is the part of a stored record that does not depend on its place:
// a JSON object without Version, Seq, Time, Mono and Boot. Characters special
// to HTML are kept as they are, so that a text search can look at stored bytes.
func encodeBody(r *Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(unstamped{Record: r}); err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeStored joins stamp and body to the bytes that are stored and hashed.
// The stamp's form is fixed, so that it can be read without decoding.
func encodeStored(s stamp, body []byte) []byte {
	out := make([]byte, 0, len(body)+128)
	out = append(out, `{"v":`...)
	out = strconv.AppendInt(out, RecordVersion, 10)
	out = append(out, `,"seq":`...)
	out = strconv.AppendUint(out, uint64(s.seq), 10)
	out = append(out, `,"time":"`...)
	out = s.at.UTC().AppendFormat(out, time.RFC3339Nano)
	out = append(out, `","mono":`...)
	out = strconv.AppendInt(out, int64(s.mono), 10)
	out = append(out, `,"boot":"`...)
	out = append(out, s.boot...)
	out = append(out, `",`...)
	return append(out, body[1:]...)
}

// Decode reads a stored record. It refuses unknown fields, another version and
// trailing bytes, so that nothing in a record is out of a reader's sight.
func Decode(raw []byte) (Record, error) {
	var r Record
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("decode the record: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("decode the record: bytes after its end")
	}
	if r.Version != RecordVersion {
		return Record{}, fmt.Errorf("decode the record: version %d is not %d; use the sallyport that wrote it", r.Version, RecordVersion)
	}
	return r, nil
}

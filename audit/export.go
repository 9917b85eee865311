package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Format is the form of an export.
type Format string

// The formats.
const (
	// FormatJSONL is a line with the checkpoint, then a line with record and
	// proof for each: CheckExport verifies it without the log.
	FormatJSONL Format = "jsonl"
	FormatCSV   Format = "csv"
	FormatOCSF  Format = "ocsf"  // OCSF 1.8.0 API Activity, one JSON object a line
	FormatTrace Format = "trace" // execution_trace.json: one document of sessions and steps
)

// Export writes the records that f chooses. What was redacted in the log is
// redacted in every format.
func (r *Reader) Export(ctx context.Context, w io.Writer, format Format, f Filter) error {
	buf := bufio.NewWriter(w)
	var err error
	switch format {
	case FormatJSONL:
		err = r.exportJSONL(ctx, buf, f)
	case FormatCSV:
		err = r.exportCSV(ctx, buf, f)
	case FormatOCSF:
		err = r.exportOCSF(ctx, buf, f)
	case FormatTrace:
		err = r.exportTrace(ctx, buf, f)
	default:
		err = fmt.Errorf("format %q is not jsonl, csv, ocsf or trace", format)
	}
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return fmt.Errorf("export the audit log: %w", err)
	}
	return nil
}

// encoder writes one JSON value a line, HTML characters as they are.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// each is Select with a function that can fail.
func (r *Reader) each(ctx context.Context, f Filter, fn func(Record) error) error {
	var failed error
	err := r.Select(ctx, f, func(rec Record) bool {
		failed = fn(rec)
		return failed == nil
	})
	return errors.Join(failed, err)
}

func (r *Reader) exportJSONL(ctx context.Context, w io.Writer, f Filter) error {
	signed, err := r.Checkpoint()
	if err != nil {
		return err
	}
	cp, err := openCheckpoint(signed, r.known)
	if err != nil {
		return err
	}
	enc := encoder(w)
	if err := enc.Encode(Proof{Size: cp.size, Checkpoint: string(signed), Keys: r.publicKeys()}); err != nil {
		return err
	}
	hashes := &manyHashes{r, map[int64]tlog.Hash{}}
	return r.eachStored(ctx, f, func(seq Seq, raw []byte) error {
		if int64(seq) >= cp.size {
			return nil // younger than the checkpoint
		}
		p, err := proveRaw(cp, seq, raw, hashes)
		if err != nil {
			return err
		}
		return enc.Encode(p)
	})
}

// CheckExport verifies a FormatJSONL export against the keys to trust and
// returns how many records it proves to be in the log.
func CheckExport(r io.Reader, keys []string) (records int, err error) {
	known, err := newKeyRing(keys)
	if err != nil {
		return 0, fmt.Errorf("check the export: read the keys to trust: %w", err)
	}
	dec := json.NewDecoder(r)
	var head Proof
	if err := dec.Decode(&head); err != nil {
		return 0, fmt.Errorf("check the export: %w", err)
	}
	cp, err := openCheckpoint([]byte(head.Checkpoint), known)
	if err != nil {
		return 0, fmt.Errorf("check the export: %w", err)
	}
	for ; ; records++ {
		var p Proof
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return records, fmt.Errorf("check the export: %w", err)
		}
		path := make(tlog.RecordProof, len(p.Hashes))
		for i, h := range p.Hashes {
			if len(h) != tlog.HashSize {
				return records, fmt.Errorf("check the export: the proof of record %d is malformed", p.Seq)
			}
			path[i] = tlog.Hash(h)
		}
		if err := tlog.CheckRecord(path, cp.size, cp.root, int64(p.Seq), tlog.RecordHash([]byte(p.Record))); err != nil {
			return records, fmt.Errorf("check the export: record %d is not proven: %w", p.Seq, err)
		}
	}
}

// columns of a CSV export, in order.
var columns = []struct {
	name  string
	value func(*Record) string
}{
	{"seq", func(r *Record) string { return strconv.FormatUint(uint64(r.Seq), 10) }},
	{"time", func(r *Record) string { return r.Time.Format(time.RFC3339Nano) }},
	{"kind", func(r *Record) string { return string(r.Kind) }},
	{"event", func(r *Record) string { return r.Event }},
	{"call", func(r *Record) string { return r.Call }},
	{"session", func(r *Record) string { return r.Session }},
	{"agent", func(r *Record) string { return r.Agent }},
	{"user", func(r *Record) string { return r.User }},
	{"tool", func(r *Record) string { return r.Tool }},
	{"tier", func(r *Record) string { return r.Tier }},
	{"verdict", func(r *Record) string { return r.Verdict }},
	{"status", func(r *Record) string { return string(r.Status) }},
	{"rules", func(r *Record) string { return strings.Join(r.Rules, " ") }},
	{"paths", func(r *Record) string { return strings.Join(pathsOf(r), " ") }},
	{"person", func(r *Record) string { return r.Person }},
	{"took_ms", func(r *Record) string { return strconv.FormatInt(r.Took.Milliseconds(), 10) }},
	{"args", func(r *Record) string { return string(r.Args) }},
	{"error", func(r *Record) string { return r.Error }},
}

func (r *Reader) exportCSV(ctx context.Context, w io.Writer, f Filter) error {
	out := csv.NewWriter(w)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	err := r.each(ctx, f, func(rec Record) error {
		for i, c := range columns {
			row[i] = cell(c.value(&rec))
		}
		return out.Write(row)
	})
	out.Flush()
	return errors.Join(err, out.Error())
}

// cell keeps a value from being taken for a formula by a spreadsheet.
func cell(v string) string {
	if v != "" && strings.ContainsRune("=+-@\t\r", rune(v[0])) {
		return "'" + v
	}
	return v
}

// Entry is a record with its stored bytes.
type Entry struct {
	Record Record
	Raw    []byte
}

// Entries reads stored records from number from on: at most records of them, and
// none after those that together have size bytes, though always one.
func (r *Reader) Entries(ctx context.Context, from Seq, records, size int) ([]Entry, error) {
	var out []Entry
	err := r.run(ctx, &query{f: Filter{From: from, Limit: records}, fn: func(rec *Record, raw []byte) bool {
		out = append(out, Entry{*rec, slices.Clone(raw)})
		size -= len(raw)
		return size > 0
	}})
	return out, err
}

// Ends are the number of the oldest record that is kept and that of the next one
// to come.
func (r *Reader) Ends() (first, next Seq) {
	segs, size := r.segments()
	if len(segs) > 0 {
		first = segs[0].first
	}
	return first, size
}

// Origin is the log's name, which its checkpoints carry.
func (r *Reader) Origin() string { return r.keys.origin }

// OCSF is a record as FormatOCSF has it, without the end of the line.
func (r *Reader) OCSF(rec *Record) ([]byte, error) {
	var b bytes.Buffer
	if err := encoder(&b).Encode(r.ocsf(rec)); err != nil {
		return nil, fmt.Errorf("export a record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

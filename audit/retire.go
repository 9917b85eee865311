package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// eventRetired is the tombstone of records that were kept long enough. It stands
// in the log, so the checkpoints sign it.
const eventRetired = "segment.retired"

// Tombstone tells of records that are gone: all before End, of which the last
// segment began at First. Checkpoint signs the tree of the End records.
type Tombstone struct {
	First      Seq       `json:"first"`
	End        Seq       `json:"end"`
	Segment    string    `json:"segment"`
	SHA256     string    `json:"sha256"`
	Newest     time.Time `json:"newest"` // of the records that are gone
	Checkpoint string    `json:"checkpoint"`
	Reason     string    `json:"reason"`
}

// Hold keeps records from being retired, for a dispute or an investigation: all
// from Since on, and those before that are in the same segment.
type Hold struct {
	Name   string    `json:"name"`
	Since  time.Time `json:"since"` // zero: everything
	Reason string    `json:"reason"`
	Person string    `json:"person"`
}

const holdsFile = "holds.json"

// Holds lists the legal holds.
func (r *Reader) Holds() ([]Hold, error) {
	text, err := os.ReadFile(filepath.Join(r.dir, holdsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var holds []Hold
	if err == nil {
		err = json.Unmarshal(text, &holds)
	}
	if err != nil {
		return nil, fmt.Errorf("read the legal holds: %w", err)
	}
	return holds, nil
}

// Hold sets a legal hold, or replaces the one of that name.
func (l *Log) Hold(ctx context.Context, h Hold) error {
	if h.Name == "" || h.Person == "" {
		return errors.New("set a legal hold: it needs a name and a person who answers for it")
	}
	return l.changeHolds(ctx, "hold.set", h, func(holds []Hold) []Hold {
		return append(slices.DeleteFunc(holds, func(o Hold) bool { return o.Name == h.Name }), h)
	})
}

// Lift ends a legal hold.
func (l *Log) Lift(ctx context.Context, name, person string) error {
	found := false
	err := l.changeHolds(ctx, "hold.lift", Hold{Name: name, Person: person}, func(holds []Hold) []Hold {
		return slices.DeleteFunc(holds, func(o Hold) bool {
			found = found || o.Name == name
			return o.Name == name
		})
	})
	if err == nil && !found {
		err = fmt.Errorf("lift a legal hold: there is none named %q", name)
	}
	return err
}

func (l *Log) changeHolds(ctx context.Context, event string, h Hold, change func([]Hold) []Hold) error {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	holds, err := l.Holds()
	if err != nil {
		return err
	}
	detail, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := l.Append(ctx, Record{Kind: KindEvent, Event: event, Person: h.Person, Detail: detail}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(change(holds), "", "  ")
	if err == nil {
		err = writeFileSynced(filepath.Join(l.dir, holdsFile), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the legal holds: %w", err)
	}
	return nil
}

// Retire removes the full segments whose newest record is older than
// Options.Retain, oldest first, and leaves a signed tombstone of each. It stops
// at the first that a legal hold keeps. It returns how many went.
func (l *Log) Retire(ctx context.Context) (int, error) {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	if l.opt.Retain < 0 {
		return 0, nil
	}
	limit := l.opt.Now().Add(-l.opt.Retain)
	holds, err := l.Holds()
	if err != nil {
		return 0, err
	}
	for gone := 0; ; gone++ {
		segs, _ := l.segments()
		if len(segs) < 2 {
			return gone, nil
		}
		t, err := l.tombstone(ctx, segs[0])
		if err != nil {
			return gone, fmt.Errorf("retire a segment of the audit log: %w", err)
		}
		held := slices.ContainsFunc(holds, func(h Hold) bool { return !t.Newest.Before(h.Since) })
		if held || !t.Newest.Before(limit) || !l.isSealed(segs[0].first) {
			return gone, nil
		}
		if err := l.bury(ctx, segs[0], t); err != nil {
			return gone, fmt.Errorf("retire a segment of the audit log: %w", err)
		}
	}
}

// isSealed reports whether a full segment's digest is recorded.
func (l *Log) isSealed(first Seq) bool {
	var left unsealed
	segs, _ := l.segments()
	err := l.view(segs[len(segs)-1], func(tx *bbolt.Tx) error {
		s, err := readState(tx)
		left = s.left
		return err
	})
	return err == nil && !slices.Contains(left, first)
}

func (l *Log) tombstone(ctx context.Context, seg segment) (Tombstone, error) {
	t := Tombstone{First: seg.first, Segment: filepath.Base(seg.path), Reason: "older than " + l.opt.Retain.String()}
	err := viewSegment(seg, &l.opt, func(tx *bbolt.Tx) error {
		s, err := readState(tx)
		if err != nil {
			return err
		}
		t.Checkpoint = string(s.head)
		k, raw := tx.Bucket(bucketRecords).Cursor().Last()
		if k == nil {
			return ErrNoRecord
		}
		last, err := Decode(raw)
		t.End, t.Newest = last.Seq+1, last.Time
		return err
	})
	if err == nil {
		t.SHA256, _, err = digestFile(ctx, seg.path)
	}
	return t, err
}

// bury records a tombstone and then removes the oldest segment.
func (l *Log) bury(ctx context.Context, seg segment, t Tombstone) error {
	detail, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if _, err := l.append(ctx, Record{Kind: KindEvent, Event: eventRetired, Detail: detail}, func(*waiter) {}); err != nil {
		return err
	}
	l.mu.Lock()
	l.segs = slices.Clone(l.segs[1:])
	l.mu.Unlock()
	if err := os.Remove(seg.path); err != nil {
		return err
	}
	if err := os.Remove(indexPath(seg.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(l.dir)
}

// sawRetired notes a tombstone.
func (v *verification) sawRetired(seq Seq, raw []byte) {
	r, err := Decode(raw)
	var t Tombstone
	if err == nil {
		err = json.Unmarshal(r.Detail, &t)
	}
	if err != nil {
		v.problem(VerifyTampered, seq, "record %d: %v", seq, err)
		return
	}
	v.report.Retired = append(v.report.Retired, t)
}

// retired holds what is missing at the start against the tombstones.
func (v *verification) retired() {
	first := v.report.First
	if first > 0 && !slices.ContainsFunc(v.report.Retired, func(t Tombstone) bool { return t.End >= first }) {
		v.problem(VerifyTampered, first, "records 0 to %d are missing, and no tombstone tells that they were retired", first-1)
	}
}

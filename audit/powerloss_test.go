package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskOp is a write, or with nil data a sync: everything before it is durable.
type diskOp struct {
	off  int64
	data []byte
}

// recordedDisk is what a log did to its segment file.
type recordedDisk struct {
	mu    sync.Mutex
	start []byte // the file, durable, when recording began
	ops   []diskOp
	acks  []ackAt
}

// ackAt says that a record was acknowledged when so many operations were done.
type ackAt struct {
	ops int
	seq Seq
}

// recordWrites lets four writers append to a log and records what reaches the
// disk. bbolt syncs before and after it writes a meta page, which is one of the
// first two.
func recordWrites(t *testing.T, dir string) *recordedDisk {
	t.Helper()
	l := openTest(t, dir, quiet())
	d := &recordedDisk{}
	var err error
	d.start, err = os.ReadFile(l.segs[0].path)
	require.NoError(t, err)
	hook := hookWrites(l.db)
	page := int64(l.db.Info().PageSize)
	hook.set(func(b []byte, off int64) (int, error) {
		d.mu.Lock()
		op := diskOp{off, append([]byte(nil), b...)}
		if off < 2*page {
			d.ops = append(d.ops, diskOp{}, op, diskOp{})
		} else {
			d.ops = append(d.ops, op)
		}
		d.mu.Unlock()
		return hook.real(b, off)
	})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 25 {
				call := fmt.Sprintf("%d-%d", w, n)
				intent := d.append(t, l, Record{Kind: KindIntent, Call: call, Error: "some text that makes the record longer"})
				if n%5 != 4 {
					d.append(t, l, Record{Kind: KindOutcome, Call: call, Intent: &intent, Status: StatusOK})
				}
			}
		})
	}
	wg.Wait()
	hook.restore()
	return d
}

func (d *recordedDisk) append(t *testing.T, l *Log, r Record) Seq {
	seq, err := l.Append(context.Background(), r)
	if err != nil {
		t.Error(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acks = append(d.acks, ackAt{len(d.ops), seq})
	return seq
}

// image is the file after power was lost behind n operations: what a sync
// covers is there; of the rest each write is there, lost or torn at sectors.
func (d *recordedDisk) image(n int, syncs bool) []byte {
	durable := 0
	for i, op := range d.ops[:n] {
		if op.data == nil && syncs {
			durable = i
		}
	}
	img := append([]byte(nil), d.start...)
	for i, op := range d.ops[:n] {
		fate := rand.IntN(3)
		if i < durable {
			fate = 0
		}
		for at := 0; at < len(op.data); at += 512 {
			if fate == 1 || fate == 2 && rand.IntN(2) == 0 {
				continue
			}
			end := min(at+512, len(op.data))
			if need := int(op.off) + end; need > len(img) {
				img = append(img, make([]byte, need-len(img))...)
			}
			copy(img[int(op.off)+at:], op.data[at:end])
		}
	}
	return img
}

// survives opens an image as the next start would and says what is wrong.
func (d *recordedDisk) survives(t *testing.T, dir string, n int) error {
	rep, err := verifyDir(dir)
	if err != nil || len(rep.Problems) > 0 {
		return fmt.Errorf("before recovery: %w %v", err, rep.Problems)
	}
	l, err := Open(dir, quiet())
	if err != nil {
		return err
	}
	defer l.Close()
	for _, a := range d.acks {
		if _, err := l.Get(a.seq); a.ops <= n && err != nil {
			return fmt.Errorf("acknowledged record %d is lost: %w", a.seq, err)
		}
	}
	if rep, err = l.Verify(context.Background(), VerifyOptions{}); err != nil || len(rep.Problems) > 0 {
		return fmt.Errorf("after recovery: %w %v", err, rep.Problems)
	}
	requireClosed(t, l)
	return nil
}

func TestPowerLoss(t *testing.T) {
	t.Parallel()
	images := 60
	if long() {
		images = 2000
	}
	base := t.TempDir()
	origin := filepath.Join(base, "origin")
	d := recordWrites(t, origin)
	try := func(n int, syncs bool) error {
		dir := filepath.Join(base, "image")
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Mkdir(dir, 0o700))
		for _, name := range []string{signingKeyFile, publicKeysFile, redactionKeyFile} {
			text, err := os.ReadFile(filepath.Join(origin, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		require.NoError(t, os.WriteFile(segmentPath(dir, 0), d.image(n, syncs), 0o600))
		return d.survives(t, dir, n)
	}
	for range images {
		n := rand.IntN(len(d.ops) + 1)
		require.NoError(t, try(n, true), "power lost after %d of %d operations", n, len(d.ops))
	}
	// The control: a disk that ignores syncs must lose something, else this test
	// sees nothing.
	failed := 0
	for range 20 {
		if try(len(d.ops)-rand.IntN(20), false) != nil {
			failed++
		}
	}
	require.Greater(t, failed, 10, "the test does not notice lost writes")
	t.Logf("%d images of %d operations intact; of 20 without syncs %d were not", images, len(d.ops), failed)
}

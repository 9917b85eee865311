//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// txStore keeps transactions: what commands wrote into a layer over the
// workspace and what has not landed yet. Each is a folder of dir that holds the
// overlay's upper and work directories, info (what it lies over) and, once
// sealed, changes. It survives a restart.
//
// The order of a transaction's life: create makes the folders (or a pool made
// them earlier, and begin is called right before the command starts), the
// command runs, changes seals it, and Land or Drop ends it.
type txStore struct{ dir string }

// txInfo is what a transaction lies over.
type txInfo struct {
	Workspace string `json:"workspace"`
	// Began is the kernel's time in ns when the transaction was made. What
	// changed in the workspace after it conflicts.
	Began int64 `json:"began"`
	// Held are the files that the layer took over before the command started: one
	// that is still so is no change, whatever became of the workspace's.
	Held map[string]heldFile `json:"held,omitempty"`
}

// heldFile is a file as the command found it.
type heldFile struct {
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"mode"` // permission bits
}

// txSealed is what a transaction came to when its command had ended.
type txSealed struct {
	Changes []Change `json:"changes"`
	// Stale lists changed paths that also changed in the workspace while the
	// command ran.
	Stale []string `json:"stale,omitempty"`
}

var txID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{7,63}$`)

// create begins a transaction over the workspace. upper and work are ready to
// be mounted and belong to the workspace's owner.
func (s txStore) create(workspace string) (id, upper, work string, err error) {
	id = "tx-" + rand.Text()
	dir := filepath.Join(s.dir, id)
	upper, work = filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	if err := layOut(workspace, dir, upper, work); err != nil {
		os.RemoveAll(dir)
		return "", "", "", failure("begin a transaction over", workspace, err)
	}
	return id, upper, work, s.begin(id, workspace, nil)
}

// layOut makes the folders of a transaction. upper takes the workspace's mode,
// which becomes that of the merged root.
func layOut(workspace, dir, upper, work string) error {
	var st unix.Stat_t
	if err := unix.Stat(workspace, &st); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(d, int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
	}
	return os.Chmod(upper, os.FileMode(st.Mode&0o777))
}

// forget makes every transaction that is not kept one that no id names, and lists
// the folders that are left to be removed: what a command wrote can take long to
// remove.
func (s txStore) forget() (gone []string, err error) {
	left, err := os.ReadDir(s.dir)
	for _, d := range left {
		if _, kept := s.note(d.Name()); kept {
			continue
		}
		dir := filepath.Join(s.dir, d.Name())
		if !strings.HasPrefix(d.Name(), ".gone-") {
			to := filepath.Join(s.dir, ".gone-"+rand.Text())
			if e := os.Rename(dir, to); e != nil {
				err = errors.Join(err, e)
				continue
			}
			dir = to
		}
		gone = append(gone, dir)
	}
	return gone, err
}

// Keep gives a sealed transaction a note for whoever finds it: one with a note
// outlives its Runner, until it lands or is dropped.
func (s txStore) Keep(id string, note []byte) error {
	if sealed, err := s.sealed(id); !txID.MatchString(id) || err != nil || sealed == nil {
		return noTx(id)
	}
	if err := writeDurably(filepath.Join(s.dir, id, "note"), note); err != nil {
		return failure("keep the transaction", id, err)
	}
	return nil
}

// Kept are the notes of the transactions that are kept, by id.
func (s txStore) Kept() (map[string][]byte, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, failure("list the transactions in", s.dir, err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if b, ok := s.note(e.Name()); ok {
			out[e.Name()] = b
		}
	}
	return out, nil
}

// note is what Keep left with a transaction.
func (s txStore) note(id string) ([]byte, bool) {
	if !txID.MatchString(id) {
		return nil, false
	}
	b, err := os.ReadFile(filepath.Join(s.dir, id, "note"))
	return b, err == nil
}

// begin notes what the transaction lies over and when it began: now, by the
// clock that the kernel stamps files with. held are the files that the command's
// cell is told to hold.
func (s txStore) begin(id, workspace string, held map[string]string) error {
	p := filepath.Join(s.dir, id, "info")
	var st unix.Stat_t
	info := txInfo{Workspace: workspace, Held: map[string]heldFile{}}
	for path, sum := range held {
		if unix.Stat(filepath.Join(workspace, path), &st) == nil {
			info.Held[path] = heldFile{sum, st.Mode & 0o777}
		}
	}
	err := writeJSON(p, info)
	if err == nil {
		err = unix.Stat(p, &st)
	}
	if err == nil {
		info.Began = st.Ctim.Nano()
		err = writeJSON(p, info)
	}
	if err != nil {
		return failure("begin a transaction over", workspace, err)
	}
	return nil
}

// changes lists what the transaction's command did, and seals it: what lands
// later is this or nothing. Call it when no process of the command is left.
func (s txStore) changes(id string) ([]Change, error) {
	t, err := s.open(id)
	if err != nil {
		return nil, err
	}
	defer t.close()
	d, err := t.diff()
	if err != nil {
		return nil, err
	}
	sealed := txSealed{Changes: d.changes(), Stale: d.changedSince(t.info.Began)}
	if err := writeJSON(filepath.Join(s.dir, id, "changes"), sealed); err != nil {
		return nil, failure("seal the transaction", id, err)
	}
	return sealed.Changes, nil
}

// Land brings a transaction's changes into its workspace and forgets it. When a
// file they touch changed since the transaction began, nothing lands and the
// error is KindStale. Each file lands atomically: first what is new, then what
// is modified, then removals; a failure in between leaves the transaction, and
// Land can be repeated.
func (s txStore) Land(ctx context.Context, id string) ([]Change, error) {
	t, err := s.open(id)
	if err != nil {
		return nil, err
	}
	defer t.close()
	d, err := t.diff()
	if err != nil {
		return nil, err
	}
	sealed, err := s.sealed(id)
	if err != nil {
		return nil, err
	}
	landed := d.changes()
	if sealed != nil {
		landed = sealed.Changes
	}
	if p := d.conflict(sealed, t.info.Began); p != "" {
		return nil, &Error{Kind: KindStale, Msg: fmt.Sprintf("land %s: it changed in the workspace since the command began; nothing was landed", p),
			Remedy: "run the command again on what the workspace holds now"}
	}
	if err := d.land(ctx); err != nil {
		return nil, err
	}
	return landed, s.Drop(id)
}

// Drop forgets a transaction and all it wrote. Dropping one that is gone is no
// error.
func (s txStore) Drop(id string) error {
	if !txID.MatchString(id) {
		return noTx(id)
	}
	if err := removeTree(filepath.Join(s.dir, id)); err != nil {
		return failure("drop the transaction", id, err)
	}
	return nil
}

// TxContent gives the content a changed file has in the transaction, or the
// target of a changed link. A file that is removed or not changed is
// KindMissing.
func (s txStore) TxContent(id, path string) ([]byte, error) {
	t, err := s.open(id)
	if err != nil {
		return nil, err
	}
	defer t.close()
	at, err := t.upper.find("read changed", path, noLink|strict)
	if err != nil {
		return nil, err
	}
	defer at.close()
	n, err := at.node(false)
	if err != nil {
		return nil, failure("read changed", path, err)
	}
	switch n.kind {
	case unix.S_IFLNK:
		return []byte(n.link), nil
	case 0:
		return nil, failure("read changed", path, unix.ENOENT)
	}
	b, _, err := at.load(MaxEditFile)
	if err != nil {
		return nil, failure("read changed", path, err)
	}
	return b, nil
}

// openTx is a transaction with its two trees open.
type openTx struct {
	info         txInfo
	upper, lower *Workspace
}

// diff is what the command changed.
func (t *openTx) diff() (*layerDiff, error) {
	d, err := diffLayer(t.upper, t.lower)
	if err != nil {
		return nil, err
	}
	d.steps = slices.DeleteFunc(d.steps, func(s step) bool {
		held, ok := t.info.Held[s.path]
		return ok && s.is.kind == unix.S_IFREG && s.is.sum == held.SHA256 && s.is.mode == held.Mode
	})
	return d, nil
}

func (t *openTx) close() {
	t.upper.Close()
	t.lower.Close()
}

func (s txStore) open(id string) (*openTx, error) {
	if !txID.MatchString(id) {
		return nil, noTx(id)
	}
	var t openTx
	b, err := os.ReadFile(filepath.Join(s.dir, id, "info"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, noTx(id)
	}
	if err == nil {
		err = json.Unmarshal(b, &t.info)
	}
	if err != nil {
		return nil, failure("open the transaction", id, err)
	}
	state, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, failure("open the transaction", id, err)
	}
	if t.upper, err = OpenWorkspace(filepath.Join(state, id, "upper")); err != nil {
		return nil, err
	}
	if t.lower, err = OpenWorkspace(t.info.Workspace); err != nil {
		t.upper.Close()
		return nil, err
	}
	return &t, nil
}

// sealed is nil when the transaction was not sealed.
func (s txStore) sealed(id string) (*txSealed, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, id, "changes"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var sealed txSealed
	if err == nil {
		err = json.Unmarshal(b, &sealed)
	}
	if err != nil {
		return nil, failure("open the transaction", id, err)
	}
	return &sealed, nil
}

func noTx(id string) error {
	return &Error{Kind: KindMissing, Msg: fmt.Sprintf("open the transaction %q: there is none of that name", clip(id, 60)),
		Remedy: "run the command again; its changes landed, were dropped, or never were"}
}

// writeJSON writes a small file durably.
func writeJSON(p string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeDurably(p, b)
}

// writeDurably writes a file whole or not at all.
func writeDurably(p string, b []byte) error {
	f, err := os.OpenFile(p+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(p+".new", p)
}

// removeTree is os.RemoveAll that also gets through directories whose mode
// forbids it, which commands and overlayfs leave behind.
func removeTree(root string) error {
	if err := os.RemoveAll(root); err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(p, root) {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(root)
}

package audit

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // the name of a git object, not a protection
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// GitAnchor keeps checkpoints as git notes on the repository's current commit,
// under refs/notes/sallyport-audit, where a push carries them to other machines:
//
//	git notes --ref sallyport-audit show
//	git log -p refs/notes/sallyport-audit
//
// The value is the repository's git directory. It writes loose objects itself,
// so no git program is started; each checkpoint is one commit.
type GitAnchor string

// NotesRef is the ref that GitAnchor writes.
const NotesRef = "refs/notes/sallyport-audit"

// Anchor implements the interface of that name.
func (dir GitAnchor) Anchor(_ context.Context, checkpoint []byte) error {
	if err := dir.anchor(checkpoint); err != nil {
		return fmt.Errorf("anchor the log in git notes: %w", err)
	}
	return nil
}

func (dir GitAnchor) anchor(checkpoint []byte) error {
	head, err := dir.resolve("HEAD")
	if err != nil {
		return err
	}
	if head == "" {
		return errors.New("the repository has no commit yet")
	}
	if len(head) != 40 {
		return errors.New("the repository does not use SHA-1 names: use an anchor file")
	}
	unlock, err := dir.lock()
	if err != nil {
		return err
	}
	defer unlock()
	parent, err := dir.resolve(NotesRef)
	if err != nil {
		return err
	}
	blob, err := dir.write("blob", []byte(anchorLine(checkpoint)+"\n"))
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(blob)
	if err != nil {
		return err
	}
	tree, err := dir.write("tree", append([]byte("100644 "+head+"\x00"), raw...))
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	if parent != "" {
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	who := fmt.Sprintf("Sallyport <audit@sallyport.invalid> %d +0000", time.Now().Unix())
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\nAudit checkpoint\n", who, who)
	commit, err := dir.write("commit", []byte(b.String()))
	if err != nil {
		return err
	}
	return dir.setRef(commit)
}

// resolve reads a ref, following symbolic ones; "" when there is none.
func (dir GitAnchor) resolve(ref string) (string, error) {
	for range 5 {
		text, err := os.ReadFile(filepath.Join(string(dir), filepath.FromSlash(ref)))
		if errors.Is(err, fs.ErrNotExist) {
			return dir.packed(ref)
		}
		if err != nil {
			return "", err
		}
		value := strings.TrimSpace(string(text))
		target, symbolic := strings.CutPrefix(value, "ref: ")
		if !symbolic {
			return value, nil
		}
		ref = target
	}
	return "", fmt.Errorf("%s leads in a circle", ref)
}

func (dir GitAnchor) packed(ref string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(dir), "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && value == ref {
			return name, nil
		}
	}
	return "", err
}

// write stores a loose object and returns its name.
func (dir GitAnchor) write(kind string, body []byte) (string, error) {
	full := append([]byte(fmt.Sprintf("%s %d\x00", kind, len(body))), body...)
	sum := sha1.Sum(full) //nolint:gosec // as above
	name := hex.EncodeToString(sum[:])
	path := filepath.Join(string(dir), "objects", name[:2], name[2:])
	if _, err := os.Stat(path); err == nil {
		return name, nil
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(full); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return name, writeFileSynced(path, packed.Bytes())
}

// lock takes git's own lock of the notes ref.
func (dir GitAnchor) lock() (unlock func(), err error) {
	path := filepath.Join(string(dir), filepath.FromSlash(NotesRef)+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w; remove that file if no git is running", err)
	}
	return func() { _ = os.Remove(path) }, f.Close()
}

// setRef is called with the lock held.
func (dir GitAnchor) setRef(commit string) error {
	return writeFileSynced(filepath.Join(string(dir), filepath.FromSlash(NotesRef)), []byte(commit+"\n"))
}

package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
)

// Files of a log's directory, all 0600.
const (
	signingKeyFile   = "signing.key"  // note signer key, secret
	nextKeyFile      = "signing.next" // the same while RotateKey is under way
	publicKeysFile   = "signing.pub"  // note verifier keys, one a line, oldest first
	redactionKeyFile = "redact.key"   // hex, secret: keys placeholders and digests
	lockFile         = "lock"
	ballastFile      = "ballast"
)

// keys are a log's secrets and the public keys that its checkpoints verify by.
type keys struct {
	origin string // key name and origin of every checkpoint
	signer note.Signer
	public []string // verifier keys, oldest first
	known  *keyRing
	redact []byte
}

// keyRing is a note.Verifiers that a key can be added to while others look.
type keyRing struct {
	mu   sync.RWMutex
	list []note.Verifier
}

// Verifier implements note.Verifiers.
func (r *keyRing) Verifier(name string, hash uint32) (note.Verifier, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, v := range r.list {
		if v.Name() == name && v.KeyHash() == hash {
			return v, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func (r *keyRing) add(public string) error {
	v, err := note.NewVerifier(public)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, v)
	return nil
}

// loadKeys reads the keys of a log that is opened for writing, making those of a
// new one.
func loadKeys(dir string) (keys, error) {
	path := filepath.Join(dir, signingKeyFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createKeys(dir); err != nil {
			return keys{}, err
		}
	}
	k, err := loadPublicKeys(dir)
	if err != nil {
		return keys{}, err
	}
	if k.redact == nil {
		return keys{}, fmt.Errorf("read the log's redaction key: %s is missing; restore it from a backup", filepath.Join(dir, redactionKeyFile))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return keys{}, fmt.Errorf("read the log's signing key: %w", err)
	}
	if k.signer, err = note.NewSigner(strings.TrimSpace(string(text))); err != nil {
		return keys{}, fmt.Errorf("read the log's signing key %s: %w", path, err)
	}
	if k.signer.Name() != k.origin {
		return keys{}, fmt.Errorf("read the log's signing key: %s is of another log", path)
	}
	return k, nil
}

// loadPublicKeys reads what is needed to read and verify a log. A copy for an
// auditor may lack the redaction key; then Digest and placeholders have a key
// of their own.
func loadPublicKeys(dir string) (keys, error) {
	var k keys
	text, err := os.ReadFile(filepath.Join(dir, publicKeysFile))
	if err != nil {
		return keys{}, fmt.Errorf("read the log's public keys: %w; restore them from a backup", err)
	}
	k.public = strings.Fields(string(text))
	if k.known, err = newKeyRing(k.public); err != nil {
		return keys{}, fmt.Errorf("read the log's public keys: %w", err)
	}
	if len(k.known.list) == 0 {
		return keys{}, fmt.Errorf("read the log's public keys: %s is empty", filepath.Join(dir, publicKeysFile))
	}
	k.origin = k.known.list[0].Name()
	text, err = os.ReadFile(filepath.Join(dir, redactionKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		k.redact, err = hex.DecodeString(strings.TrimSpace(string(text)))
	}
	if err != nil || len(k.redact) < 16 {
		return keys{}, fmt.Errorf("read the log's redaction key: %s is damaged; restore it from a backup", filepath.Join(dir, redactionKeyFile))
	}
	return k, nil
}

func newKeyRing(public []string) (*keyRing, error) {
	r := &keyRing{}
	for _, text := range public {
		if err := r.add(text); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// createKeys makes the keys of a new log. The signing key is written last: it
// marks the set as complete.
func createKeys(dir string) error {
	if segs, err := listSegments(dir); err != nil {
		return err
	} else if len(segs) > 0 {
		return fmt.Errorf("open the log: %s has records and no %s; restore the key from a backup", dir, signingKeyFile)
	}
	id := make([]byte, 4)
	secret := make([]byte, 32)
	_, _ = rand.Read(id) // never fails (crypto/rand)
	_, _ = rand.Read(secret)
	skey, vkey, err := note.GenerateKey(rand.Reader, "sallyport-audit-"+hex.EncodeToString(id))
	if err != nil {
		return fmt.Errorf("make the log's signing key: %w", err)
	}
	for _, f := range []struct{ name, text string }{
		{redactionKeyFile, hex.EncodeToString(secret)},
		{publicKeysFile, vkey},
		{signingKeyFile, skey},
	} {
		if err := writeFileSynced(filepath.Join(dir, f.name), []byte(f.text+"\n")); err != nil {
			return fmt.Errorf("make the log's keys: %w", err)
		}
	}
	return nil
}

// Digest is a keyed digest of raw, "hmac-sha256:" and 64 hex digits. Equal bytes
// give equal digests in one log; without the log's key it says nothing.
func (k *keys) Digest(raw []byte) string {
	return "hmac-sha256:" + hex.EncodeToString(k.mac("digest", raw))
}

func (k *keys) mac(use string, raw []byte) []byte {
	m := hmac.New(sha256.New, k.redact)
	m.Write([]byte(use))
	m.Write([]byte{0})
	m.Write(raw)
	return m.Sum(nil)
}

// writeFileSynced replaces path by text, 0600, durable when it returns.
func writeFileSynced(path string, text []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(text).WriteTo(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

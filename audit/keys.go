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

// loadKeys reads the keys of dir; with create it makes those of a new log.
func loadKeys(dir string, create bool) (keys, error) {
	path := func(name string) string { return filepath.Join(dir, name) }
	if _, err := os.Stat(path(signingKeyFile)); errors.Is(err, fs.ErrNotExist) && create {
		if err := createKeys(dir); err != nil {
			return keys{}, err
		}
	}
	var k keys
	text, err := os.ReadFile(path(signingKeyFile))
	if err != nil {
		return keys{}, fmt.Errorf("read the log's signing key: %w; restore it from a backup of %s", err, dir)
	}
	if k.signer, err = note.NewSigner(strings.TrimSpace(string(text))); err != nil {
		return keys{}, fmt.Errorf("read the log's signing key %s: %w", path(signingKeyFile), err)
	}
	k.origin = k.signer.Name()
	if text, err = os.ReadFile(path(publicKeysFile)); err != nil {
		return keys{}, fmt.Errorf("read the log's public keys: %w", err)
	}
	k.public = strings.Fields(string(text))
	if k.known, err = newKeyRing(k.public); err != nil {
		return keys{}, fmt.Errorf("read the log's public keys %s: %w", path(publicKeysFile), err)
	}
	if text, err = os.ReadFile(path(redactionKeyFile)); err != nil {
		return keys{}, fmt.Errorf("read the log's redaction key: %w", err)
	}
	if k.redact, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(k.redact) < 16 {
		return keys{}, fmt.Errorf("read the log's redaction key %s: it is not 16 bytes or more in hex", path(redactionKeyFile))
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

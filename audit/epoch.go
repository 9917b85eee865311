package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// eventEpoch introduces a new signing key. From this record on every checkpoint
// is signed by that key; the first also by the one before.
const eventEpoch = "key.epoch"

// epochDetail is the Detail of an eventEpoch. Statement names the new key and is
// signed by the old one, so that whoever trusts the old key can go on.
type epochDetail struct {
	Key       string `json:"key"`
	Statement string `json:"statement"`
}

func epochStatement(origin, key string) string { return origin + "/epoch\n" + key + "\n" }

// RotateKey begins a new key epoch. Copy the new line of signing.pub to where
// auditors keep the keys they trust; a key that has signed for long, or that
// somebody may have seen, can so be retired without a break in the log.
func (l *Log) RotateKey(ctx context.Context) error {
	if err := l.rotateKey(ctx); err != nil {
		return fmt.Errorf("replace the audit log's signing key: %w", err)
	}
	return nil
}

func (l *Log) rotateKey(ctx context.Context) error {
	l.rotating.Lock()
	defer l.rotating.Unlock()
	skey, vkey, err := note.GenerateKey(rand.Reader, l.keys.origin)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return err
	}
	// Only a rotation changes the signer, and rotations are one at a time.
	statement, err := note.Sign(&note.Note{Text: epochStatement(l.keys.origin, vkey)}, l.keys.signer)
	if err != nil {
		return err
	}
	detail, err := json.Marshal(epochDetail{vkey, string(statement)})
	if err != nil {
		return err
	}
	if err := writeFileSynced(filepath.Join(l.dir, nextKeyFile), []byte(skey+"\n")); err != nil {
		return err
	}
	if err := l.keys.known.add(vkey); err != nil {
		return err
	}
	if err := l.addPublic(vkey); err != nil {
		return err
	}
	if _, err := l.append(ctx, Record{Kind: KindEvent, Event: eventEpoch, Detail: detail}, func(w *waiter) { w.signer = signer }); err != nil {
		return err
	}
	return l.promoteKey()
}

func (l *Log) addPublic(vkey string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	public := append(slices.Clip(l.public), vkey)
	if err := writeFileSynced(filepath.Join(l.dir, publicKeysFile), []byte(strings.Join(public, "\n")+"\n")); err != nil {
		return err
	}
	l.public = public
	return nil
}

// publicKeys are the verifier keys of all epochs, oldest first.
func (r *Reader) publicKeys() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.public
}

// promoteKey makes the next key the one that is loaded at open.
func (l *Log) promoteKey() error {
	if err := os.Rename(filepath.Join(l.dir, nextKeyFile), filepath.Join(l.dir, signingKeyFile)); err != nil {
		return err
	}
	return syncDir(l.dir)
}

// settleKey ends a rotation that a crash cut short: the next key is the key if
// the newest checkpoint has its signature, and was never used if not.
func (l *Log) settleKey(head []byte) error {
	path := filepath.Join(l.dir, nextKeyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log's next key: %w", err)
	}
	signer, err := note.NewSigner(string(bytes.TrimSpace(text)))
	if err != nil {
		return os.Remove(path) // cut short, so never used
	}
	n, err := note.Open(head, l.keys.known)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return s.Hash == signer.KeyHash() }) {
		return os.Remove(path)
	}
	l.keys.signer = signer
	return l.promoteKey()
}

// sawEpoch takes a new key that the old one vouches for.
func (v *verification) sawEpoch(seq Seq, raw []byte) {
	r, err := Decode(raw)
	var d epochDetail
	if err == nil {
		err = json.Unmarshal(r.Detail, &d)
	}
	var n *note.Note
	if err == nil {
		n, err = openNote([]byte(d.Statement), v.known)
	}
	if err == nil && n.Text != epochStatement(v.reader.keys.origin, d.Key) {
		err = errors.New("the old key did not vouch for it")
	}
	var key note.Verifier
	if err == nil {
		key, err = note.NewVerifier(d.Key)
	}
	if err != nil {
		v.problem(VerifyTampered, seq, "the key that record %d introduces is not to be trusted: %v", seq, err)
		return
	}
	_ = v.known.add(d.Key) // parsed above
	v.epoch = &key
}

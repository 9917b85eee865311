package identity

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Prefix begins every token, so that people and secret scanners know one.
const Prefix = "sallyport_"

// Token is an issued bearer token without its secret.
type Token struct {
	ID string `json:"id"`
	Rights
	Parent  string    `json:"parent,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	By      string    `json:"by,omitempty"` // the person who made it
	Revoked time.Time `json:"revoked,omitzero"`
}

// stored is a token as the file keeps it.
type stored struct {
	Token
	Hash string `json:"hash"` // SHA-256 of the secret's text, hex
}

// Store keeps the tokens of a host in one append-only file of JSON lines; the
// last line of an id counts. It is safe for concurrent use by one process.
type Store struct {
	mu     sync.RWMutex
	file   *os.File
	tokens map[string]stored
}

// Open reads the tokens of a file, which it makes for its owner alone.
func Open(path string) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the tokens: %w", err)
	}
	s := &Store{file: f, tokens: map[string]stored{}}
	if err := s.load(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *Store) load(path string) error {
	i, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("open the tokens: %w", err)
	}
	if i.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the tokens in %s can be read by others: chmod 600 it", path)
	}
	in, whole := bufio.NewReader(s.file), int64(0)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what has no newline was never acknowledged
		}
		if err != nil {
			return fmt.Errorf("read the tokens: %w", err)
		}
		var t stored
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("read %s, line %d: %w (remove the line; its token has to be made again)", path, n, err)
		}
		s.tokens[t.ID] = t
		whole += int64(len(line))
	}
	if err := s.file.Truncate(whole); err != nil {
		return fmt.Errorf("cut an unfinished line off the tokens: %w", err)
	}
	_, err = s.file.Seek(whole, io.SeekStart)
	return err
}

// Close closes the file.
func (s *Store) Close() error { return s.file.Close() }

// Request is a token to be made.
type Request struct {
	Rights
	Parent string        // id of the token that this one narrows; empty for none
	TTL    time.Duration // at least a second
	By     string
}

// Create makes a token durable and returns its text, which nothing can show
// again. A child may do nothing, and live no longer, than its parent.
func (s *Store) Create(now time.Time, r Request) (text string, _ Token, err error) {
	if err := r.valid(); err != nil {
		return "", Token{}, fmt.Errorf("make a token: %w", err)
	}
	if r.TTL < time.Second {
		return "", Token{}, fmt.Errorf("make a token: a lifetime of %s is too short", r.TTL)
	}
	t := Token{
		ID: strings.ToLower(rand.Text()[:16]), Rights: r.Rights, Parent: r.Parent,
		Created: now.UTC(), Expires: now.Add(r.TTL).UTC(), By: r.By,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Parent != "" {
		parent, ok := s.tokens[r.Parent]
		if !ok || s.dead(parent, now) {
			return "", Token{}, fmt.Errorf("make a token: no valid token has the id %s (`sallyport token list` shows them)", r.Parent)
		}
		if err := parent.within(t.Rights); err != nil {
			return "", Token{}, fmt.Errorf("make a token: a child can only be narrower: %w", err)
		}
		if t.Expires.After(parent.Expires) {
			t.Expires = parent.Expires
		}
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails since Go 1.24
	secret := base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	if err := s.append(stored{t, hex.EncodeToString(sum[:])}); err != nil {
		return "", Token{}, err
	}
	return Prefix + t.ID + "_" + secret, t, nil
}

// append makes a token's new state durable. s.mu is held.
func (s *Store) append(t stored) error {
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	_, err = s.file.Write(append(line, '\n'))
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		_, back := s.file.Seek(at, io.SeekStart)
		return fmt.Errorf("write the token: %w", errors.Join(err, back, s.file.Truncate(at)))
	}
	s.tokens[t.ID] = t
	return nil
}

// Check is the identity that a token's text proves. Every failure is ErrUnknown.
func (s *Store) Check(now time.Time, text string) (Identity, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, Prefix), "_")
	if !ok || !strings.HasPrefix(text, Prefix) {
		return Identity{}, ErrUnknown
	}
	sum := sha256.Sum256([]byte(secret))
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, known := s.tokens[id]
	want, _ := hex.DecodeString(t.Hash)
	if subtle.ConstantTimeCompare(sum[:], want) != 1 || !known || s.dead(t, now) {
		return Identity{}, ErrUnknown
	}
	return Identity{Rights: t.Rights, Credential: "token:" + t.ID, Expires: t.Expires}, nil
}

// dead reports whether a token or one it descends from is no longer valid. s.mu
// is held.
func (s *Store) dead(t stored, now time.Time) bool {
	for {
		if !t.Revoked.IsZero() || !now.Before(t.Expires) {
			return true
		}
		if t.Parent == "" {
			return false
		}
		parent, ok := s.tokens[t.Parent]
		if !ok {
			return true
		}
		t = parent // a parent is older than its child, so this ends
	}
}

// List is every token that is or will be of use, the oldest first; all includes
// the expired and revoked ones.
func (s *Store) List(now time.Time, all bool) []Token {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []Token{}
	for _, t := range s.tokens {
		if all || !s.dead(t, now) {
			out = append(out, t.Token)
		}
	}
	slices.SortFunc(out, func(a, b Token) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a.ID), []byte(b.ID))
	})
	return out
}

// ErrNoToken means that no token has an id.
var ErrNoToken = errors.New("no token has that id")

// Revoke ends a token and with it its children, at once and for good.
func (s *Store) Revoke(now time.Time, id string) (Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok {
		return Token{}, fmt.Errorf("revoke %s: %w (`sallyport token list` shows them)", id, ErrNoToken)
	}
	if !t.Revoked.IsZero() {
		return t.Token, nil
	}
	t.Revoked = now.UTC()
	return t.Token, s.append(t)
}

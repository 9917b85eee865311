package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"go.etcd.io/bbolt"
)

// bucketSealedArgs holds, by record number, the unredacted arguments of a call,
// encrypted (age) to keys whose private halves are elsewhere. A segment has it
// once there is something in it. The record has the SHA-256 of the bytes, so they
// are evidence too, and go when the segment is retired.
var bucketSealedArgs = []byte("sealed_args")

// ParseRecipients reads age public keys, as Options.SealTo takes them.
func ParseRecipients(keys []string) ([]age.Recipient, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	out, err := age.ParseRecipients(strings.NewReader(strings.Join(keys, "\n")))
	if err != nil {
		return nil, fmt.Errorf("read the keys to seal to: %w (make a pair with age-keygen)", err)
	}
	return out, nil
}

// sealArgs encrypts the arguments of a call where redaction took something out of
// them. Without keys to seal to it does nothing.
func (l *Log) sealArgs(raw json.RawMessage, r *Record) ([]byte, error) {
	if len(l.opt.SealTo) == 0 || len(raw) == 0 || r.Kind == KindOutcome || !redactedIn(r, "/args") {
		return nil, nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, l.opt.SealTo...)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("seal the arguments: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	r.SealedArgs = hex.EncodeToString(sum[:])
	return b.Bytes(), nil
}

// redactedIn reports whether something in a part of the record was replaced.
func redactedIn(r *Record, part string) bool {
	for _, p := range r.Redacted {
		if p == part || strings.HasPrefix(p, part+"/") {
			return true
		}
	}
	return false
}

// ErrNotSealed means that no arguments were sealed with a record.
var ErrNotSealed = errors.New("no arguments were sealed with this record: nothing in them was redacted, or audit.seal_to was not set")

// SealedArgs are the encrypted arguments of a call, by the number of its record.
func (r *Reader) SealedArgs(seq Seq) ([]byte, error) {
	rec, err := r.Get(seq)
	if err != nil {
		return nil, err
	}
	if rec.SealedArgs == "" {
		return nil, ErrNotSealed
	}
	var out []byte
	err = r.viewAt(seq, func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucketSealedArgs); b != nil {
			out = bytes.Clone(b.Get(key(uint64(seq))))
		}
		return nil
	})
	if err == nil && !isSHA256(out, rec.SealedArgs) {
		err = fmt.Errorf("the sealed arguments of record %d are not those it was stored with; run `sallyport audit verify`", seq)
	}
	return out, err
}

func isSHA256(b []byte, want string) bool {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]) == want
}

// Unseal decrypts sealed arguments with the identities in an age identity file.
func Unseal(sealed []byte, identities io.Reader) (json.RawMessage, error) {
	ids, err := age.ParseIdentities(identities)
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	in, err := age.Decrypt(bytes.NewReader(sealed), ids...)
	if err != nil {
		return nil, fmt.Errorf("unseal the arguments: %w", err)
	}
	out, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("unseal the arguments: %w", err)
	}
	return out, nil
}

// sealedArgs holds a segment's sealed arguments against what its records say:
// each must be there and nothing else.
func (v *verification) sealedArgs(tx *bbolt.Tx, told int) {
	b := tx.Bucket(bucketSealedArgs)
	if b == nil {
		if told > 0 {
			v.problem(VerifyTampered, v.report.First, "the sealed arguments of %d records are missing", told)
		}
		return
	}
	there := 0
	err := b.ForEach(func(k, sealed []byte) error {
		there++
		seq, err := seqOf(k)
		if err != nil {
			return err
		}
		var rec Record
		raw := tx.Bucket(bucketRecords).Get(k)
		if raw != nil {
			if rec, err = Decode(raw); err != nil {
				return err
			}
		}
		if rec.SealedArgs == "" || !isSHA256(sealed, rec.SealedArgs) {
			v.problem(VerifyTampered, seq, "the sealed arguments of record %d are not those it was stored with", seq)
		}
		return nil
	})
	if err != nil || there != told {
		v.problem(VerifyTampered, v.report.First, "%d sealed arguments are there and %d are told of (%v)", there, told, err)
	}
}

// putArgs stores sealed arguments.
func putArgs(tx *bbolt.Tx, seq uint64, args []byte) error {
	b, err := tx.CreateBucketIfNotExists(bucketSealedArgs)
	if err != nil {
		return err
	}
	b.FillPercent = 1
	return b.Put(key(seq), args)
}

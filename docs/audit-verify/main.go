// Command audit-verify checks that a record is in a Sallyport audit log, with
// nothing of Sallyport in it: SHA-256 and Ed25519 of the standard library.
//
//	sallyport audit prove 17 | go run -C docs/audit-verify . "$(tail -1 signing.pub)"
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type proof struct {
	Seq, Size  int64
	Record     string   // the stored bytes, which are the leaf
	Hashes     [][]byte // RFC 6962 audit path, leaf to root
	Checkpoint string   // signed note: origin, size, root
}

func hash(prefix byte, parts ...[]byte) []byte {
	h := sha256.New()
	h.Write([]byte{prefix})
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// root follows the audit path (RFC 9162, section 2.1.3.2).
func root(p proof) ([]byte, bool) {
	at, last, r := p.Seq, p.Size-1, hash(0, []byte(p.Record))
	for _, h := range p.Hashes {
		if at&1 == 1 || at == last {
			r = hash(1, h, r)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			r = hash(1, r, h)
		}
		at, last = at>>1, last>>1
	}
	return r, last == 0
}

// signed checks the note's signature by a key NAME+HASH+BASE64.
func signed(note, vkey string) bool {
	k := strings.SplitN(strings.TrimSpace(vkey), "+", 3)
	text, sigs, ok := strings.Cut(note, "\n\n")
	if !ok || len(k) != 3 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(k[2])
	for line := range strings.Lines(sigs) {
		name, b64, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "— "), " ")
		sig, serr := base64.StdEncoding.DecodeString(b64)
		if err == nil && serr == nil && name == k[0] && len(key) == 33 && len(sig) == 68 &&
			ed25519.Verify(key[1:], []byte(text+"\n"), sig[4:]) {
			return true
		}
	}
	return false
}

func main() {
	var p proof
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: audit-verify KEY < proof.json", err)
		os.Exit(2)
	}
	r, ok := root(p)
	want := fmt.Sprintf("\n%d\n%s\n", p.Size, base64.StdEncoding.EncodeToString(r))
	if !ok || !bytes.Contains([]byte(p.Checkpoint), []byte(want)) || !signed(p.Checkpoint, os.Args[1]) {
		fmt.Println("NOT PROVEN")
		os.Exit(1)
	}
	fmt.Printf("PROVEN: record %d of %d is in the log\n", p.Seq, p.Size)
}

package approval

import (
	"encoding/base32"
	"fmt"
	"io"
	"strings"
)

// speakable is Crockford's base32: no i, l, o, u, so that an id can be read out.
var speakable = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const idLength = 6 // 30 bits

// canonicalID is what a typed id means: case, spaces and hyphens do not matter,
// and letters that look like digits are those digits. The prefix of grants and
// batches stays.
func canonicalID(typed string) string {
	s := strings.ToLower(strings.TrimSpace(typed))
	prefix := ""
	if len(s) > 2 && s[1] == '-' {
		prefix, s = s[:2], s[2:]
	}
	return prefix + strings.NewReplacer("-", "", " ", "", "o", "0", "i", "1", "l", "1").Replace(s)
}

// newID draws an id that taken does not know.
func newID(random io.Reader, prefix string, taken func(string) bool) (string, error) {
	for range 64 {
		var b [5]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("draw an id: %w", err)
		}
		if id := prefix + speakable.EncodeToString(b[:])[:idLength]; !taken(id) {
			return id, nil
		}
	}
	return "", fmt.Errorf("draw an id: 64 in a row were taken; is the source of randomness stuck?")
}

func (t *tx) newRequestID() (string, error) {
	return newID(t.d.o.Rand, "", func(id string) bool { return t.Bucket(bucketIDs).Get([]byte(id)) != nil })
}

func (t *tx) newGrantID() (string, error) {
	return newID(t.d.o.Rand, "g-", func(id string) bool { return t.Bucket(bucketGrants).Get([]byte(id)) != nil })
}

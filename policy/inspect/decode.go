package inspect

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"compress/zlib"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"io"
	"regexp"
	"strings"
)

// decodeFilter is the output of the decoders.
func decodeFilter(name string, args []string, in string) (string, bool) {
	has := func(flags ...string) bool {
		for _, a := range args {
			for _, f := range flags {
				if a == f || len(f) == 2 && len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a[1:], f[1:]) || len(f) > 3 && len(a) > 4 && strings.HasPrefix(f, a) {
					return true
				}
			}
		}
		return false
	}
	switch name {
	case "base64", "base32":
		if !has("-d", "-D", "--decode") {
			return base64.StdEncoding.EncodeToString([]byte(in)) + "\n", name == "base64"
		}
		if name == "base32" {
			return unbase32(in)
		}
		return unbase64(in)
	case "openssl":
		if len(args) > 0 && (args[0] == "base64" || args[0] == "enc") && has("-d") && (args[0] == "base64" || has("-base64", "-a")) {
			return unbase64(in)
		}
	case "xxd":
		if has("-r", "--revert") {
			return unhex(in)
		}
	case "gunzip", "zcat":
		return unzip(in)
	case "gzip", "pigz":
		if has("-d", "--decompress") {
			return unzip(in)
		}
	case "bunzip2", "bzcat":
		return inflate(bzip2.NewReader(strings.NewReader(in)))
	}
	return "", false
}

func unbase64(s string) (string, bool) {
	s = strings.TrimRight(strings.Map(dropSpace, s), "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	b, err := enc.DecodeString(s)
	return string(b), err == nil
}

func unbase32(s string) (string, bool) {
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.TrimRight(strings.Map(dropSpace, s), "="))
	return string(b), err == nil
}

func unhex(s string) (string, bool) {
	b, err := hex.DecodeString(strings.Map(dropSpace, s))
	return string(b), err == nil
}

func dropSpace(r rune) rune {
	if r == ' ' || r == '\n' || r == '\t' || r == '\r' {
		return -1
	}
	return r
}

func unzip(s string) (string, bool) {
	r, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		return "", false
	}
	return inflate(r)
}

// inflate reads a compressed payload to the bound of a text.
func inflate(r io.Reader) (string, bool) {
	var b bytes.Buffer
	_, err := io.Copy(&b, io.LimitReader(r, maxParse+1))
	return b.String(), err == nil && b.Len() <= maxParse
}

// payloads finds encoded text in code and literals: at least 8 characters of
// base64 or hex that decode to readable text.
var payload = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}|(?:\\x[0-9a-fA-F]{2}){4,}`)

// maxLayers is how often a payload may be wrapped in another.
const maxLayers = 4

// payloads decodes what a text holds in encoded form, layer by layer.
func payloads(text string) []string {
	var out []string
	layer := []string{text}
	for range maxLayers {
		var next []string
		for _, t := range layer {
			for _, m := range payload.FindAllString(t, 32) {
				for _, d := range decodings(m) {
					if readable(d) && len(out) < 64 {
						out = append(out, d)
						next = append(next, d)
					}
				}
			}
		}
		if len(next) == 0 {
			break
		}
		layer = next
	}
	return out
}

func decodings(m string) []string {
	var out []string
	add := func(s string, ok bool) {
		if !ok || s == "" {
			return
		}
		out = append(out, s)
		if t, ok := unzip(s); ok {
			out = append(out, t)
		}
		if r, err := zlib.NewReader(strings.NewReader(s)); err == nil {
			if t, ok := inflate(r); ok {
				out = append(out, t)
			}
		}
	}
	if strings.HasPrefix(m, `\x`) {
		add(unhex(strings.ReplaceAll(m, `\x`, "")))
		return out
	}
	add(unbase64(m))
	if len(m)%2 == 0 {
		add(unhex(m))
	}
	return out
}

// readable reports whether bytes are text that could be a command.
func readable(s string) bool {
	if len(s) < 4 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return strings.ContainsAny(s, " /(") || len(s) >= 16
}

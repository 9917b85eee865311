//go:build !unix

package audit

import "os"

// mapped gives fn the bytes of a file.
func mapped(path string, fn func([]byte) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return fn(b)
}

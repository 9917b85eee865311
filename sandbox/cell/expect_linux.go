package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// stale is the first file that is not as it was judged, "" when all are. In a
// layer they are copied up first: from then on nobody outside can change them.
func (s *site) stale(expect map[string]string) string {
	for file, want := range expect {
		if s.spec.View.Layer != nil && want != "" {
			copyUp(file)
		}
		if have, err := contentSum(file); err != nil || have != want {
			return file
		}
	}
	return ""
}

// copyUp makes the overlay take the file into its upper layer, as opening it for
// writing does, and setting its mode where it may not be written. Where neither
// works the file lies on a read-only mount, which no command can change.
func copyUp(file string) {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return
	}
	var st unix.Stat_t
	if unix.Stat(file, &st) == nil {
		_ = unix.Chmod(file, st.Mode&0o7777)
	}
}

// contentSum is the digest of a file's content, "" when there is no such file.
func contentSum(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// metaPage is what we need of one of the two meta pages of a bbolt file.
type metaPage struct {
	txid uint64
	end  int64 // bytes of the file that are in use
}

var errMetaPage = errors.New("is damaged")

// readMetaPage reads meta page i. The layout is bbolt's: a page header of 16
// bytes (id, flags), then magic, version, page size, flags, root, free list,
// page count, transaction and an FNV-1a sum of all that.
func readMetaPage(f *os.File, i int64) (metaPage, error) {
	page := make([]byte, 80)
	if _, err := f.ReadAt(page, 0); err != nil {
		return metaPage{}, fmt.Errorf("meta page 0 cannot be read: %w", err)
	}
	size := int64(binary.NativeEndian.Uint32(page[24:]))
	if _, err := f.ReadAt(page, i*size); err != nil && !errors.Is(err, io.EOF) {
		return metaPage{}, fmt.Errorf("meta page %d cannot be read: %w", i, err)
	}
	sum := fnv.New64a()
	sum.Write(page[16:72])
	intact := binary.NativeEndian.Uint64(page[0:]) == uint64(i) &&
		binary.NativeEndian.Uint16(page[8:]) == 4 && // meta flag
		binary.NativeEndian.Uint32(page[16:]) == 0xED0CDAED && // magic
		binary.NativeEndian.Uint64(page[72:]) == sum.Sum64()
	if !intact {
		return metaPage{}, fmt.Errorf("meta page %d %w", i, errMetaPage)
	}
	return metaPage{
		txid: binary.NativeEndian.Uint64(page[64:]),
		end:  int64(binary.NativeEndian.Uint64(page[56:])) * int64(binary.NativeEndian.Uint32(page[24:])),
	}, nil
}

// checkMetaPages looks at both of a file's meta pages. bbolt goes on with the
// older one when the newer is damaged, which silently undoes a commit.
func checkMetaPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range int64(2) {
		if _, err := readMetaPage(f, i); err != nil {
			return fmt.Errorf("%w: the last commit may be undone", err)
		}
	}
	return nil
}

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
	txid     uint64
	root     uint64 // page
	pageSize int64
	end      int64 // bytes of the file that are in use
}

var errMetaPage = errors.New("is damaged")

// readMetaPage reads meta page i of a file. The layout is bbolt's: a page header of
// 16 bytes (id, flags), then magic, version, page size, flags, root, free list,
// page count, transaction and an FNV-1a sum of all that.
func readMetaPage(f *os.File, i int64) (metaPage, error) {
	page := make([]byte, metaSize)
	if _, err := f.ReadAt(page, 0); err != nil {
		return metaPage{}, fmt.Errorf("meta page 0 cannot be read: %w", err)
	}
	size := int64(binary.NativeEndian.Uint32(page[24:]))
	if _, err := f.ReadAt(page, i*size); err != nil && !errors.Is(err, io.EOF) {
		return metaPage{}, fmt.Errorf("meta page %d cannot be read: %w", i, err)
	}
	return parseMetaPage(page, i, size)
}

// metaSize is how much of a meta page is in use.
const metaSize = 80

func parseMetaPage(page []byte, i, size int64) (metaPage, error) {
	sum := fnv.New64a()
	sum.Write(page[16:72])
	intact := binary.NativeEndian.Uint64(page[0:]) == uint64(i) &&
		binary.NativeEndian.Uint16(page[8:]) == 4 && // meta flag
		binary.NativeEndian.Uint32(page[16:]) == 0xED0CDAED && // magic
		binary.NativeEndian.Uint64(page[72:]) == sum.Sum64()
	if !intact {
		return metaPage{}, fmt.Errorf("meta page %d %w", i, errMetaPage)
	}
	if size <= 0 {
		return metaPage{}, fmt.Errorf("meta page %d %w", i, errMetaPage)
	}
	return metaPage{
		txid:     binary.NativeEndian.Uint64(page[64:]),
		root:     binary.NativeEndian.Uint64(page[32:]),
		pageSize: size,
		end:      int64(binary.NativeEndian.Uint64(page[56:])) * size,
	}, nil
}

// checkPages walks the pages of a closed segment without bbolt, which trusts
// what it reads: on a damaged or crafted file it could follow a size out of the
// page into other memory. Both meta pages must be intact too: bbolt goes on with
// the older one when the newer is damaged, which silently undoes a commit.
func checkPages(path string) error {
	return mapped(path, walkPages)
}

// walkPages is checkPages over the bytes of a file.
func walkPages(file []byte) error {
	w := pageWalk{file: file}
	if len(file) < metaSize {
		return errors.New("meta page 0 cannot be read: the file ends before it")
	}
	size := int64(binary.NativeEndian.Uint32(file[24:]))
	for i := range int64(2) {
		if int64(len(file)) < i*size+metaSize {
			return fmt.Errorf("meta page %d cannot be read: the file ends before it", i)
		}
		m, err := parseMetaPage(file[i*size:i*size+metaSize], i, size)
		if err != nil {
			return fmt.Errorf("%w: the last commit may be undone", err)
		}
		if m.txid >= w.meta.txid {
			w.meta = m
		}
	}
	if int64(len(file)) < w.meta.end || w.meta.end < 0 {
		return errors.New("the file is shorter than its pages")
	}
	w.seen = make([]bool, w.meta.end/w.meta.pageSize)
	return w.page(w.meta.root, true)
}

const (
	pageHeader  = 16
	pageElement = 16
	flagBranch  = 1
	flagLeaf    = 2
	flagBucket  = 1 // of an element
)

// pageWalk visits each page of a bbolt file once.
type pageWalk struct {
	file []byte
	meta metaPage
	seen []bool // by page
}

func (w *pageWalk) page(id uint64, top bool) error {
	damaged := func() error { return fmt.Errorf("page %d is damaged", id) }
	count := uint64(len(w.seen))
	if id < 2 || id >= count || w.seen[id] {
		return damaged()
	}
	w.seen[id] = true
	size := uint64(w.meta.pageSize)
	head := w.file[id*size : id*size+pageHeader]
	overflow := uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head) != id || id+overflow >= count {
		return damaged()
	}
	body := w.file[id*size : (id+overflow+1)*size]
	return w.elements(body, top, damaged)
}

// elements checks the entries of a page, or of a small bucket that lies in
// another's page.
func (w *pageWalk) elements(body []byte, top bool, damaged func() error) error {
	if len(body) < pageHeader {
		return damaged()
	}
	flags, count := binary.NativeEndian.Uint16(body[8:]), int(binary.NativeEndian.Uint16(body[10:]))
	if flags != flagBranch && flags != flagLeaf || pageHeader+count*pageElement > len(body) {
		return damaged()
	}
	for i := range count {
		at := pageHeader + i*pageElement
		e := body[at : at+pageElement]
		number := func(i int) int64 { return int64(binary.NativeEndian.Uint32(e[i:])) }
		if flags == flagBranch {
			if int64(at)+number(0)+number(4) > int64(len(body)) {
				return damaged()
			}
			if err := w.page(binary.NativeEndian.Uint64(e[8:]), top); err != nil {
				return err
			}
			continue
		}
		start := int64(at) + number(4) + number(8)
		if start+number(12) > int64(len(body)) {
			return damaged()
		}
		if number(0) == 0 {
			continue
		}
		if err := w.bucket(body[start:start+number(12)], top && number(0) == flagBucket, damaged); err != nil {
			return err
		}
	}
	return nil
}

// bucket follows a bucket's value: its root page, its sequence and, when it is
// small, its page itself. Segments have no buckets in buckets.
func (w *pageWalk) bucket(value []byte, allowed bool, damaged func() error) error {
	if !allowed || len(value) < 16 {
		return damaged()
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		if len(value) != 16 {
			return damaged()
		}
		return w.page(root, false)
	}
	inner := value[16:]
	if len(inner) < pageHeader || binary.NativeEndian.Uint16(inner[8:]) != flagLeaf {
		return damaged()
	}
	return w.elements(inner, false, damaged)
}

package sandbox

import (
	"fmt"
	"io"
)

// capture keeps at most limit bytes of a stream, the first half and the last
// half of them, and counts the rest. A negative limit keeps everything.
type capture struct {
	limit int64
	head  []byte
	tail  []byte // ring once full
	next  int    // where the ring's oldest byte is
	total int64
}

// drain reads r to its end; what is beyond the limit is dropped but read, so
// that the program never blocks on it.
func (c *capture) drain(r io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		c.write(buf[:n])
		if err != nil {
			return
		}
	}
}

func (c *capture) write(p []byte) {
	c.total += int64(len(p))
	if c.limit < 0 {
		c.head = append(c.head, p...)
		return
	}
	room := int(c.limit/2) - len(c.head)
	if room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := int(c.limit) - int(c.limit/2)
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if grow := min(size-len(c.tail), len(p)); grow > 0 {
		c.tail = append(c.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		p = p[n:]
		c.next = (c.next + n) % size
	}
}

// output is what was kept. Where bytes are missing, a line in the middle says
// how many; it takes the place of some of the kept ones, so that Data stays
// within the limit.
func (c *capture) output() Output {
	tail := append(append([]byte(nil), c.tail[c.next:]...), c.tail[:c.next]...)
	kept := int64(len(c.head) + len(tail))
	if c.total <= kept {
		return Output{Data: append(c.head, tail...), Total: c.total}
	}
	note := fmt.Appendf(nil, "\n[sallyport: %d bytes left out here]\n", c.total-kept)
	if len(note) > len(tail) {
		return Output{Data: c.head, Total: c.total}
	}
	return Output{Data: append(append(c.head, note...), tail[len(note):]...), Total: c.total}
}

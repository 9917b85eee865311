//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// ReadFile gives the whole content of a file of at most most bytes (MaxEditFile
// when most is not positive), with the confinement of Do.
func (w *Workspace) ReadFile(p string, most int64) ([]byte, error) {
	if most <= 0 {
		most = MaxEditFile
	}
	s, err := w.find("read", p, follow)
	if err != nil {
		return nil, err
	}
	defer s.close()
	b, _, err := s.load(most)
	if err != nil {
		return nil, failure("read", p, err)
	}
	return b, nil
}

// Digest is the hex SHA-256 of a file's content, "" when there is no such file.
func (w *Workspace) Digest(p string) (string, error) {
	s, err := w.find("digest", p, follow)
	var e *Error
	if errors.As(err, &e) && e.Kind == KindMissing {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer s.close()
	sum, err := s.digest()
	if err != nil {
		return "", failure("digest", p, err)
	}
	return sum, nil
}

// Exists reports whether p names something beneath the workspace.
func (w *Workspace) Exists(p string) bool {
	s, err := w.find("look at", p, follow)
	if err != nil {
		return false
	}
	defer s.close()
	_, err = s.stat()
	return err == nil
}

// Resolve says where p really leads: the workspace-relative path without
// symbolic links. What does not exist yet is taken as it is written.
func (w *Workspace) Resolve(p string) (string, error) {
	clean := path.Clean(p)
	s, err := w.find("resolve", clean, follow)
	if err == nil {
		defer s.close()
		return s.path, nil
	}
	var e *Error
	if dir := path.Dir(clean); dir != clean && errors.As(err, &e) && e.Kind == KindMissing {
		real, err := w.Resolve(dir)
		return join(real, path.Base(clean)), err
	}
	return "", err
}

// findFor walks to an operation's path. Where the plan looked the path up, no
// link is followed.
func (w *Workspace) findFor(op FileOp, how reach) (*spot, error) {
	if !op.Real {
		return w.find(string(op.Op), op.Path, how)
	}
	if real, err := w.Resolve(op.Path); err == nil && real != path.Clean(op.Path) {
		return nil, stale(string(op.Op), op.Path)
	}
	return w.find(string(op.Op), op.Path, how|noLink|strict)
}

// load reads the whole file when it has at most most bytes.
func (s *spot) load(most int64) ([]byte, unix.Stat_t, error) {
	f, st, err := s.openFile()
	if err != nil {
		return nil, st, err
	}
	defer f.Close()
	b, err := loadFrom(f, st.Size, most)
	return b, st, err
}

// errTooLarge is a file past the bound of whoever reads it.
type errTooLarge struct{ size, most int64 }

func (e errTooLarge) Error() string {
	return fmt.Sprintf("it has %d bytes, more than the %d this operation takes", e.size, e.most)
}

func loadFrom(f *os.File, size, most int64) ([]byte, error) {
	if size > most {
		return nil, errTooLarge{size, most}
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	n, err := buf.ReadFrom(io.LimitReader(f, most+1))
	if err == nil && n > most {
		err = errTooLarge{n, most}
	}
	return buf.Bytes(), err
}

// digest is "" when the name does not exist.
func (s *spot) digest() (string, error) {
	f, _, err := s.openFile()
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (w *Workspace) read(ctx context.Context, op FileOp, expect map[string]string) (FileResult, error) {
	act := "read"
	s, err := w.findFor(op, follow)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	f, st, err := s.openFile()
	if err != nil {
		return FileResult{}, failure(act, op.Path, err)
	}
	defer f.Close()
	if st.Size > MaxReadFile {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("read %s: %v", op.Path, errTooLarge{st.Size, MaxReadFile}),
			Remedy: "use grep to find the part you need, or run_command with head, tail or sed -n"}
	}
	want := Read{}
	if op.Read != nil {
		want = *op.Read
	}
	res, err := readLines(ctx, f, st.Size, want)
	if err != nil {
		if ctx.Err() != nil {
			return FileResult{}, canceled(act, op.Path, err)
		}
		return FileResult{}, failure(act, op.Path, err)
	}
	res.Path = s.path
	if want, ok := expected(expect, op.Path, s.path); ok && want != res.SHA256 {
		return FileResult{}, stale(act, op.Path)
	}
	return res, nil
}

// lineReader cuts a stream into the lines asked for, and counts and digests
// all of it.
type lineReader struct {
	first, end int // 1-based, end exclusive
	line       int // number of the line being read
	sum        hash.Hash
	res        FileResult
}

// readLines streams r once: it keeps the lines asked for, and counts and
// digests the rest. size is about how much there is to read.
func readLines(ctx context.Context, r io.Reader, size int64, want Read) (FileResult, error) {
	first := max(want.Offset, 1)
	limit := want.Limit
	if limit <= 0 {
		limit = DefaultReadLines
	}
	l := lineReader{first: first, end: first + limit, line: 1, sum: sha256.New()}
	buf := make([]byte, min(size+1, 256<<10))
	l.res.Data = make([]byte, 0, min(size, int64(limit)*64, MaxReadData))
	for open := false; ; {
		if err := ctx.Err(); err != nil {
			return l.res, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if l.res.Size == 0 {
				l.res.Binary = isBinary(buf[:n])
			}
			l.take(buf[:n])
			open = buf[n-1] != '\n'
		}
		if err == io.EOF {
			l.finish(open)
			return l.res, nil
		}
		if err != nil {
			return l.res, err
		}
	}
}

func (l *lineReader) take(b []byte) {
	l.res.Size += int64(len(b))
	l.sum.Write(b)
	if l.res.Binary {
		return
	}
	ends := bytes.Count(b, []byte{'\n'})
	switch whole := l.line + ends; {
	case l.line >= l.end || whole < l.first: // nothing of it was asked for
		l.line = whole
		return
	case l.line >= l.first && whole < l.end: // all of it
		l.keep(b)
		l.line = whole
		return
	}
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		part := b[:n]
		if n == 0 {
			part = b
		}
		if l.line >= l.first && l.line < l.end {
			l.keep(part)
		}
		if n > 0 {
			l.line++
		}
		b = b[len(part):]
	}
}

func (l *lineReader) keep(part []byte) {
	if room := MaxReadData - len(l.res.Data); len(part) > room {
		part, l.res.Cut = part[:room], true
	}
	l.res.Data = append(l.res.Data, part...)
}

func (l *lineReader) finish(open bool) {
	l.res.SHA256 = hex.EncodeToString(l.sum.Sum(nil))
	if l.res.Binary {
		return
	}
	l.res.Lines = l.line - 1
	if open {
		l.res.Lines++
	}
	if len(l.res.Data) > 0 {
		l.res.First = l.first
	}
	l.res.Cut = l.res.Cut || l.res.Lines >= l.end
}

// isBinary looks for a NUL in the first 8,000 bytes, as git does. UTF-16 and
// UTF-32 text counts as binary.
func isBinary(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
}

// expected finds what a file must hold, under the name that was asked or the
// one it really has.
func expected(expect map[string]string, asked, real string) (string, bool) {
	if want, ok := expect[asked]; ok {
		return want, true
	}
	want, ok := expect[real]
	return want, ok
}

package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// closedFile tells, signed, the digest of the newest segment as Close left it,
// and is gone while the log is open. So a log that was closed in order shows any
// change to its files; one whose process died has the tree alone to show it.
const closedFile = "closed"

func closedText(origin string, d sealedDetail) string {
	return origin + "/closed\n" + d.Segment + "\n" + strconv.FormatInt(d.Bytes, 10) + "\n" + d.SHA256 + "\n"
}

// leaveClosed writes closedFile for the segment in path, which nobody writes any
// more.
func (l *Log) leaveClosed(path string) error {
	if err := trimSegment(path); err != nil {
		return err
	}
	sum, size, err := digestFile(context.Background(), path)
	if err != nil {
		return err
	}
	text := closedText(l.keys.origin, sealedDetail{Segment: filepath.Base(path), Bytes: size, SHA256: sum})
	signed, err := note.Sign(&note.Note{Text: text}, l.keys.signer)
	if err != nil {
		return err
	}
	return writeFileSynced(filepath.Join(l.dir, closedFile), signed)
}

// forgetClosed removes closedFile before the first write.
func forgetClosed(dir string) error {
	err := os.Remove(filepath.Join(dir, closedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// closed holds the newest segment against closedFile, where there is one.
func (v *verification) closed(seg segment, got sealedDetail) {
	bad := func(status VerifyStatus, format string, args ...any) {
		v.problem(status, seg.first, format, args...)
	}
	signed, err := os.ReadFile(filepath.Join(v.reader.dir, closedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		bad(VerifyTampered, "the note on how the log was closed cannot be read: %v", err)
		return
	}
	n, err := openNote(signed, v.known)
	if err != nil {
		bad(VerifyTampered, "the note on how the log was closed does not verify: %v", err)
		return
	}
	lines := strings.Split(n.Text, "\n")
	name := filepath.Base(seg.path)
	switch {
	case len(lines) != 5 || lines[0] != v.reader.keys.origin+"/closed":
		bad(VerifyTampered, "the note on how the log was closed is about something else")
	case lines[1] > name:
		bad(VerifyTruncated, "the log was closed with segment %s, which is missing", lines[1])
	case lines[1] != name || lines[2] != strconv.FormatInt(got.Bytes, 10) || lines[3] != got.SHA256:
		bad(VerifyTampered, "segment %s is not as the log left it when it was closed", name)
	}
}

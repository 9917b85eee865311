//go:build linux

package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// workspace opens a fresh tree with the given files and a sibling directory
// outside it that holds "secret".
func workspace(t testing.TB, files map[string]string) (*Workspace, string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root := filepath.Join(base, "ws")
	require.NoError(t, os.MkdirAll(root, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(base, "outside"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(base, "outside", "secret"), []byte("secret\n"), 0o644))
	for name, content := range files {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
	}
	w, err := OpenWorkspace(root)
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	return w, base
}

func do(t testing.TB, w *Workspace, op FileOp) (FileResult, error) {
	t.Helper()
	return w.Do(context.Background(), op, nil)
}

func wantKind(t testing.TB, err error, k Kind) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, k, e.Kind, e.Error())
	assert.NotEmpty(t, e.Remedy)
	return e
}

func content(t testing.TB, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return string(b)
}

func writeOp(p, content string) FileOp {
	return FileOp{Op: OpWrite, Path: p, Write: &Write{Content: []byte(content)}}
}

func editOp(p, old, new string) FileOp {
	return FileOp{Op: OpEdit, Path: p, Edit: &Edit{Old: old, New: new}}
}

func TestConfinement(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, map[string]string{"in.txt": "in\n", "sub/deep.txt": "deep\n"})
	root := w.Root()
	for link, target := range map[string]string{
		"out-abs":  filepath.Join(base, "outside"),
		"out-rel":  "../outside",
		"out-file": "../outside/secret",
		"out-new":  "../outside/new",
		"sub/up":   "../../outside",
		"magic":    "/proc/self/root",
		"loop":     "loop",
		"in-rel":   "sub/../in.txt",
		"in-abs":   filepath.Join(root, "in.txt"),
		"in-dir":   "sub",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	escapes := []string{
		"..", "../outside/secret", "/etc/passwd", filepath.Join(base, "outside", "secret"), "sub/../../outside/secret",
		"out-abs/secret", "out-rel/secret", "out-file", "sub/up/secret", "out-new", "magic/etc/passwd", "in-dir/../../outside/secret",
	}
	for _, p := range escapes {
		for _, op := range []FileOp{
			{Op: OpRead, Path: p}, {Op: OpList, Path: p}, {Op: OpGlob, Path: p, Glob: &Glob{Pattern: "*"}},
			{Op: OpSearch, Path: p, Search: &Search{Pattern: "."}}, writeOp(p, "x"), editOp(p, "secret", "x"),
		} {
			_, err := do(t, w, op)
			wantKind(t, err, KindOutside)
		}
		assert.False(t, w.Exists(p))
		_, err := w.ReadFile(p, 0)
		wantKind(t, err, KindOutside)
	}
	for _, p := range []string{"in.txt", "in-rel", "in-abs", "./sub/../in.txt"} {
		r, err := do(t, w, FileOp{Op: OpRead, Path: p})
		require.NoError(t, err, p)
		assert.Equal(t, "in\n", string(r.Data))
		assert.Equal(t, "in.txt", r.Path, "the real target is reported")
	}
	r, err := do(t, w, writeOp("in-dir/new.txt", "x"))
	require.NoError(t, err)
	assert.Equal(t, "sub/new.txt", r.Change.Path)
	_, err = do(t, w, FileOp{Op: OpRead, Path: "loop"})
	wantKind(t, err, KindInvalid)
	assert.Equal(t, "secret\n", content(t, base, "outside", "secret"))
	entries, err := os.ReadDir(filepath.Join(base, "outside"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestSpecialFilesAreRefusedWithoutBlocking(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"f": "x"})
	require.NoError(t, unix.Mkfifo(filepath.Join(w.Root(), "fifo"), 0o644))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(w.Root(), "sock")}))
	names := []string{"fifo", "sock", "."}
	if unix.Mknod(filepath.Join(w.Root(), "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
		names = append(names, "null")
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		for _, name := range names {
			for _, op := range []FileOp{{Op: OpRead, Path: name}, {Op: OpRead, Path: "./" + name}, writeOp(name, "y"), editOp(name, "x", "y")} {
				_, err := do(t, w, op)
				wantKind(t, err, KindInvalid)
			}
			if name != "." {
				_, err := do(t, w, FileOp{Op: OpSearch, Path: name, Search: &Search{Pattern: "x"}})
				wantKind(t, err, KindInvalid)
			}
			_, err := w.FS().Open(name)
			assert.True(t, name == "." || err != nil)
		}
		r, err := do(t, w, FileOp{Op: OpSearch, Path: ".", Search: &Search{Pattern: "x"}})
		assert.NoError(t, err)
		assert.Equal(t, 1, r.Total)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a special file blocks")
	}
}

func TestWriteBreaksHardLinks(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, nil)
	out := filepath.Join(base, "outside", "secret")
	require.NoError(t, os.Link(out, filepath.Join(w.Root(), "hard")))
	_, err := do(t, w, writeOp("hard", "mine\n"))
	require.NoError(t, err)
	assert.Equal(t, "secret\n", content(t, out))
	assert.Equal(t, "mine\n", content(t, w.Root(), "hard"))
	require.NoError(t, os.Link(out, filepath.Join(w.Root(), "hard2")))
	_, err = do(t, w, editOp("hard2", "secret", "mine"))
	require.NoError(t, err)
	assert.Equal(t, "secret\n", content(t, out))
}

// TestSwapRace renames a directory and a link that leads outside over one
// another while files are read and written through that name.
func TestSwapRace(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, map[string]string{"d/secret": "inside\n"})
	root := w.Root()
	require.NoError(t, os.Symlink("../outside", filepath.Join(root, "l")))
	ctx, stop := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer stop()
	swapped := make(chan bool)
	go func() {
		defer close(swapped)
		for ctx.Err() == nil {
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "d"), unix.AT_FDCWD, filepath.Join(root, "l"), unix.RENAME_EXCHANGE)
			time.Sleep(200 * time.Microsecond)
		}
	}()
	reads, refused := 0, 0
	for ctx.Err() == nil {
		r, err := do(t, w, FileOp{Op: OpRead, Path: "d/secret"})
		if err == nil {
			reads++
			assert.NotEqual(t, "secret\n", string(r.Data))
		} else {
			refused++
		}
		do(t, w, writeOp("d/secret", "inside\n"))
		do(t, w, writeOp("d/planted", "inside\n"))
		do(t, w, FileOp{Op: OpRemove, Path: "d/planted"})
		do(t, w, FileOp{Op: OpMove, Path: "d/secret", To: "d/moved"})
		do(t, w, FileOp{Op: OpMove, Path: "d/moved", To: "d/secret"})
	}
	<-swapped
	t.Logf("%d reads, %d refused", reads, refused)
	assert.Equal(t, "secret\n", content(t, base, "outside", "secret"))
	entries, err := os.ReadDir(filepath.Join(base, "outside"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing was planted outside")
}

func TestRead(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("line\n", 5000)
	w, _ := workspace(t, map[string]string{
		"a": "1\n2\n3\n", "open": "1\n2", "empty": "", "bin": "a\x00b", "latin1": "caf\xe9\n", "many": many,
	})
	for _, tc := range []struct {
		path          string
		read          Read
		data          string
		first, lines  int
		binary, isCut bool
	}{
		{"a", Read{}, "1\n2\n3\n", 1, 3, false, false},
		{"a", Read{Offset: 2}, "2\n3\n", 2, 3, false, false},
		{"a", Read{Offset: 2, Limit: 1}, "2\n", 2, 3, false, true},
		{"a", Read{Offset: 4}, "", 0, 3, false, false},
		{"open", Read{}, "1\n2", 1, 2, false, false},
		{"empty", Read{}, "", 0, 0, false, false},
		{"bin", Read{}, "", 0, 0, true, false},
		{"latin1", Read{}, "caf\xe9\n", 1, 1, false, false},
		{"many", Read{}, strings.Repeat("line\n", DefaultReadLines), 1, 5000, false, true},
		{"many", Read{Offset: 4999}, "line\nline\n", 4999, 5000, false, false},
	} {
		r, err := do(t, w, FileOp{Op: OpRead, Path: tc.path, Read: &tc.read})
		require.NoError(t, err)
		assert.Equal(t, tc.data, string(r.Data), tc.path)
		assert.Equal(t, []any{tc.first, tc.lines, tc.binary, tc.isCut}, []any{r.First, r.Lines, r.Binary, r.Cut}, "%s %v", tc.path, tc.read)
		sum, err := w.Digest(tc.path)
		require.NoError(t, err)
		assert.Equal(t, sum, r.SHA256)
	}
	_, err := do(t, w, FileOp{Op: OpRead, Path: "nope"})
	e := wantKind(t, err, KindMissing)
	assert.Equal(t, "read nope: no such file or directory", e.Error())
	_, err = do(t, w, FileOp{Op: OpRead, Path: "a/b"})
	wantKind(t, err, KindInvalid)
	_, err = do(t, w, FileOp{Op: OpRead, Path: strings.Repeat("n", 300)})
	wantKind(t, err, KindInvalid)
	sum, err := w.Digest("nope")
	assert.NoError(t, err)
	assert.Empty(t, sum)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"old": "old\n"})
	require.NoError(t, os.Chmod(filepath.Join(w.Root(), "old"), 0o750))
	r, err := do(t, w, writeOp("a/b/c.txt", "new\n"))
	require.NoError(t, err)
	assert.Equal(t, &Change{Path: "a/b/c.txt", Kind: "added", After: hexSum([]byte("new\n")), Size: 4}, r.Change)
	r, err = do(t, w, writeOp("old", "new\n"))
	require.NoError(t, err)
	assert.Equal(t, "modified", r.Change.Kind)
	fi, err := os.Stat(filepath.Join(w.Root(), "old"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o750), fi.Mode().Perm())
	r, err = do(t, w, writeOp("old", "new\n"))
	require.NoError(t, err)
	assert.Nil(t, r.Change, "the same content is no change")
	left, err := filepath.Glob(filepath.Join(w.Root(), ".sallyport-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestNewFilesBelongToTheWorkspace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root writes for another owner")
	}
	_, base := workspace(t, nil)
	root := filepath.Join(base, "ws")
	require.NoError(t, os.Chown(root, 1234, 2345))
	w, err := OpenWorkspace(root)
	require.NoError(t, err)
	defer w.Close()
	_, err = do(t, w, writeOp("d/f", "x"))
	require.NoError(t, err)
	for _, p := range []string{"d", "d/f"} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(root, p), &st))
		assert.Equal(t, []uint32{1234, 2345}, []uint32{st.Uid, st.Gid}, p)
	}
	require.NoError(t, os.Chown(filepath.Join(root, "d/f"), 77, 88))
	_, err = do(t, w, writeOp("d/f", "y"))
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(root, "d/f"), &st))
	assert.Equal(t, []uint32{77, 88}, []uint32{st.Uid, st.Gid})
}

func TestExpect(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"f": "one\n"})
	require.NoError(t, os.Symlink("f", filepath.Join(w.Root(), "l")))
	good, bad := hexSum([]byte("one\n")), hexSum([]byte("two\n"))
	for _, tc := range []struct {
		op     FileOp
		expect map[string]string
		kind   Kind
	}{
		{writeOp("f", "x"), map[string]string{"f": bad}, KindStale},
		{writeOp("f", "x"), map[string]string{"f": ""}, KindStale},
		{writeOp("l", "x"), map[string]string{"f": bad}, KindStale},
		{writeOp("new", "x"), map[string]string{"new": bad}, KindStale},
		{editOp("f", "one", "x"), map[string]string{"f": bad}, KindStale},
		{FileOp{Op: OpRead, Path: "f"}, map[string]string{"f": bad}, KindStale},
		{FileOp{Op: OpRemove, Path: "f"}, map[string]string{"f": bad}, KindStale},
		{FileOp{Op: OpMove, Path: "f", To: "g"}, map[string]string{"f": bad}, KindStale},
		{editOp("f", "one", "two"), map[string]string{"f": good}, ""},
		{writeOp("f", "one\n"), map[string]string{"f": bad}, ""},
		{writeOp("new", "x"), map[string]string{"new": ""}, ""},
	} {
		_, err := w.Do(context.Background(), tc.op, tc.expect)
		if tc.kind == "" {
			assert.NoError(t, err)
			continue
		}
		wantKind(t, err, tc.kind)
		assert.Equal(t, "one\n", content(t, w.Root(), "f"))
	}
}

func TestFS(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"a.txt": "a", "d/b.txt": "b"})
	require.NoError(t, fstest.TestFS(w.FS(), "a.txt", "d/b.txt"))
	require.NoError(t, os.Symlink("../outside/secret", filepath.Join(w.Root(), "out")))
	_, err := fs.ReadFile(w.FS(), "out")
	assert.Error(t, err)
	_, err = fs.ReadFile(w.FS(), "nope")
	assert.True(t, errors.Is(err, fs.ErrNotExist))
}

func TestOpenWorkspaceRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "l")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	for _, root := range []string{"relative", filepath.Join(dir, "nope"), filepath.Join(dir, "l"), filepath.Join(dir, "f")} {
		_, err := OpenWorkspace(root)
		var e *Error
		assert.ErrorAs(t, err, &e, root)
	}
}

//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBigFileIsStreamed reads a few lines of 100 MB without holding it.
func TestBigFileIsStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	w, _ := workspace(t, nil)
	f, err := os.Create(filepath.Join(w.Root(), "big"))
	require.NoError(t, err)
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	for range 100 {
		_, err = f.Write(chunk)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := do(t, w, FileOp{Op: OpRead, Path: "big", Read: &Read{Offset: 6_000_000, Limit: 2}})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, "0123456789abcde\n0123456789abcde\n", string(r.Data))
	assert.Equal(t, 100<<16, r.Lines)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	for name, op := range map[string]FileOp{
		"edit": editOp("big", "0", "1"),
	} {
		_, err = do(t, w, op)
		wantKind(t, err, KindInvalid)
		assert.Contains(t, err.Error(), name)
	}
	require.NoError(t, os.Truncate(filepath.Join(w.Root(), "big"), MaxReadFile+1))
	_, err = do(t, w, FileOp{Op: OpRead, Path: "big"})
	e := wantKind(t, err, KindInvalid)
	assert.Contains(t, e.Remedy, "grep")
}

func TestLongLineIsCut(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"long": strings.Repeat("x", MaxReadData+10) + "\nnext\n"})
	r, err := do(t, w, FileOp{Op: OpRead, Path: "long"})
	require.NoError(t, err)
	assert.Len(t, r.Data, MaxReadData)
	assert.True(t, r.Cut)
	assert.Equal(t, 2, r.Lines)
}

// TestFullDisk runs itself in a mount namespace where the workspace is a tiny
// tmpfs: a write that does not fit changes nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("SALLYPORT_TEST_FULL_DISK"); dir != "" {
		fullDisk(t, dir)
		return
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("needs unshare(1)")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("unshare", "-Urm", "sh", "-c", `mount -t tmpfs -o size=64k tmpfs "$1" || exit 99; exec "$2" -test.run '^TestFullDisk$' -test.v`, "sh", dir, self)
	cmd.Env = append(os.Environ(), "SALLYPORT_TEST_FULL_DISK="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 99 || bytes.Contains(out, []byte("unshare:")) {
		t.Skip("needs user namespaces with tmpfs mounts: " + string(out))
	}
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestFullDisk")
}

func fullDisk(t *testing.T, dir string) {
	w, err := OpenWorkspace(dir)
	require.NoError(t, err)
	defer w.Close()
	_, err = do(t, w, writeOp("small", "small\n"))
	require.NoError(t, err)
	for _, op := range []FileOp{writeOp("new", strings.Repeat("x", 1<<20)), writeOp("small", strings.Repeat("x", 1<<20)), editOp("small", "small", strings.Repeat("y", 1<<20))} {
		_, err = do(t, w, op)
		e := wantKind(t, err, KindIO)
		assert.ErrorIs(t, e, unix.ENOSPC)
		assert.Contains(t, e.Remedy, "disk is full")
	}
	assert.Equal(t, "small\n", content(t, dir, "small"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no half-written file is left")
}

// TestKilledWriter kills a process that keeps rewriting a big file: what is left
// is one of the whole contents.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	whole := func(i int) string { return strings.Repeat(string(rune('a'+i)), size) }
	if dir := os.Getenv("SALLYPORT_TEST_KILLED_WRITER"); dir != "" {
		w, err := OpenWorkspace(dir)
		require.NoError(t, err)
		for i := 0; ; i++ {
			do(t, w, writeOp("f", whole(i%26)))
		}
	}
	w, _ := workspace(t, map[string]string{"f": whole(0)})
	self, err := os.Executable()
	require.NoError(t, err)
	for i := range 5 {
		cmd := exec.Command(self, "-test.run", "^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "SALLYPORT_TEST_KILLED_WRITER="+w.Root(), "SALLYPORT_TEST_CELL=none")
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(120+17*i) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		got := content(t, w.Root(), "f")
		require.Len(t, got, size)
		require.Equal(t, size, strings.Count(got, got[:1]), "half of one content and half of another")
	}
}

// TestConcurrentEdits lets many edits of one file race: none is lost.
func TestConcurrentEdits(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	const n = 40
	for i := range n {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	w, _ := workspace(t, map[string]string{"f": text.String()})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := w.Do(context.Background(), editOp("f", fmt.Sprintf("<%d>", i), fmt.Sprintf("[%d]", i)), nil)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	got := content(t, w.Root(), "f")
	assert.NotContains(t, got, "<")
	assert.Equal(t, n, strings.Count(got, "["))
}

// TestForeignWriterIsNotOverwritten lets another process write while edits are
// made: either the edit is refused as stale, or it was made on what was there.
func TestForeignWriterIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w, _ := workspace(t, map[string]string{"f": "0\nkeep\n"})
	p := filepath.Join(w.Root(), "f")
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range 300 {
			tmp := p + ".foreign"
			os.WriteFile(tmp, fmt.Appendf(nil, "%d\nkeep\n", i), 0o644)
			os.Rename(tmp, p)
		}
	}()
	for range 100 {
		_, err := do(t, w, editOp("f", "keep", "kept"))
		if err == nil {
			continue
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Contains(t, []Kind{KindStale, KindInvalid}, e.Kind)
	}
	<-done
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		w, _ := workspace(b, map[string]string{"d/e/f": strings.Repeat("0123456789abcde\n", size/16)})
		b.Run(fmt.Sprintf("Do/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := w.Do(context.Background(), FileOp{Op: OpRead, Path: "d/e/f", Read: &Read{Limit: 1 << 30}}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("os.ReadFile/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := os.ReadFile(filepath.Join(w.Root(), "d/e/f")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	w, _ := workspace(b, nil)
	i := 0
	for b.Loop() {
		i++
		if _, err := w.Do(context.Background(), writeOp("d/f", fmt.Sprint(i)), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSearch searches this machine's Go sources, next to grep -r.
func BenchmarkSearch(b *testing.B) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("needs the Go sources")
	}
	root, err := filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(goroot)), "src"))
	if err != nil {
		b.Skip("needs the Go sources")
	}
	w, err := OpenWorkspace(root)
	require.NoError(b, err)
	defer w.Close()
	for _, pattern := range []string{"ErrUnexpectedEOF", `func \w+Handler\(`, `[A-Z]{12,}`} {
		b.Run("Do/"+pattern, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.Do(context.Background(), FileOp{Op: OpSearch, Path: ".", Search: &Search{Pattern: pattern, Mode: SearchFiles}}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("grep/"+pattern, func(b *testing.B) {
			for b.Loop() {
				exec.Command("grep", "-rlIE", pattern, root).Run()
			}
		})
	}
}

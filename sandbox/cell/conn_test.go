//go:build linux

package cell

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ends are the two ends of one connection.
func ends(t *testing.T) (a, b *Conn) {
	t.Helper()
	a, fd, err := Pair()
	require.NoError(t, err)
	b = &Conn{file: os.NewFile(uintptr(fd), "other end")}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessagesArriveWholeWithTheirDescriptors(t *testing.T) {
	t.Parallel()
	a, b := ends(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	big := Run{Argv: []string{strings.Repeat("x", 1<<20)}, Dir: "/"}
	sent := make(chan error, 1)
	go func() {
		err := a.Send(Run{Argv: []string{"first"}}, int(w.Fd()))
		if err == nil {
			err = a.Send(big, int(w.Fd()), int(w.Fd()))
		}
		sent <- err
	}()
	var got Run
	fds, err := b.Receive(&got)
	require.NoError(t, err)
	assert.Equal(t, []string{"first"}, got.Argv)
	require.Len(t, fds, 1, "descriptors belong to the message they came with")
	_, err = unix.Write(fds[0], []byte("through"))
	require.NoError(t, err)
	buf := make([]byte, 16)
	n, err := r.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "through", string(buf[:n]))
	closeAll(fds)
	got = Run{}
	fds, err = b.Receive(&got)
	require.NoError(t, err)
	assert.Equal(t, big, got)
	assert.Len(t, fds, 2)
	closeAll(fds)
	require.NoError(t, <-sent)
	w.Close()
}

func TestTheEndIsEOF(t *testing.T) {
	t.Parallel()
	a, b := ends(t)
	require.NoError(t, a.Send(Exit{Code: 7}))
	a.Close()
	var e Exit
	_, err := b.Receive(&e)
	require.NoError(t, err)
	assert.Equal(t, 7, e.Code)
	_, err = b.Receive(&e)
	assert.ErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, b.Send(e), unix.EPIPE, "and no signal")
}

func TestHostileFramesAreRefused(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string][]byte{
		"too long":  {0xff, 0xff, 0xff, 0xff},
		"not JSON":  append([]byte{3, 0, 0, 0}, "{x}"...),
		"cut short": append([]byte{200, 0, 0, 0}, "{"...),
	} {
		a, b := ends(t)
		_, err := a.file.Write(frame)
		require.NoError(t, err)
		a.Close()
		var e Exit
		_, err = b.Receive(&e)
		assert.Error(t, err, name)
	}
	a, _ := ends(t)
	assert.Error(t, a.Send(Run{Argv: []string{strings.Repeat("x", maxMessage)}}))
}

// TestSpecSurvivesTheWire fails when a field of the wire types is forgotten in
// JSON: a wall that does not hear of its part does not raise it.
func TestSpecSurvivesTheWire(t *testing.T) {
	t.Parallel()
	for _, v := range []any{&Spec{}, &Run{}, &Exit{}, &Ready{}, &Clone{}, &Cloned{}} {
		fill(reflect.ValueOf(v).Elem(), 1)
		a, b := ends(t)
		require.NoError(t, a.Send(v))
		got := reflect.New(reflect.TypeOf(v).Elem())
		_, err := b.Receive(got.Interface())
		require.NoError(t, err)
		assert.Equal(t, v, got.Interface())
	}
}

// fill gives every field a value that is not its zero.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString("s" + string(rune('a'+n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	default:
		v.SetUint(uint64(n))
	}
}

func TestWallsAreNamedOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, w := range walls() {
		assert.False(t, seen[w.name], w.name)
		seen[w.name] = true
		assert.NotNil(t, w.raise, w.name)
	}
	names := Names()
	assert.Equal(t, "seccomp", names[len(names)-1], "it refuses what the others need")
}

func TestLandlockRightsMatchTheABI(t *testing.T) {
	t.Parallel()
	for abi := 1; abi < 12; abi++ {
		h := handled(abi)
		assert.Zero(t, handled(abi-1)&^h, "rights only grow")
		assert.Zero(t, h&^uint64(landV5))
	}
	s := &site{spec: Spec{View: View{Workspace: "/w", Writable: true}, Flags: unix.CLONE_NEWNS}}
	for _, r := range s.landRules() {
		assert.Zero(t, r.rights&makeNodes, "%s may make device nodes", r.path)
	}
}

func TestReadAroundLeavesOutWhatIsHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, p := range []string{"/a", "/s/b", "/s/secret"} {
		require.NoError(t, os.MkdirAll(dir+"/s", 0o755))
		require.NoError(t, os.WriteFile(dir+p, nil, 0o644))
	}
	require.NoError(t, os.Symlink("/etc", dir+"/link"))
	var paths bytes.Buffer
	for _, r := range readAround(dir, []string{dir + "/s/secret"}) {
		if r.rights&^uint64(8) != 0 { // more than listing (LANDLOCK_ACCESS_FS_READ_DIR)
			paths.WriteString(strings.TrimPrefix(r.path, dir) + " ")
		}
	}
	assert.Equal(t, "/a /s/b ", paths.String())
}

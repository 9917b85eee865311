//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// manifest prints all there is to know of a tree.
const manifest = `find . -mindepth 1 \( -type f -o -type d -o -type l \) -printf '%y %m %P -> %l\n' | sed 's/^l [0-7]* /l /' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum`

// overlaid runs script in an overlay over lower inside its own user and mount
// namespace and returns the manifest of the merged tree.
func overlaid(t *testing.T, lower, upper, work, script string) string {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("needs unshare(1)")
	}
	merged := t.TempDir()
	cmd := exec.Command("unshare", "-Urm", "sh", "-c",
		`mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3,userxattr" "$4" || exit 99; cd "$4" || exit 98; eval "$5" >&2; eval "$6"`,
		"sh", lower, upper, work, merged, script, manifest)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code == 99 || code == 1 && strings.Contains(errs.String(), "unshare") {
		t.Skip("needs user namespaces with overlay mounts: " + errs.String())
	}
	require.NoError(t, err, errs.String())
	return string(out)
}

func manifestOf(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", manifest)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// transaction runs script over a workspace with files, seals it and returns
// the merged manifest.
func transaction(t *testing.T, files map[string]string, script string) (s txStore, id, root, merged string, changes []Change) {
	t.Helper()
	w, base := workspace(t, files)
	s, root = txStore{filepath.Join(base, "tx")}, w.Root()
	id, upper, work, err := s.create(root)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Drop(id)) }) // also what the kernel left without permissions
	merged = overlaid(t, root, upper, work, script)
	changes, err = s.changes(id)
	require.NoError(t, err)
	again, err := changesOf(upper, root)
	require.NoError(t, err)
	assert.Equal(t, changes, again)
	return s, id, root, merged, changes
}

// changesOf is the whole comparison of two directories.
func changesOf(upper, lower string) ([]Change, error) {
	u, err := OpenWorkspace(upper)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	l, err := OpenWorkspace(lower)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	d, err := diffLayer(u, l)
	if err != nil {
		return nil, err
	}
	return d.changes(), nil
}

func kinds(changes []Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Kind+" "+c.Path)
	}
	return strings.Join(out, "\n")
}

var tree1 = map[string]string{
	"a": "a\n", "b": "b\n", "d/one": "1\n", "d/two": "2\n", "d/sub/x": "x\n", "d/sub/y": "y\n", "e/only": "e\n", ".git/config": "c\n", "m": "m\n",
}

func TestLanding(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, want string }{
		"nothing":               {"true", ""},
		"copy-up only":          {"touch a; cat a >/dev/null; chmod 600 b; chmod 644 b", ""},
		"same content":          {"printf 'a\\n' > a", ""},
		"modify":                {"echo x >> a", "modified a"},
		"add":                   {"mkdir -p n/m; echo x > n/m/f", "added n/m/f"},
		"add an empty dir":      {"mkdir -p n/m", "added n/m"},
		"mode":                  {"chmod +x a", "mode a"},
		"mode of a dir":         {"chmod 700 d", "mode d"},
		"remove":                {"rm a", "removed a"},
		"remove a tree":         {"rm -r d", "removed d/one\nremoved d/sub/x\nremoved d/sub/y\nremoved d/two"},
		"replace a tree":        {"rm -r d; mkdir d; echo 1 > d/one; mkdir d/sub; echo n > d/sub/x", "modified d/sub/x\nremoved d/sub/y\nremoved d/two"},
		"file becomes a dir":    {"rm a; mkdir a; echo x > a/x", "modified a\nadded a/x"},
		"dir becomes a file":    {"rm -r d; echo x > d", "modified d\nremoved d/one\nremoved d/sub/x\nremoved d/sub/y\nremoved d/two"},
		"dir becomes a link":    {"rm -r e; ln -s d e", "modified e\nremoved e/only"},
		"link":                  {"ln -s /etc/passwd l", "added l"},
		"file becomes a link":   {"rm a; ln -s b a", "modified a"},
		"rename":                {"mv a z", "removed a\nadded z"},
		"rename over":           {"mv a b", "removed a\nmodified b"},
		"git internals":         {"echo x > .git/config; mkdir .git/hooks; echo h > .git/hooks/pre-commit", "modified .git/config\nadded .git/hooks/pre-commit"},
		"set-uid does not land": {"chmod 4755 a; chmod 6644 b", "mode a"},
		"FIFO does not land":    {"mkfifo p", ""},
		"an add and its end":    {"echo x > t; rm t; mkdir u; rmdir u", ""},
		"hard link":             {"ln a h; echo more >> h", "modified a\nadded h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, id, root, merged, changes := transaction(t, tree1, tc.script)
			assert.Equal(t, tc.want, kinds(changes))
			landed, err := s.Land(context.Background(), id)
			require.NoError(t, err)
			assert.Equal(t, changes, landed)
			if !strings.Contains(name, "set-uid") {
				assert.Equal(t, merged, manifestOf(t, root))
			}
			var st unix.Stat_t
			if unix.Lstat(filepath.Join(root, "a"), &st) == nil {
				assert.Zero(t, st.Mode&(unix.S_ISUID|unix.S_ISGID))
			}
			_, err = s.Land(context.Background(), id)
			wantKind(t, err, KindMissing)
			assert.NoError(t, s.Drop(id))
		})
	}
}

// TestLandingEqualsTheMergedTree runs random scripts; the overlay itself is the
// oracle.
func TestLandingEqualsTheMergedTree(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "d", "d/one", "d/sub", "d/sub/x", "e", "e/only", "n", "n/m", "d/new", ".git", ".git/config"}
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 7))
		var script strings.Builder
		for range 3 + r.IntN(10) {
			x, y := names[r.IntN(len(names))], names[r.IntN(len(names))]
			verbs := []string{"echo %[3]d > %[1]s", "rm -rf %[1]s", "mkdir -p %[1]s", "mv %[1]s %[2]s", "ln -sfn %[2]s %[1]s", "chmod 7%[3]d5 %[1]s", "cp -r %[1]s %[2]s", "touch %[1]s"}
			fmt.Fprintf(&script, verbs[r.IntN(len(verbs))]+" 2>/dev/null; ", x, y, r.IntN(2)*5)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, id, root, merged, _ := transaction(t, tree1, script.String())
			_, err := s.Land(context.Background(), id)
			require.NoError(t, err, script.String())
			assert.Equal(t, merged, manifestOf(t, root), script.String())
		})
	}
}

func TestLandRefusesWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script   string
		meddle   func(root string) error
		conflict bool
	}{
		"modified twice":        {"echo x >> a", func(r string) error { return os.WriteFile(filepath.Join(r, "a"), []byte("mine\n"), 0o644) }, true},
		"added twice":           {"echo x > new", func(r string) error { return os.WriteFile(filepath.Join(r, "new"), []byte("mine\n"), 0o644) }, true},
		"removed but modified":  {"rm a", func(r string) error { return os.WriteFile(filepath.Join(r, "a"), []byte("mine\n"), 0o644) }, true},
		"modified but removed":  {"echo x >> a", func(r string) error { return os.Remove(filepath.Join(r, "a")) }, true},
		"another file":          {"echo x >> a", func(r string) error { return os.WriteFile(filepath.Join(r, "b"), []byte("mine\n"), 0o644) }, false},
		"the same change":       {"echo x >> a", func(r string) error { return os.WriteFile(filepath.Join(r, "a"), []byte("a\nx\n"), 0o644) }, false},
		"touched but as it was": {"echo x >> a", func(r string) error { return os.WriteFile(filepath.Join(r, "a"), []byte("a\n"), 0o644) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, id, root, _, _ := transaction(t, tree1, tc.script)
			require.NoError(t, tc.meddle(root))
			before := manifestOf(t, root)
			_, err := s.Land(context.Background(), id)
			if !tc.conflict {
				require.NoError(t, err)
				return
			}
			wantKind(t, err, KindStale)
			assert.Equal(t, before, manifestOf(t, root), "nothing landed")
			require.NoError(t, s.Drop(id))
			entries, err := os.ReadDir(s.dir)
			require.NoError(t, err)
			assert.Empty(t, entries)
		})
	}
}

func TestChangesDuringTheRunConflict(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, tree1)
	s := txStore{filepath.Join(base, "tx")}
	id, upper, work, err := s.create(w.Root())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Drop(id)) })
	overlaid(t, w.Root(), upper, work, "echo x >> a")
	require.NoError(t, os.WriteFile(filepath.Join(w.Root(), "a"), []byte("mine\n"), 0o644))
	_, err = s.changes(id)
	require.NoError(t, err)
	_, err = s.Land(context.Background(), id)
	wantKind(t, err, KindStale)
}

// TestLandIsRepeatable lets a landing fail half way and tries again.
func TestLandIsRepeatable(t *testing.T) {
	t.Parallel()
	s, id, root, merged, _ := transaction(t, tree1, "echo x > a0; echo x >> b; rm -r d; echo z > zz")
	ctx := &countdown{Context: context.Background(), left: 2}
	_, err := s.Land(ctx, id)
	wantKind(t, err, KindCanceled)
	assert.NotEqual(t, merged, manifestOf(t, root))
	ctx.left = 3
	_, err = s.Land(ctx, id)
	wantKind(t, err, KindCanceled)
	_, err = s.Land(context.Background(), id)
	require.NoError(t, err)
	assert.Equal(t, merged, manifestOf(t, root))
}

// countdown is a context that is cancelled after a number of looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestLandFollowsNoLink swaps a directory of the workspace for a link that
// leads outside before the landing.
func TestLandFollowsNoLink(t *testing.T) {
	t.Parallel()
	s, id, root, _, _ := transaction(t, tree1, "echo x > d/planted; echo x > e/planted")
	base := filepath.Dir(root)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "d")))
	require.NoError(t, os.Symlink("../outside", filepath.Join(root, "d")))
	_, err := s.Land(context.Background(), id)
	require.Error(t, err)
	entries, err := os.ReadDir(filepath.Join(base, "outside"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestLandSwapRace lands again and again while a directory of the workspace and
// a link that leads outside change places.
func TestLandSwapRace(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, map[string]string{"d/keep": "x\n"})
	root, s := w.Root(), txStore{filepath.Join(base, "tx")}
	require.NoError(t, os.Symlink("../outside", filepath.Join(root, "l")))
	ctx, stop := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer stop()
	swapped := make(chan bool)
	go func() {
		defer close(swapped)
		for ctx.Err() == nil {
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "d"), unix.AT_FDCWD, filepath.Join(root, "l"), unix.RENAME_EXCHANGE)
			time.Sleep(3 * time.Millisecond)
		}
	}()
	landed := 0
	for i := 0; ctx.Err() == nil; i++ {
		id, upper, _, err := s.create(root)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(upper, "d/new"), 0o755))
		for _, p := range []string{"d/f", "d/new/f", "d/secret"} {
			require.NoError(t, os.WriteFile(filepath.Join(upper, p), fmt.Append(nil, i), 0o644))
		}
		if _, err := s.Land(context.Background(), id); err == nil {
			landed++
		}
		require.NoError(t, s.Drop(id))
	}
	<-swapped
	t.Logf("%d landings", landed)
	assert.Equal(t, "secret\n", content(t, base, "outside", "secret"))
	entries, err := os.ReadDir(filepath.Join(base, "outside"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing landed outside")
}

func TestTxContent(t *testing.T) {
	t.Parallel()
	s, id, _, _, changes := transaction(t, tree1, "echo x >> a; ln -s /etc/passwd l; rm b")
	b, err := s.TxContent(id, "a")
	require.NoError(t, err)
	assert.Equal(t, "a\nx\n", string(b))
	b, err = s.TxContent(id, "l")
	require.NoError(t, err)
	assert.Equal(t, "/etc/passwd", string(b), "a link's target, never what it leads to")
	assert.Equal(t, "/etc/passwd", changes[2].Link)
	for _, p := range []string{"b", "m", "nope"} {
		_, err = s.TxContent(id, p)
		wantKind(t, err, KindMissing)
	}
	_, err = s.TxContent(id, "../info")
	wantKind(t, err, KindOutside)
	for _, bad := range []string{"", "tx-", "../x", "tx-AAAAAAAAAAAAAAAAAAAAAAAAAA", id + "/../" + id} {
		_, err = s.TxContent(bad, "a")
		wantKind(t, err, KindMissing)
		_, err = s.Land(context.Background(), bad)
		wantKind(t, err, KindMissing)
	}
}

// What was kept is there for the next Runner; all else of the last one is gone.
func TestKeptTransactions(t *testing.T) {
	t.Parallel()
	w, base := workspace(t, nil)
	s := txStore{filepath.Join(base, "tx")}
	all, err := s.Kept()
	require.NoError(t, err)
	assert.Empty(t, all)
	var ids []string
	for range 3 {
		id, upper, _, err := s.create(w.Root())
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(upper, "shut", "in"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(upper, "made.txt"), []byte("x"), 0o644))
		ids = append(ids, id)
	}
	wantKind(t, s.Keep(ids[0], []byte("early")), KindMissing) // what is not sealed can still change
	_, err = s.changes(ids[1])
	require.NoError(t, err)
	require.NoError(t, s.Keep(ids[1], []byte("a person is asked")))
	require.NoError(t, os.Chmod(filepath.Join(s.dir, ids[0], "upper", "shut"), 0))

	gone, err := s.forget()
	require.NoError(t, err)
	assert.Len(t, gone, 2)
	all, err = s.Kept()
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{ids[1]: []byte("a person is asked")}, all)
	_, err = s.changes(ids[0])
	wantKind(t, err, KindMissing)
	_, err = s.Land(context.Background(), ids[1])
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(w.Root(), "made.txt"))
	all, err = s.Kept()
	require.NoError(t, err)
	assert.Empty(t, all, "landed is over")
	for _, bad := range []string{"../tx", "", ids[1]} {
		wantKind(t, s.Keep(bad, nil), KindMissing)
	}
}

// BenchmarkLand seals and lands a thousand new files.
func BenchmarkLand(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w, base := workspace(b, nil)
		s := txStore{filepath.Join(base, "tx")}
		id, upper, _, err := s.create(w.Root())
		require.NoError(b, err)
		for i := range 1000 {
			p := filepath.Join(upper, fmt.Sprintf("d%d/f%d", i%10, i))
			require.NoError(b, os.MkdirAll(filepath.Dir(p), 0o755))
			require.NoError(b, os.WriteFile(p, []byte("content\n"), 0o644))
		}
		b.StartTimer()
		_, err = s.changes(id)
		require.NoError(b, err)
		_, err = s.Land(context.Background(), id)
		require.NoError(b, err)
	}
}

// TestHandMadeLayers are layers no command can make on this machine.
func TestHandMadeLayers(t *testing.T) {
	t.Parallel()
	lay := func(t *testing.T) (upper, lower string) {
		w, base := workspace(t, tree1)
		upper = filepath.Join(base, "upper")
		require.NoError(t, os.MkdirAll(upper, 0o755))
		return upper, w.Root()
	}
	t.Run("whiteout by xattr", func(t *testing.T) {
		upper, lower := lay(t)
		p := filepath.Join(upper, "a")
		require.NoError(t, os.WriteFile(p, nil, 0o644))
		require.NoError(t, unix.Setxattr(p, xattrWhiteout, []byte("y"), 0))
		got, err := changesOf(upper, lower)
		require.NoError(t, err)
		assert.Equal(t, "removed a", kinds(got))
	})
	t.Run("device node", func(t *testing.T) {
		upper, lower := lay(t)
		if err := unix.Mknod(filepath.Join(upper, "dev"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))); err != nil {
			t.Skip("needs the right to make device nodes")
		}
		_, err := changesOf(upper, lower)
		wantKind(t, err, KindInvalid)
	})
	t.Run("redirect and metacopy", func(t *testing.T) {
		upper, lower := lay(t)
		require.NoError(t, os.Mkdir(filepath.Join(upper, "r"), 0o755))
		require.NoError(t, unix.Setxattr(filepath.Join(upper, "r"), xattrRedirect, []byte("d"), 0))
		_, err := changesOf(upper, lower)
		require.Error(t, err)
	})
	t.Run("too deep to see", func(t *testing.T) {
		upper, lower := lay(t)
		deep := upper + strings.Repeat("/d", maxDepth+2)
		require.NoError(t, os.MkdirAll(deep, 0o755))
		_, err := changesOf(upper, lower)
		require.Error(t, err)
	})
}

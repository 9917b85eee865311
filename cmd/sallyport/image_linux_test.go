package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// insideImage in the environment makes this test binary a container runtime: it
// makes the folder that it names its root, with the devices and the proc that the
// OCI runtime specification promises, and becomes what its arguments name.
const insideImage = "SALLYPORT_TEST_IMAGE"

func runInside() error {
	root := os.Getenv(insideImage)
	uid, err := strconv.Atoi(os.Getenv(insideImage + "_UID"))
	if err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	dev := filepath.Join(root, "dev")
	err = errors.Join(
		syscall.Mount(root, root, "", syscall.MS_BIND|syscall.MS_REC, ""),
		syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""),
		syscall.Mount("tmpfs", dev, "tmpfs", 0, "mode=755"),
		os.Mkdir(filepath.Join(dev, "shm"), 0o1777))
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		f, cerr := os.Create(filepath.Join(dev, name))
		if cerr == nil {
			cerr = f.Close()
		}
		err = errors.Join(err, cerr, syscall.Mount("/dev/"+name, filepath.Join(dev, name), "", syscall.MS_BIND, ""))
	}
	for _, dir := range strings.Fields(os.Getenv(insideImage + "_MOUNTS")) {
		to := filepath.Join(root, dir)
		err = errors.Join(err, os.MkdirAll(to, 0o755), syscall.Mount(dir, to, "", syscall.MS_BIND|syscall.MS_REC, ""))
	}
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := errors.Join(syscall.PivotRoot(".", "."), syscall.Unmount(".", syscall.MNT_DETACH), os.Chdir("/work")); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
		return err
	}
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// imageConfig is what a runtime reads of an image.
type imageConfig struct {
	Config struct {
		User            string
		Env             []string
		Entrypoint, Cmd []string
		WorkingDir      string
	}
}

// unpack lays an OCI archive's one image out as a runtime does.
func unpack(t *testing.T, archive, root string) imageConfig {
	t.Helper()
	blobs := map[string][]byte{}
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		blobs[strings.TrimPrefix(h.Name, "blobs/sha256/")], err = io.ReadAll(in)
		require.NoError(t, err)
	}
	blob := func(digest string) []byte { return blobs[strings.TrimPrefix(digest, "sha256:")] }
	type ref struct{ Digest string }
	var index struct{ Manifests []ref }
	var manifest struct {
		Config ref
		Layers []ref
	}
	var c imageConfig
	require.NoError(t, json.Unmarshal(blobs["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	require.NoError(t, json.Unmarshal(blob(index.Manifests[0].Digest), &manifest))
	require.NoError(t, json.Unmarshal(blob(manifest.Config.Digest), &c))
	for _, l := range manifest.Layers {
		z, err := gzip.NewReader(bytes.NewReader(blob(l.Digest)))
		require.NoError(t, err)
		lay(t, tar.NewReader(z), root)
	}
	return c
}

func lay(t *testing.T, in *tar.Reader, root string) {
	t.Helper()
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(root, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.MkdirAll(path, 0o755))
		case tar.TypeReg:
			w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			_, err = io.Copy(w, in)
			require.NoError(t, errors.Join(err, w.Close()))
		default:
			require.Fail(t, "the image holds what is neither a file nor a folder: "+h.Name)
		}
		require.NoError(t, os.Lchown(path, h.Uid, h.Gid))
		require.NoError(t, os.Chmod(path, fs.FileMode(h.Mode&0o7777)|fs.FileMode(h.Mode&0o1000)<<11))
	}
}

// container is an unpacked image.
type container struct {
	t      *testing.T
	root   string
	image  imageConfig
	mounts string // folders of this machine that it sees
}

func (c *container) command(uid int, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append(append([]string(nil), c.image.Config.Entrypoint...), args...)...)
	cmd.Env = append([]string{insideImage + "=" + c.root, fmt.Sprintf("%s_UID=%d", insideImage, uid), insideImage + "_MOUNTS=" + c.mounts, "NO_COLOR=1"},
		c.image.Config.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

func (c *container) run(uid int, args ...string) string {
	c.t.Helper()
	cmd := c.command(uid, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	require.NoError(c.t, err, "%v: %s%s", args, out.String(), errs.String())
	return out.String()
}

func TestImageServes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("buildah"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, and buildah (Debian: apt-get install buildah)")
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	build := exec.Command("make", "-C", "../..", "image", "IMAGE="+file)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	dir := t.TempDir()
	for _, open := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(open, 0o755))
	}
	c := &container{t: t, root: filepath.Join(dir, "root")}
	c.image = unpack(t, file, c.root)
	assert.Equal(t, "65532:65532", c.image.Config.User)
	require.NoError(t, os.WriteFile(filepath.Join(c.root, "work", "a.txt"), []byte("hello from inside\n"), 0o644))

	var token struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(c.run(65532, "token", "create", "--json", "--agent", "ci", "--workspace", "/work")), &token))
	c.mounts = "/usr /lib /lib64" // the image has no programs; a mount brings them
	var health checkup
	require.NoError(t, json.Unmarshal([]byte(c.run(65532, "doctor", "--json")), &health))
	t.Logf("walls in the image as an ordinary user: %s", health.Level)
	for _, w := range health.Walls {
		if !w.Up {
			t.Logf("down: %s: %s", w.Name, w.Reason)
		}
	}
	assert.NotEmpty(t, health.Level, "%+v", health.Problems)

	h := &house{t: t, client: http.DefaultClient}
	log := &lockedBuffer{}
	serve := c.command(65532, append([]string{"serve"}, "--http", "127.0.0.1:0")...)
	serve.Stderr = log
	require.NoError(t, serve.Start())
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	addr := regexp.MustCompile(`addr=(\S+) tls`)
	require.Eventually(t, func() bool {
		m := addr.FindStringSubmatch(log.String())
		if m != nil {
			h.url = "http://" + m[1]
		}
		return m != nil
	}, time.Minute, 10*time.Millisecond, "it serves")
	_, _, header := h.post(token.Token, "", initialize)
	session := header.Get("Mcp-Session-Id")
	assert.Contains(t, h.call(token.Token, session, "read_file", `{"path":"a.txt"}`), "hello from inside")
	assert.Contains(t, h.call(token.Token, session, "run_command", `{"argv":["/usr/bin/id","-u"]}`), "65532")
}

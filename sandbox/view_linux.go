package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sallyport/sandbox/cell"
)

// Where a cell's own places are.
const (
	cellHome  = "/home/cell"
	cellCache = "/cache"
	cellHost  = "cell"
)

// systemDirs are shown read-only as they are; one that is a symbolic link on
// this machine (merged /usr) becomes the same link.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// etcFolders are the folders of /etc a program may need, bound into the cell's
// own /etc; etcFiles are copied there. What names people, machines or secrets
// is not among them; passwd and friends are written anew.
var (
	etcFolders = []string{
		"ssl", "ca-certificates", "pki", "crypto-policies", "ld.so.conf.d", "alternatives", "terminfo", "fonts", "perl",
		"java-17-openjdk", "java-21-openjdk", "R",
	}
	etcFiles = []string{
		"ld.so.cache", "ld.so.conf", "localtime", "timezone", "services", "protocols", "mime.types", "magic", "os-release",
		"debian_version", "lsb-release", "bash.bashrc", "inputrc",
	}
)

// devices every cell has.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// homeTools are folders beneath a home that hold toolchains and no secrets.
var homeTools = []string{
	".pyenv", ".rbenv", ".nodenv", ".jenv", ".goenv", ".asdf", ".volta", ".nvm/versions", ".nvm/alias",
	".fnm", ".local/share/fnm", ".local/share/mise/installs", ".local/share/uv/python", ".rustup",
	".cargo/bin", ".sdkman/candidates", ".bun/bin", ".deno/bin", "go/bin", "sdk", ".local/bin",
	"miniconda3", "anaconda3", ".conda/envs",
}

// toolVars name a toolchain's folder in the environment; the value goes on
// into the cell.
var toolVars = []string{
	"GOROOT", "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR", "RUSTUP_HOME", "VOLTA_HOME", "JAVA_HOME",
	"CONDA_PREFIX", "VIRTUAL_ENV", "SDKMAN_DIR",
}

// toolchains is what of the daemon's own surroundings cells see.
type toolchains struct {
	dirs []string          // read-only, absolute
	env  map[string]string // PATH, PYENV_ROOT …
	mods string            // Go module cache, "" without
}

// findToolchains looks for toolchains outside the system directories, in the
// environment and in the usual places of a home.
func findToolchains(home string, getenv func(string) string) toolchains {
	t := toolchains{env: map[string]string{}}
	add := func(dir string) bool {
		dir = filepath.Clean(dir)
		st, err := os.Stat(dir)
		if !filepath.IsAbs(dir) || err != nil || !st.IsDir() || tooWide(dir, home) {
			return false
		}
		if !covered(dir, t.dirs) {
			t.dirs = append(t.dirs, dir)
		}
		return true
	}
	for _, v := range toolVars {
		if dir := getenv(v); dir != "" && add(dir) {
			t.env[v] = dir
		}
	}
	for _, rel := range homeTools {
		if home != "" {
			add(filepath.Join(home, rel))
		}
	}
	for v, rel := range map[string]string{"PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup"} {
		if dir := filepath.Join(home, rel); t.env[v] == "" && slices.Contains(t.dirs, dir) {
			t.env[v] = dir
		}
	}
	t.mods = moduleCache(home, getenv)
	if t.mods != "" && !add(t.mods) {
		t.mods = ""
	}
	t.env["PATH"] = t.path(getenv("PATH"), add)
	return t
}

// path keeps the entries of the daemon's PATH that a cell can see, adding
// those outside any home that hold only programs.
func (t *toolchains) path(list string, add func(string) bool) string {
	var dirs []string
	for _, dir := range filepath.SplitList(list) {
		dir = filepath.Clean(dir)
		opt := strings.HasPrefix(dir, "/opt/") && filepath.Base(dir) == "bin" && add(filepath.Dir(dir))
		if (opt || covered(dir, systemDirs) || covered(dir, t.dirs)) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

func moduleCache(home string, getenv func(string) string) string {
	if dir := getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	gopath := getenv("GOPATH")
	if gopath == "" && home != "" {
		gopath = filepath.Join(home, "go")
	}
	if gopath == "" {
		return ""
	}
	return filepath.Join(filepath.SplitList(gopath)[0], "pkg", "mod")
}

// tooWide refuses folders that hold more than a toolchain.
func tooWide(dir, home string) bool {
	if home != "" && under(home, dir) {
		return true // the home itself or a parent of it
	}
	for _, d := range []string{"/", "/home", "/root", "/etc", "/var", "/run", "/tmp", "/proc", "/sys", "/dev", "/opt", "/mnt", "/srv", "/media"} {
		if dir == d {
			return true
		}
	}
	for _, d := range []string{"/etc", "/run", "/var/run", "/proc", "/sys", "/dev"} {
		if under(dir, d) {
			return true
		}
	}
	return false
}

// under reports whether p is dir or inside it.
func under(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func covered(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}

// systemView is the part of the view that does not depend on the workspace;
// etc is the folder prepareEtc made.
func systemView(t toolchains, etc string) cell.View {
	var v cell.View
	for _, dir := range systemDirs {
		if target, err := os.Readlink(dir); err == nil {
			v.Links = append(v.Links, cell.Link{Path: dir, Target: target})
		} else if _, err := os.Stat(dir); err == nil {
			v.Binds = append(v.Binds, cell.Bind{From: dir})
		}
	}
	v.Binds = append(v.Binds, cell.Bind{From: etc, To: "/etc"})
	for _, name := range etcFolders {
		if p := filepath.Join("/etc", name); isDir(p) {
			v.Binds = append(v.Binds, cell.Bind{From: p, Optional: true})
		}
	}
	for _, dir := range t.dirs {
		if !covered(dir, systemDirs) {
			v.Binds = append(v.Binds, cell.Bind{From: dir, Optional: true})
		}
	}
	for _, d := range devices {
		v.Binds = append(v.Binds, cell.Bind{From: d, Device: true})
	}
	v.Links = append(v.Links,
		cell.Link{Path: "/dev/fd", Target: "/proc/self/fd"},
		cell.Link{Path: "/dev/stdin", Target: "/proc/self/fd/0"},
		cell.Link{Path: "/dev/stdout", Target: "/proc/self/fd/1"},
		cell.Link{Path: "/dev/stderr", Target: "/proc/self/fd/2"},
		cell.Link{Path: "/dev/ptmx", Target: "pts/ptmx"},
	)
	return v
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}

// prepareEtc makes the /etc that cells of one owner see, once: a mount less
// for each file in every cell.
func prepareEtc(dir string, own owner, git gitIdentity) error {
	for _, name := range append([]string{"."}, etcFolders...) {
		if !isDir(filepath.Join("/etc", name)) {
			continue
		}
		sub := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(sub, 0o755), os.Chmod(sub, 0o755)); err != nil {
			return err
		}
	}
	files := append(people(own.uid, own.gid), git.file())
	for _, name := range etcFiles {
		if data, err := os.ReadFile(filepath.Join("/etc", name)); err == nil {
			files = append(files, cell.File{Path: "/etc/" + name, Data: string(data)})
		}
	}
	for _, f := range files {
		// Renamed into place: running cells look at the folder.
		tmp, to := filepath.Join(dir, ".new"), filepath.Join(dir, filepath.Base(f.Path))
		if err := errors.Join(os.WriteFile(tmp, []byte(f.Data), 0o644), os.Chmod(tmp, 0o644), os.Rename(tmp, to)); err != nil {
			return err
		}
	}
	return nil
}

// people are the reduced /etc files of a cell whose only user is uid:gid.
func people(uid, gid int) []cell.File {
	passwd := fmt.Sprintf("cell:x:%d:%d:cell:%s:/bin/bash\n", uid, gid, cellHome)
	group := fmt.Sprintf("cell:x:%d:\n", gid)
	if uid != 0 {
		passwd = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" + passwd
	}
	if uid != nobody {
		passwd += fmt.Sprintf("nobody:x:%d:%d:nobody:/nonexistent:/usr/sbin/nologin\n", nobody, nobody)
	}
	if gid != nobody {
		group += fmt.Sprintf("nogroup:x:%d:\n", nobody)
	}
	return []cell.File{
		{Path: "/etc/passwd", Data: passwd},
		{Path: "/etc/group", Data: group},
		{Path: "/etc/hosts", Data: "127.0.0.1 localhost " + cellHost + "\n::1 localhost " + cellHost + "\n"},
		{Path: "/etc/hostname", Data: cellHost + "\n"},
		{Path: "/etc/host.conf", Data: "multi on\n"},
		{Path: "/etc/resolv.conf", Data: "# no resolver: names are resolved by sallyport's proxy\n"},
		{Path: "/etc/nsswitch.conf", Data: "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
	}
}

// nobody is the kernel's overflow id: the owner of everything unmapped.
const nobody = 65534

// cacheVars point every tool's cache into the one cache root of the workspace.
var cacheVars = map[string]string{
	"GOCACHE": "go-build", "npm_config_cache": "npm", "PIP_CACHE_DIR": "pip", "CARGO_HOME": "cargo",
	"GRADLE_USER_HOME": "gradle", "CCACHE_DIR": "ccache", "XDG_CACHE_HOME": "xdg", "UV_CACHE_DIR": "uv",
	"YARN_CACHE_FOLDER": "yarn", "COMPOSER_CACHE_DIR": "composer", "GOPATH": "go",
}

// environment is the clean environment of a cell. Nothing of the daemon's own
// is in it but PATH and the toolchains' variables.
func environment(t toolchains, net bool) map[string]string {
	env := map[string]string{
		"HOME": cellHome, "USER": "cell", "LOGNAME": "cell", "SHELL": "/bin/bash", "LANG": "C.UTF-8",
		"TERM": "dumb", "TMPDIR": "/tmp", "PWD": "", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": gitConfig, "GIT_TERMINAL_PROMPT": "0",
		"PYTHONDONTWRITEBYTECODE": "1", "npm_config_update_notifier": "false", "GOTOOLCHAIN": "local",
		"XDG_RUNTIME_DIR": "/tmp", "SALLYPORT_CELL": "1", "NO_COLOR": "1",
	}
	delete(env, "PWD")
	for k, sub := range cacheVars {
		env[k] = filepath.Join(cellCache, sub)
	}
	for k, v := range t.env {
		env[k] = v
	}
	env["GOFLAGS"] = "-buildvcs=false"
	switch {
	case !net:
		env["GOPROXY"] = "off"
		if t.mods != "" {
			env["GOMODCACHE"] = t.mods
		}
	case t.mods != "": // modules are added to the workspace's own cache
		env["GOPROXY"] = "file://" + t.mods + "/cache/download," + cmp.Or(os.Getenv("GOPROXY"), "direct")
		env["GOFLAGS"] += " -modcacherw"
	}
	if net {
		proxy := "http://127.0.0.1:" + strconv.Itoa(cell.ProxyPort)
		for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env[k] = proxy
		}
		env["ALL_PROXY"] = "socks5h://127.0.0.1:" + strconv.Itoa(cell.ProxyPort)
		env["NO_PROXY"] = "localhost,127.0.0.1,::1"
	}
	return env
}

// assignments is an environment with some more in the form execve takes.
func assignments(env, extra map[string]string) []string {
	if len(extra) > 0 {
		env = maps.Clone(env)
		maps.Copy(env, extra)
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

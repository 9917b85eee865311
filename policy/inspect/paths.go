package inspect

import (
	"path"
	"slices"
	"strings"

	"sallyport/policy"
	"sallyport/sandbox"
)

// opExec is the operation of a file that is run.
const opExec = "exec"

// abs makes a path absolute: relative to dir, /proc/self/root and
// /proc/self/cwd resolved, "" when dir is not known.
func (in *inspection) abs(dir, p string) string {
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/') {
		p = home + rest
	} else if ok && !strings.HasPrefix(rest, "+") && !strings.HasPrefix(rest, "-") {
		p = "/home/" + rest
	}
	if !strings.HasPrefix(p, "/") {
		if dir == "" {
			return ""
		}
		p = dir + "/" + p
	}
	p = path.Clean(p)
	for strings.HasPrefix(p, "/proc/") {
		parts := strings.SplitN(p[len("/proc/"):], "/", 5)
		if len(parts) > 3 && parts[1] == "task" {
			parts = append([]string{parts[0]}, parts[3:]...)
		}
		if len(parts) < 2 {
			break
		}
		rest := path.Join(parts[2:]...)
		switch parts[1] {
		case "root":
			p = path.Join("/", rest)
		case "cwd":
			p = path.Join(dir, rest)
			if dir == "" {
				return ""
			}
		default:
			return p
		}
	}
	return p
}

// inside is the workspace-relative form of an absolute path beneath it.
func (in *inspection) inside(p string) (string, bool) {
	if in.root == "" || p == "" {
		return "", false
	}
	if p == in.root {
		return ".", true
	}
	if in.root == "/" {
		return strings.TrimPrefix(p, "/"), true
	}
	return strings.CutPrefix(p, in.root+"/")
}

// harmless devices swallow, repeat or make up bytes.
var harmless = set("/dev/null /dev/zero /dev/full /dev/tty /dev/stdin /dev/stdout /dev/stderr /dev/random /dev/urandom /dev/ptmx /dev/console")

// scope tells where an absolute path lies.
func (in *inspection) scope(p string) policy.Scope {
	if p == "" {
		return policy.ScopeOutside
	}
	if _, ok := in.inside(p); ok {
		return policy.ScopeWorkspace
	}
	switch {
	case harmless[p], under(p, "/dev/fd"), under(p, "/dev/pts"), under(p, "/dev/shm"), under(p, "/proc/self/fd"):
		return policy.ScopeTemp
	case under(p, "/dev/tcp"), under(p, "/dev/udp"):
		return policy.ScopeOutside
	case under(p, "/dev"):
		return policy.ScopeDevice
	case under(p, "/tmp"), under(p, "/var/tmp"):
		return policy.ScopeTemp
	}
	return policy.ScopeOutside
}

func under(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// file is the fact of a path as a command or an operation names it.
func (in *inspection) file(op, dir string, w word) policy.FileFact {
	if w.opaque {
		return in.opaqueFile(op, dir, w)
	}
	p := in.abs(dir, w.s)
	f := policy.FileFact{Op: op, Path: p, Scope: in.scope(p)}
	if rel, ok := in.inside(p); ok {
		f.Path = rel
	}
	f.Guard = in.guard(f.Path, p)
	return f
}

// opaqueFile keeps what is known of a path whose rest is not: the directory
// before the first unknown part.
func (in *inspection) opaqueFile(op, dir string, w word) policy.FileFact {
	f := policy.FileFact{Op: op, Scope: policy.ScopeOutside}
	i := strings.IndexAny(w.s, "$`<>")
	if i <= 0 {
		return f
	}
	if j := strings.LastIndexByte(w.s[:i], '/'); j > 0 {
		p := in.abs(dir, w.s[:j])
		if s := in.scope(p); s == policy.ScopeTemp || s == policy.ScopeWorkspace || s == policy.ScopeDevice {
			f.Scope = s
			f.Guard = in.guard(strings.TrimPrefix(p, in.root+"/")+"/x", p+"/x")
		}
	}
	return f
}

// guard is the class of a path. rel is relative to the workspace, or absolute.
func (in *inspection) guard(rel, abs string) policy.Guard {
	if abs == "" {
		return ""
	}
	return in.lists.guard(rel, abs)
}

// target adds a path a command reads, writes, removes or runs.
func (c *call) target(op string, w word) {
	if w.s == "" || w.s == "-" {
		return
	}
	if len(c.targets) >= maxTargets {
		c.w.in.opaque("more paths than can be looked at")
		return
	}
	f := c.w.in.file(op, c.dir, w)
	if f.Scope == policy.ScopeTemp && harmless[f.Path] {
		return
	}
	if len(c.targets) > 100 || !slices.Contains(c.targets, f) {
		c.targets = append(c.targets, f)
	}
	if !w.opaque {
		c.w.in.devNet(f.Path)
	}
}

func (c *call) reads(w word)   { c.target(string(sandbox.OpRead), w) }
func (c *call) writes(w word)  { c.target(string(sandbox.OpWrite), w) }
func (c *call) removes(w word) { c.target(string(sandbox.OpRemove), w) }

package sandbox

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxDenials bounds how many a result lists; a failing build repeats itself.
const maxDenials = 8

// quoted finds what a program puts in quotes when it complains, lastWord what
// stands before the reason where it quotes nothing.
var (
	quoted   = regexp.MustCompile("['\"‘`]([^'\"’`]+)['\"’`]")
	lastWord = regexp.MustCompile(`([^\s:]+)\s*:?\s*$`)
)

// complaints are the texts of errors a wall causes, as libc and runtimes
// print them.
var complaints = []struct {
	text string
	say  func(d denier, path string) (Denial, bool)
}{
	{"Read-only file system", denier.readOnly},
	{"EROFS", denier.readOnly},
	{"Device or resource busy", denier.busy},
	{"EBUSY", denier.busy},
	{"Permission denied", denier.forbidden},
	{"permission denied", denier.forbidden},
	{"EACCES", denier.forbidden},
	{"Could not resolve host", denier.offline},
	{"Temporary failure in name resolution", denier.offline},
	{"Name or service not known", denier.offline},
	{"Network is unreachable", denier.offline},
	{"network is unreachable", denier.offline},
	{"ENETUNREACH", denier.offline},
	{"EAI_AGAIN", denier.offline},
	{"no such host", denier.offline},
	{"server misbehaving", denier.offline},
	{"module lookup disabled by GOPROXY=off", denier.offline},
	{"ptrace: Operation not permitted", denier.tracing},
	{"PTRACE_TRACEME: Operation not permitted", denier.tracing},
	{"PTRACE_SEIZE: Operation not permitted", denier.tracing},
	{"LeakSanitizer has encountered a fatal error", denier.tracing},
	{"Function not implemented", denier.unknown},
	{"function not implemented", denier.unknown},
	{"ENOSYS", denier.unknown},
	{"Operation not permitted", denier.refused},
	{"operation not permitted", denier.refused},
}

// denier explains complaints in the words of one run.
type denier struct {
	workspace, dir    string
	write             WriteMode
	net               bool
	profile           string
	protected, hidden []string
	pinned            []string // folders around protected paths
	open              bool     // no private root: Landlock says EACCES
}

// explain reads a program's standard error for what walls refused.
func (d denier) explain(stderr string) []Denial {
	var list []Denial
	for line := range strings.Lines(stderr) {
		for _, c := range complaints {
			i := strings.Index(line, c.text)
			if i < 0 {
				continue
			}
			if denial, ok := c.say(d, d.path(line, line[:i])); ok && !slices.Contains(list, denial) {
				list = append(list, denial)
			}
			break
		}
		if len(list) == maxDenials {
			break
		}
	}
	return list
}

// path finds the absolute path a line speaks of, "" when it names none: of
// several the first that is guarded, else the last. What is quoted may stand
// on either side of the reason (coreutils before, Python and Node after), an
// unquoted path stands before it.
func (d denier) path(line, before string) string {
	var found []string
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		found = append(found, m[1])
	}
	if m := lastWord.FindStringSubmatch(strings.TrimSpace(before)); m != nil && len(found) == 0 && !strings.HasSuffix(m[1], "]") {
		found = append(found, m[1])
	}
	last := ""
	for _, p := range found {
		if !filepath.IsAbs(p) {
			p = filepath.Join(d.dir, p)
		}
		last = filepath.Clean(p)
		if d.guarded(last, d.protected) || d.guarded(last, d.hidden) || slices.Contains(d.pinned, last) {
			break
		}
	}
	return last
}

// name is how a path is told: relative within the workspace.
func (d denier) name(p string) string {
	if rel, err := filepath.Rel(d.workspace, p); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return p
}

func (d denier) guarded(p string, list []string) bool {
	return slices.ContainsFunc(list, func(g string) bool { return p == g || strings.HasPrefix(p, g+"/") })
}

func (d denier) readOnly(p string) (Denial, bool) {
	switch {
	case d.guarded(p, d.protected):
		return d.protectedPath(p), true
	case p != "" && p != d.workspace && !strings.HasPrefix(p, d.workspace+"/"):
		return Denial{fmt.Sprintf("write to %s refused: outside the workspace", p),
			"write beneath the workspace, or to /tmp for temporary files"}, true
	case d.write == WriteNone:
		what := "a write refused: the workspace is read-only at this tier"
		if p != "" {
			what = fmt.Sprintf("write to %s refused: the workspace is read-only at this tier", d.name(p))
		}
		return Denial{what, "ask for write access: run_command with write=true"}, true
	}
	return Denial{"a write refused: the path is read-only in the cell", "write elsewhere in the workspace, or to /tmp"}, true
}

func (d denier) protectedPath(p string) Denial {
	return Denial{fmt.Sprintf("write to %s refused: protected path", d.name(p)),
		"leave it as it is, or ask a person to change it: protected paths are read-only in every cell"}
}

func (d denier) busy(p string) (Denial, bool) {
	if d.guarded(strings.TrimSuffix(p, ".lock"), d.protected) || slices.Contains(d.pinned, p) {
		return d.protectedPath(p), true
	}
	return Denial{}, false
}

func (d denier) forbidden(p string) (Denial, bool) {
	if d.guarded(p, d.hidden) {
		return Denial{fmt.Sprintf("read of %s refused: hidden path", d.name(p)),
			"work without it: files with secrets are not shown to commands"}, true
	}
	if d.open && strings.HasPrefix(p, d.workspace+"/") {
		return Denial{fmt.Sprintf("write to %s refused: without a mount namespace the workspace is read-only", d.name(p)),
			"write to $TMPDIR instead; `sallyport doctor` says what this machine lacks"}, true
	}
	return Denial{}, false
}

func (d denier) offline(string) (Denial, bool) {
	if d.net {
		return Denial{"a host could not be reached: only the allowed hosts are, through the proxy",
			"use the proxy from HTTPS_PROXY, or ask for the host and port"}, true
	}
	return Denial{"network is off in this cell", "ask for the hosts and ports the command needs, or work from the caches"}, true
}

func (d denier) tracing(string) (Denial, bool) {
	if d.profile == profileDebug {
		return Denial{}, false
	}
	return Denial{fmt.Sprintf("ptrace refused: the %s profile lets no program trace another", d.profile),
		"use the debug profile, with which a program may trace its own children"}, true
}

func (d denier) unknown(string) (Denial, bool) {
	if d.profile == profileStrict {
		return Denial{"a system call refused: the strict profile has no sockets but pairs, and no System V IPC", "use the default profile"}, true
	}
	return Denial{fmt.Sprintf("a system call refused: the %s profile does not have it (io_uring, keyrings, userfaultfd and such)", d.profile),
		"do it in another way: no profile has it"}, true
}

func (d denier) refused(p string) (Denial, bool) {
	if d.profile == "no-delete" {
		what := "removal refused: the no-delete profile stops unlink, unlinkat and rmdir"
		if p != "" {
			what = fmt.Sprintf("removal of %s refused: the no-delete profile stops unlink, unlinkat and rmdir", d.name(p))
		}
		return Denial{what, "move it aside instead, or ask for the default profile"}, true
	}
	return Denial{}, false
}

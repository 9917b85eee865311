package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Guarded names in the sub-folders of a workspace. Secrets are hidden there as
// they are in the workspace's own folder. What makes programs run code is made
// read-only only where writes are direct: a transaction's writes are judged
// before they land, and a mount there would have a checkout fail that changes
// an editor's settings.
var (
	nestedHidden = []string{
		".env", ".netrc", ".pypirc", ".git-credentials", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".pgpass", ".my.cnf",
	}
	// nestedPatterns leave out certificates and keys by extension: tests have
	// those, and need them.
	nestedPatterns  = []string{".env.*", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*", "service-account*.json"}
	nestedProtected = []string{
		".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".zed", ".vscode", ".idea", ".devcontainer", ".envrc",
	}
	// nestedSkipped hold what others wrote, by the ten thousand, or samples.
	nestedSkipped = []string{
		".git", "node_modules", "bower_components", ".venv", "venv", "__pycache__", ".tox", ".gradle", "testdata", "fixtures",
	}
)

// Bounds on the walk, shallow folders first. A folder in which nothing changed
// costs 2 µs in a walk, all of them 10 µs without one.
const (
	maxNestedDirs  = 4000
	maxNestedNames = 100
)

// foreignClock is how old a change on a file system that another machine
// stamps must be for its time to tell the next change.
const foreignClock = 5 * time.Second

// stamp is the clock that file systems here take their times from. It stands
// still between two ticks: only a change older than it is told from the next.
func stamp() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return 0
	}
	return t.Nano()
}

// nested remembers the folders of one workspace. Where they can be watched,
// nothing is looked at while nothing happened; else, and after a change, each
// folder is read again when its change time moved, which no program can set back.
type nested struct {
	mu      sync.Mutex
	dirs    map[string]*nestedDir // by absolute path, as all paths here
	round   int
	begun   int64 // the walk, on the file system's clock
	used    time.Time
	watches watches
	foreign bool        // another machine stamps its files
	last    nestedNames // of the last walk
}

type nestedNames struct {
	hidden, protected []string
	names             []string // in the workspace's own folder, sorted
}

type nestedDir struct {
	round    int // when it was last looked at
	dev, ino uint64
	changed  int64 // ns, 0 to read it again
	subs     []string
	hidden   []string
	guarded  []string
	names    []string // of the workspace's own folder, sorted
}

// find lists the paths to hide and to protect, and the names in the workspace's
// own folder. The lists must not be changed.
func (n *nested) find(workspace string) nestedNames {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dirs == nil {
		n.dirs, n.foreign = map[string]*nestedDir{}, !isLocal(workspace)
		if !n.foreign {
			n.watches = openWatches()
		}
	} else {
		changed, all := n.watches.changed()
		if !all && len(changed) == 0 && n.same(workspace) {
			return n.last
		}
		for _, p := range changed {
			if d := n.dirs[p]; d != nil {
				d.changed = 0
			}
		}
	}
	n.last = n.walk(workspace)
	return n.last
}

// same reports whether the workspace is still the folder that was walked (it
// may have been mounted over) and has submodules if it had some: its .git, where
// much happens, is not watched.
func (n *nested) same(workspace string) bool {
	var st unix.Stat_t
	d := n.dirs[workspace]
	if d == nil || unix.Lstat(workspace, &st) != nil || d.dev != st.Dev || d.ino != st.Ino {
		return false
	}
	modules := workspace + "/.git/modules"
	return (n.dirs[modules] != nil) == (unix.Lstat(modules, &st) == nil)
}

func (n *nested) walk(workspace string) (found nestedNames) {
	n.round++
	if n.begun = stamp(); n.foreign {
		n.begun -= int64(foreignClock)
	}
	queue := []string{workspace}
	seen := 0
	for ; seen < len(queue) && seen < maxNestedDirs; seen++ {
		if d := n.dir(workspace, queue[seen]); d != nil {
			if seen == 0 {
				found.names = d.names
			}
			queue = append(queue, d.subs...)
			found.hidden = append(found.hidden, d.hidden...)
			found.protected = append(found.protected, d.guarded...)
		}
	}
	if len(n.dirs) > seen {
		for p, d := range n.dirs {
			if d.round != n.round {
				delete(n.dirs, p)
			}
		}
	}
	found.hidden = found.hidden[:min(len(found.hidden), maxNestedNames)]
	found.protected = found.protected[:min(len(found.protected), maxNestedNames)]
	return found
}

// dir gives one folder, read only when it changed; nil when it is gone.
func (n *nested) dir(workspace, p string) *nestedDir {
	var st unix.Stat_t
	if unix.Lstat(p, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	changed := st.Ctim.Nano()
	d := n.dirs[p]
	if d != nil && d.dev == st.Dev && d.ino == st.Ino && d.changed == changed {
		d.round = n.round
		return d
	}
	d = &nestedDir{round: n.round, dev: st.Dev, ino: st.Ino}
	if changed < n.begun {
		d.changed = changed
	}
	n.dirs[p] = d
	n.watches.add(p) // before it is read: what comes after is told
	entries, err := os.ReadDir(p)
	if err != nil {
		return d
	}
	switch {
	case under(p, workspace+"/.git/modules"):
		d.module(p, entries)
	case filepath.Base(p) == ".git":
		d.repository(p, entries)
	default:
		d.sort(p, p == workspace, entries)
	}
	return d
}

// sort picks what matters of a folder's entries. The names in the workspace's
// own folder are the business of guards.
func (d *nestedDir) sort(dir string, top bool, entries []os.DirEntry) {
	for _, e := range entries {
		name := e.Name()
		p := dir + "/" + name
		if top {
			d.names = append(d.names, name) // os.ReadDir sorts
		}
		switch {
		case name == ".git" && top:
			d.subs = append(d.subs, p+"/modules") // where submodules keep their repositories
		case name == ".git" && e.IsDir():
			d.subs = append(d.subs, p)
		case slices.Contains(nestedSkipped, name):
		case !top && (slices.Contains(nestedHidden, name) || matches(nestedPatterns, name) && !matches(shownAnyway, name)):
			d.hidden = append(d.hidden, p)
		case !top && slices.Contains(nestedProtected, name):
			d.guarded = append(d.guarded, p)
		case e.IsDir():
			d.subs = append(d.subs, p)
		}
	}
}

// repository picks what matters of a nested repository's own folder.
func (d *nestedDir) repository(dir string, entries []os.DirEntry) {
	for _, e := range entries {
		if slices.Contains(protectedGit, e.Name()) {
			d.guarded = append(d.guarded, dir+"/"+e.Name())
		}
	}
}

// module does the same in a repository's .git/modules, whose folders are
// repositories, or on the way to one whose name has a slash.
func (d *nestedDir) module(dir string, entries []os.DirEntry) {
	repository := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "HEAD" })
	for _, e := range entries {
		switch p := dir + "/" + e.Name(); {
		case repository && slices.Contains(protectedGit, e.Name()):
			d.guarded = append(d.guarded, p)
		case e.IsDir() && (!repository || e.Name() == "modules"):
			d.subs = append(d.subs, p)
		}
	}
}

// maxNested is how many workspaces are remembered.
const maxNested = 16

// nestedOf gives a workspace's memory, and forgets the one unused for longest.
func (r *Runner) nestedOf(workspace string) *nested {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nested[workspace]
	if n == nil {
		n = &nested{}
		if len(r.nested) >= maxNested {
			oldest := ""
			for w, m := range r.nested {
				if oldest == "" || m.used.Before(r.nested[oldest].used) {
					oldest = w
				}
			}
			r.nested[oldest].forget()
			delete(r.nested, oldest)
		}
		r.nested[workspace] = n
	}
	n.used = time.Now()
	return n
}

// forget lets go of the watches; the next find begins anew.
func (n *nested) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches.close()
	n.dirs = nil
}

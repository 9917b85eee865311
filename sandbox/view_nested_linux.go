package sandbox

import (
	"os"
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

// Bounds on the walk, shallow folders first. A folder costs 1.2 µs a command
// when nothing changed in it, a guarded name 60 µs a cell.
const (
	maxNestedDirs  = 4000
	maxNestedNames = 100
)

// settled is how old a folder's change must be for its time to tell the next
// change: file systems stamp in steps of up to 10 ms (jiffies at 100 Hz).
const settled = 30 * time.Millisecond

// nested remembers the folders of one workspace. Each is read again when its
// change time moved, which no program can set back.
type nested struct {
	mu    sync.Mutex
	dirs  map[string]*nestedDir // by absolute path, as all paths here
	round int
	used  time.Time
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
// own folder.
func (n *nested) find(workspace string) (hidden, protected, names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.round++
	queue := []string{workspace}
	seen := 0
	for ; seen < len(queue) && seen < maxNestedDirs; seen++ {
		if d := n.dir(workspace, queue[seen]); d != nil {
			if seen == 0 {
				names = d.names
			}
			queue = append(queue, d.subs...)
			hidden = append(hidden, d.hidden...)
			protected = append(protected, d.guarded...)
		}
	}
	if len(n.dirs) > seen {
		for p, d := range n.dirs {
			if d.round != n.round {
				delete(n.dirs, p)
			}
		}
	}
	return hidden[:min(len(hidden), maxNestedNames)], protected[:min(len(protected), maxNestedNames)], names
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
	if time.Since(time.Unix(0, changed)) > settled {
		d.changed = changed
	}
	n.dirs[p] = d
	entries, err := os.ReadDir(p)
	if err != nil {
		return d
	}
	if under(p, workspace+"/.git/modules") {
		d.module(p, entries)
	} else {
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
			for _, g := range protectedGit {
				if _, err := os.Lstat(p + "/" + g); err == nil {
					d.guarded = append(d.guarded, p+"/"+g)
				}
			}
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
		n = &nested{dirs: map[string]*nestedDir{}}
		if len(r.nested) >= maxNested {
			oldest := ""
			for w, m := range r.nested {
				if oldest == "" || m.used.Before(r.nested[oldest].used) {
					oldest = w
				}
			}
			delete(r.nested, oldest)
		}
		r.nested[workspace] = n
	}
	n.used = time.Now()
	return n
}

// Package cell is the child side of the sandbox: the small program that raises
// the walls around one command and then runs it. It is linked into
// sallyport-cell, which is pure Go and starts in about a millisecond; package
// sandbox is the parent side and speaks to it in the values of this file.
//
// Three processes take part. The daemon starts one starter; the starter clones
// cells; each cell is process 1 of its own namespaces, raises the walls, says
// Ready, waits for one Run, and ends with Exit. Every link is a socket pair, so
// that the end of either side ends the other.
package cell

// The internal subcommands of sallyport-cell and the descriptor on which each
// finds its socket.
const (
	StarterCommand = "starter"
	CellCommand    = "cell"
	SocketFD       = 3
)

// Clone asks the starter for one cell. Its socket comes with the message as
// the only descriptor.
type Clone struct {
	ID    uint64  `json:"id"`
	Flags uintptr `json:"flags"` // CLONE_NEW*
	// UID and GID are the identity map of the user namespace, used when Flags
	// holds CLONE_NEWUSER.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Into is the cell's control group in cgroup v2. In v1 Enter holds the
	// group's folder in each hierarchy, and Leave where the starter itself is.
	Into  string   `json:"into,omitempty"`
	Enter []string `json:"enter,omitempty"`
	Leave []string `json:"leave,omitempty"`
}

// Cloned answers Clone. On success a pidfd comes with it.
type Cloned struct {
	ID    uint64 `json:"id"`
	Pid   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
}

// Spec is everything a cell must know to raise its walls. The seccomp programs
// (arrays of struct sock_filter) come with it as descriptors.
type Spec struct {
	Flags uintptr `json:"flags"` // the namespaces the cell was cloned into
	UID   int     `json:"uid"`   // run as this owner
	GID   int     `json:"gid"`
	// Become says that the daemon is another user, root, so that the cell must
	// change its identity. Asking the kernel who one is would not tell: an
	// unmapped uid reads as 65534, which may be the owner's.
	Become bool `json:"become,omitempty"`
	// Dev and Ino are the workspace's. A cell that finds another folder there
	// says ESTALE: its mounts are older than the workspace's.
	Dev      uint64   `json:"dev,omitempty"`
	Ino      uint64   `json:"ino,omitempty"`
	Hostname string   `json:"hostname"`
	View     View     `json:"view"`
	Rlimits  []Rlimit `json:"rlimits,omitempty"`
	// Proxy asks for a listener on 127.0.0.1:ProxyPort inside the cell; it
	// comes back with Ready.
	Proxy bool `json:"proxy,omitempty"`
	// Env is the environment of a command that brings none.
	Env []string `json:"env,omitempty"`
	// Warm says that the command comes later, so that the cell may take time
	// to get its own code into memory.
	Warm bool `json:"warm,omitempty"`
}

// ProxyPort is where a cell with network finds its proxy.
const ProxyPort = 3128

// View is the file system a cell sees: a private root made of these parts and
// nothing else. Without a mount namespace it is only the Landlock rules.
type View struct {
	Workspace string `json:"workspace"` // absolute; mounted at its own path
	Writable  bool   `json:"writable"`  // the workspace
	Layer     *Layer `json:"layer,omitempty"`
	Binds     []Bind `json:"binds,omitempty"`
	Links     []Link `json:"links,omitempty"`
	Files     []File `json:"files,omitempty"`
	Tmpfs     []Tmp  `json:"tmpfs,omitempty"`
	// Pinned folders cannot be renamed or removed, Protected paths are
	// read-only, Hidden ones are covered. All are absolute, and beneath the
	// workspace or a writable bind. Renaming the parent of a mount point is
	// allowed by the kernel, hence the pins above protected paths.
	Pinned    []string `json:"pinned,omitempty"`
	Protected []string `json:"protected,omitempty"`
	Hidden    []string `json:"hidden,omitempty"`
}

// Layer makes the workspace an overlay whose writes go to Upper.
type Layer struct {
	Upper string `json:"upper"`
	Work  string `json:"work"`
}

// Bind shows the host's From at To.
type Bind struct {
	From     string `json:"from"`
	To       string `json:"to,omitempty"` // "" = From
	Writable bool   `json:"writable,omitempty"`
	Device   bool   `json:"device,omitempty"`   // device nodes work there
	Optional bool   `json:"optional,omitempty"` // absent on the host: left out
}

// At is where the bind appears.
func (b Bind) At() string {
	if b.To != "" {
		return b.To
	}
	return b.From
}

// Link is a symbolic link in the private root.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// File is a small file made in the private root.
type File struct {
	Path string `json:"path"`
	Data string `json:"data,omitempty"`
}

// Tmp is a private writable tmpfs.
type Tmp struct {
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes
	Mode uint32 `json:"mode"`
}

// Rlimit is one setrlimit(2) call, soft and hard alike.
type Rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// Ready says which walls stand, or why the cell cannot be used.
type Ready struct {
	Walls []State `json:"walls"`
	Error string  `json:"error,omitempty"` // the cell is unusable and ends
	Errno int     `json:"errno,omitempty"`
	Wall  string  `json:"wall,omitempty"` // the wall that failed
}

// WriteLayer is the name in Ready.Wall when the write layer could not be laid:
// no wall of the list, because most cells have none.
const WriteLayer = "write layer"

// State is one wall as it stands.
type State struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Reason string `json:"reason,omitempty"`
}

// Run starts the program. Standard input, output and error come with it as
// three descriptors.
type Run struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // nil: the cell's own
	Dir  string   `json:"dir"`           // absolute
	// Expect are files and the hex SHA-256 of the content they were judged by
	// ("" for one that was absent), by absolute path. Where the workspace is a
	// layer, each is copied into it first, so that what changes beneath later is
	// not what the program sees.
	Expect map[string]string `json:"expect,omitempty"`
}

// Exit is how the program ended, or why it did not start.
type Exit struct {
	Error  string `json:"error,omitempty"` // it did not start
	Stale  string `json:"stale,omitempty"` // it did not start: this file is not as Run.Expect has it
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	UserNS int64  `json:"user_ns,omitempty"` // of it and all its waited-for descendants
	SysNS  int64  `json:"sys_ns,omitempty"`
	MaxRSS int64  `json:"max_rss,omitempty"` // bytes, largest single process
	// Alone says that no other process was left in the cell when it ended.
	Alone bool `json:"alone,omitempty"`
}

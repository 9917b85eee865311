package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

const cgroupMount = "/sys/fs/cgroup"

// cgroupPeriod is the CPU quota's period in microseconds, the kernel's default.
const cgroupPeriod = 100_000

// shimThreads is room for the threads of the cell's own first process: the
// pids controller counts threads, and an idle Go program has about five.
const shimThreads = 8

// group is the control group of one cell.
type group interface {
	// join says how a new cell gets into the group.
	join(req *cell.Clone)
	// usage reports peaks and what limits were hit so far.
	usage(l Limits) groupUsage
	// remove kills what is left and removes the group.
	remove() error
}

type groupUsage struct {
	memory, pids     int64 // peaks
	oomKills, refork int64 // processes killed for memory, forks refused
}

// groups makes control groups beneath this process's own.
type groups interface {
	make(name string, l Limits) (group, error)
	// roots are where the trees begin that may hold such groups.
	roots() []string
}

// findGroups finds out which form of control groups this process may use, by
// making one; the error says why there is none.
func findGroups() (groups, error) {
	var gs groups
	unified, err := findUnified()
	if err == nil {
		gs = unified
	} else if _, serr := os.Stat(filepath.Join(cgroupMount, "memory")); serr != nil {
		return nil, err
	} else if gs, err = findV1(); err != nil {
		return nil, err
	}
	g, err := gs.make(groupName(), DefaultLimits())
	if err != nil {
		return nil, err
	}
	return gs, g.remove()
}

// groupName is unlike any other daemon's; the pid tells whose it was.
func groupName() string { return fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), randomName()) }

const groupPrefix = "sallyport-cell-"

// sweep removes the empty groups that daemons which are dead left in dir.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
	for _, g := range left {
		sweepOne(g)
	}
}

func sweepOne(g string) {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(g), groupPrefix), "-")
	if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
		_ = os.Remove(g) // a group that still holds a process stays
	}
}

// Bounds on the search for groups of dead daemons elsewhere in the tree: a
// daemon that was started from another session lay beneath another group.
const (
	maxSweep = 3000 // groups looked at
	// sweepAge keeps a group that another daemon, whose process is not visible
	// from here, just made and has not filled yet.
	sweepAge = time.Minute
)

// sweepTrees removes the empty groups that dead daemons left anywhere.
func sweepTrees(roots []string) {
	seen := 0
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			if seen++; seen > maxSweep {
				return filepath.SkipAll
			}
			if !strings.HasPrefix(d.Name(), groupPrefix) {
				return nil
			}
			if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > sweepAge {
				sweepOne(p)
			}
			return filepath.SkipDir
		})
	}
}

// v1 is the hierarchy-per-controller form, also of hybrid machines.
type v1 struct {
	paths map[string]string // controller to this process's group
}

var v1Controllers = []cgroup1.Name{cgroup1.Memory, cgroup1.Pids, cgroup1.Cpu}

func findV1() (*v1, error) {
	own, err := cgroup1.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read this process's control groups: %w", err)
	}
	for _, c := range v1Controllers {
		dir := filepath.Join(cgroupMount, string(c), own[string(c)])
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return nil, fmt.Errorf("write %s: %w", dir, err)
		}
		sweep(dir)
	}
	return &v1{paths: own}, nil
}

func (v *v1) roots() []string {
	var dirs []string
	for _, c := range v1Controllers {
		dirs = append(dirs, filepath.Join(cgroupMount, string(c)))
	}
	return dirs
}

// hierarchy holds the three controllers a cell is bound by.
func hierarchy() ([]cgroup1.Subsystem, error) {
	return []cgroup1.Subsystem{
		cgroup1.NewMemory(cgroupMount, cgroup1.OptionalSwap()),
		cgroup1.NewPids(cgroupMount),
		cgroup1.NewCpu(cgroupMount),
	}, nil
}

func (v *v1) make(name string, l Limits) (group, error) {
	path := func(c cgroup1.Name) (string, error) {
		return filepath.Join(v.paths[string(c)], name), nil
	}
	c, err := cgroup1.New(path, resources(l), cgroup1.WithHierarchy(hierarchy))
	if err != nil {
		return nil, fmt.Errorf("make control group %s: %w", name, err)
	}
	g := &v1Group{Cgroup: c, dirs: map[cgroup1.Name]string{}}
	for _, n := range v1Controllers {
		p, _ := path(n)
		g.dirs[n] = filepath.Join(cgroupMount, string(n), p)
	}
	return g, nil
}

// resources states limits in the form both libraries take. Swap is the sum of
// memory and swap in v1, so that equal values mean none.
func resources(l Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory, Swap: &l.Memory}
	}
	if l.Pids > 0 {
		pids := l.Pids + shimThreads
		r.Pids = &specs.LinuxPids{Limit: &pids}
	}
	if l.CPU > 0 {
		quota, period := int64(l.CPU*cgroupPeriod), uint64(cgroupPeriod)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	return r
}

type v1Group struct {
	cgroup1.Cgroup
	dirs map[cgroup1.Name]string
}

func (g *v1Group) join(req *cell.Clone) {
	for _, n := range v1Controllers {
		req.Enter = append(req.Enter, g.dirs[n])
		req.Leave = append(req.Leave, filepath.Dir(g.dirs[n]))
	}
}

func (g *v1Group) usage(l Limits) groupUsage {
	mem, pids := g.dirs[cgroup1.Memory], g.dirs[cgroup1.Pids]
	return measure(l, mem+"/memory.max_usage_in_bytes", mem+"/memory.oom_control", pids)
}

// measure reads a group's files; a second file each only where its peak came
// near the limit, because reading one costs 10 µs.
func measure(l Limits, memoryPeak, oomEvents, pids string) groupUsage {
	u := groupUsage{memory: number(memoryPeak), pids: number(pids + "/pids.peak")}
	if u.memory == 0 || u.memory >= l.Memory/2 {
		u.oomKills = field(oomEvents, "oom_kill")
	}
	if u.pids == 0 || u.pids >= l.Pids/2 { // before Linux 6.13 there is no peak
		u.refork = field(pids+"/pids.events", "max")
	}
	return u
}

func (g *v1Group) remove() error { return removeGroup(g.dirs[cgroup1.Memory], g.Delete) }

// removeGroup retries while the kernel still takes the last process apart.
func removeGroup(dir string, remove func() error) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := remove()
		if _, serr := os.Stat(dir); err == nil || errors.Is(serr, os.ErrNotExist) {
			return nil
		}
		if wait > 200*time.Millisecond {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
		time.Sleep(wait)
	}
}

// v2 is the unified form.
type v2 struct {
	path string // this process's delegated group, from the mount
}

// findUnified finds a group with the controllers, beneath which this process
// may make others. The kernel allows no processes in a group that hands
// controllers on, so the daemon's own group must be empty of others or be
// split: see enter.
func findUnified() (*v2, error) {
	_, own, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read this process's control group: %w", err)
	}
	v := &v2{path: own}
	have, err := os.ReadFile(filepath.Join(v.dir(), "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("read the controllers of %s: %w", own, err)
	}
	for _, need := range []string{"memory", "pids"} {
		if !strings.Contains(" "+string(have)+" ", need) {
			return nil, fmt.Errorf("control group %s has no %s controller", own, need)
		}
	}
	if err := v.enter(); err != nil {
		return nil, err
	}
	sweep(v.dir())
	return v, nil
}

func (v *v2) roots() []string { return []string{cgroupMount} }

func (v *v2) dir() string { return filepath.Join(cgroupMount, v.path) }

// enter moves this process, and what else is in its group, into a leaf, so
// that the group may hand the controllers on to cells.
func (v *v2) enter() error {
	if strings.HasSuffix(v.path, daemonLeaf) {
		v.path = filepath.Dir(v.path)
		return nil
	}
	handed, _ := os.ReadFile(filepath.Join(v.dir(), "cgroup.subtree_control"))
	if strings.Contains(string(handed), "memory") && strings.Contains(string(handed), "pids") {
		return nil
	}
	leaf := filepath.Join(v.dir(), daemonLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a control group for the daemon: %w", err)
	}
	procs, err := os.ReadFile(filepath.Join(v.dir(), "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("read the processes of %s: %w", v.path, err)
	}
	all := append(strings.Fields(string(procs)), strconv.Itoa(os.Getpid()))
	if v.path == "/" { // the machine's root group may keep its processes
		all = all[len(all)-1:]
	}
	for _, pid := range all {
		err = os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0)
		if errors.Is(err, unix.ESRCH) {
			err = nil // it ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("enter the daemon's control group: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(v.dir(), "cgroup.subtree_control"), []byte("+memory +pids"), 0); err != nil {
		return fmt.Errorf("hand controllers on to cells: %w", err)
	}
	// CPU is not always delegated; memory and pids are what a cell needs.
	_ = os.WriteFile(filepath.Join(v.dir(), "cgroup.subtree_control"), []byte("+cpu"), 0)
	return nil
}

const daemonLeaf = "sallyport-daemon"

func (v *v2) make(name string, l Limits) (group, error) {
	res := cgroup2.ToResources(resources(l))
	if res.Memory != nil {
		none := int64(0)
		res.Memory.Swap = &none
	}
	handed, _ := os.ReadFile(filepath.Join(v.dir(), "cgroup.subtree_control"))
	if !strings.Contains(string(handed), "cpu") {
		res.CPU = nil
	}
	path := filepath.Join("/", v.path, name)
	m, err := cgroup2.NewManager(cgroupMount, path, res)
	if err != nil {
		return nil, fmt.Errorf("make control group %s: %w", name, err)
	}
	return &v2Group{m: m, dir: filepath.Join(cgroupMount, path)}, nil
}

type v2Group struct {
	m   *cgroup2.Manager
	dir string
}

func (g *v2Group) join(req *cell.Clone) { req.Into = g.dir }

func (g *v2Group) usage(l Limits) groupUsage {
	return measure(l, g.dir+"/memory.peak", g.dir+"/memory.events", g.dir)
}

func (g *v2Group) remove() error {
	_ = g.m.Kill() // kernels before 5.14 lack it; the PID namespace did the work
	return removeGroup(g.dir, g.m.Delete)
}

// slurp reads a small file in three system calls, where os.ReadFile makes eight;
// nil when it cannot be read.
func slurp(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// number reads a file that holds one number; 0 when it is not there.
func number(path string) int64 {
	b := slurp(path)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// field reads one number of a "key value" file; 0 when it is not there.
func field(path, key string) int64 {
	b := slurp(path)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

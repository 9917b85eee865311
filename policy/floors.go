package policy

import (
	"regexp"
	"slices"
	"strings"

	"sallyport/sandbox"
)

// floors are refusals that no policy can lower. They look at the facts of the
// call as they are, without Rego and without data: an edit of the policy, however
// broken or hostile, leaves them standing.
func floors(c Call, f Facts) []RuleHit {
	var hits []RuleHit
	add := func(id, cmd, reason, remedy string) {
		hits = append(hits, RuleHit{ID: id, Tier: L3, Verdict: Deny, Reason: reason, Remedy: remedy, Cmd: cmd})
	}
	for _, file := range f.Files {
		judgeTouch(add, "", touch{op: file.Op, path: file.Path, guard: file.Guard})
	}
	for i := range f.Cmds {
		cmd := &f.Cmds[i]
		for _, t := range touches(cmd) {
			judgeTouch(add, cmd.Text, t)
		}
		if wipes(cmd) {
			add("floor.wipe", cmd.Text, "it removes the file system, a system directory or a home directory", "name the one directory to remove, beneath the workspace")
		}
		if branch, ok := forcesProtected(cmd, c.Workspace); ok {
			add("floor.force-push", cmd.Text, "it rewrites the history of the protected branch "+branch, "push to a new branch and open a pull request")
		}
		if slices.Contains(cmd.Patterns, forkBomb) || cmd.Script != nil && slices.ContainsFunc(cmd.Script.Findings, func(s Finding) bool { return s.Rule == forkBomb }) {
			add("floor.fork-bomb", cmd.Text, "it starts processes without end", "start a bounded number of processes")
		}
	}
	if f.Opaque != nil && strings.Contains(f.Opaque.Reason, forkBomb) {
		add("floor.fork-bomb", "", "it starts processes without end", "start a bounded number of processes")
	}
	return hits
}

// forkBomb is the id the inspector gives to a function or program that starts
// itself without end.
const forkBomb = "danger.fork-bomb"

// managesVolumes reports programs that manage disks as wholes: a person may
// allow them (they are L3), which no one can for a write beneath a file system.
func managesVolumes(program string) bool {
	switch program {
	case "mdadm", "mkfs", "mke2fs", "mkswap", "fdisk", "sfdisk", "parted", "gdisk", "sgdisk", "cryptsetup", "losetup", "pvcreate", "vgcreate",
		"lvcreate", "mount", "umount", "swapon", "tune2fs", "resize2fs", "fsck", "e2fsck", "zpool", "btrfs":
		return true
	}
	return strings.HasPrefix(program, "mkfs.")
}

// touch is one path a call reads or changes.
type touch struct {
	program string
	op      string
	path    string
	guard   Guard
}

// touches lists what a command reads or changes, redirects included.
func touches(cmd *Cmd) []touch {
	out := make([]touch, 0, len(cmd.Targets)+len(cmd.Redirects))
	for _, t := range cmd.Targets {
		out = append(out, touch{cmd.Program, t.Op, t.Path, t.Guard})
	}
	for _, r := range cmd.Redirects {
		op := string(sandbox.OpRead)
		if strings.Contains(r.Op, ">") {
			op = string(sandbox.OpWrite)
		}
		out = append(out, touch{"", op, r.Path, r.Guard})
	}
	return out
}

func judgeTouch(add func(id, cmd, reason, remedy string), cmd string, t touch) {
	if t.guard == GuardSelf {
		add("floor.self", cmd, t.path+" belongs to sallyport itself", "nothing an agent does needs it")
	}
	if t.op != "exec" && sandbox.Op(t.op).Writes() && rawDisk(t.path) && !managesVolumes(t.program) {
		add("floor.raw-disk", cmd, "it writes "+t.path+" below its file system", "write to a file in the workspace instead")
	}
}

// disks are block devices and the kernel's memory: names from
// Documentation/admin-guide/devices.txt.
var disks = regexp.MustCompile(`^/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|pmem\d|nbd\d|dm-\d|md\d|md/|mapper/[^c]|disk/|disk\d|rdisk\d|loop\d|sr\d|mem$|kmem$|port$|fd\d$)|^/proc/(kcore|kmem|sysrq-trigger)$`)

func rawDisk(path string) bool { return disks.MatchString(path) }

// wipes reports a command that removes a root, a directory of the system or a
// home with everything beneath it.
func wipes(cmd *Cmd) bool {
	recursive := cmd.Program != "rm" || slices.ContainsFunc(cmd.Flags, func(f string) bool {
		return f == "-r" || f == "-R" || f == "--recursive"
	})
	for _, t := range cmd.Targets {
		if t.Op == string(sandbox.OpRemove) && recursive && vital(t.Path) {
			return true
		}
	}
	return false
}

var system = regexp.MustCompile(`^/(\*|\.\*|bin|boot|dev|etc|home|lib|lib32|lib64|libx32|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var|System|Users|Library|Applications)?(/\*+|/\.\*)?$|^/(home|Users)/[^/]+(/\*+|/\.\*)?$|^(~[^/]*|\$HOME|\$\{HOME\})(/\*+|/\.\*)?$|^/usr/(bin|lib|lib64|sbin|share|local)(/\*+)?$|^/var/(lib|log)(/\*+)?$`)

// vital reports a path whose recursive removal takes the machine or a person's
// files with it.
func vital(path string) bool {
	for len(path) > 1 && strings.HasSuffix(path, "/") {
		path = path[:len(path)-1]
	}
	return system.MatchString(path)
}

// protectedBranches are those whose history no agent rewrites, whatever the
// policy says. data.sallyport.protected_branches adds to them.
var protectedBranches = regexp.MustCompile(`^(main|master|trunk|production|prod|release|release[/-].*)$`)

// forcesProtected reports a push that rewrites or removes a protected branch.
// A forced push that names no branch counts as one to the current branch, and
// as protected when that is unknown.
func forcesProtected(cmd *Cmd, w Workspace) (branch string, yes bool) {
	if cmd.Program != "git" || cmd.Sub != "push" {
		return "", false
	}
	forced := false
	for _, f := range cmd.Flags {
		switch name, _, _ := strings.Cut(f, "="); name {
		case "-f", "--force", "--force-with-lease", "--force-if-includes", "-d", "--delete":
			forced = true
		case "--mirror", "--prune":
			return "(all branches)", true
		}
	}
	for _, ref := range refspecs(cmd) {
		bare := strings.TrimPrefix(ref, "+")
		src, dst, both := strings.Cut(bare, ":")
		if !both {
			dst = src
		}
		dst = strings.TrimPrefix(dst, "refs/heads/")
		if dst == "HEAD" || dst == "@" {
			dst = w.Branch
		}
		removes := both && src == ""
		if (forced || ref != bare || removes) && (dst == "" || protectedBranches.MatchString(dst) || strings.ContainsAny(dst, "*$")) {
			return dst, true
		}
	}
	if forced && len(refspecs(cmd)) == 0 && (w.Branch == "" || protectedBranches.MatchString(w.Branch)) {
		return w.Branch, true
	}
	return "", false
}

// refspecs are the operands of a push after the remote.
func refspecs(cmd *Cmd) []string {
	if len(cmd.Args) < 2 {
		return nil
	}
	return cmd.Args[1:]
}

package cell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Access rights by the Landlock ABI that brought them
// (https://docs.kernel.org/userspace-api/landlock.html).
const (
	landRead = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	landV1   = landRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym
	landV2 = landV1 | ll.AccessFSRefer
	landV3 = landV2 | ll.AccessFSTruncate
	landV5 = landV3 | ll.AccessFSIoctlDev
)

// makeNodes are never granted: no program in a cell makes device nodes.
const makeNodes = ll.AccessFSMakeChar | ll.AccessFSMakeBlock

// landlock states the view a second time, for the case that a mount is wrong.
// Network is not handled: an empty network namespace is stricter, and handling
// it without rules would deny the cell its own loopback.
func (s *site) landlock() error {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil || abi < 1 {
		return fmt.Errorf("the kernel offers no Landlock: %w", err)
	}
	attr := ll.RulesetAttr{HandledAccessFS: handled(abi)}
	if abi >= 6 && s.spec.Flags&unix.CLONE_NEWPID == 0 {
		attr.Scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	ruleset, err := ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return fmt.Errorf("create a Landlock ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	for _, r := range s.landRules() {
		if err := allow(ruleset, r, attr.HandledAccessFS); err != nil {
			return err
		}
	}
	if err := ll.LandlockRestrictSelf(ruleset, 0); err != nil {
		return fmt.Errorf("enforce the Landlock ruleset: %w", err)
	}
	return nil
}

// LandlockABI is the version this kernel speaks, 0 without Landlock.
func LandlockABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

func handled(abi int) uint64 {
	switch {
	case abi >= 5:
		return landV5
	case abi >= 3:
		return landV3
	case abi == 2:
		return landV2
	}
	return landV1
}

type landRule struct {
	path   string
	rights uint64
}

// Rights a rule grants.
const (
	landWrite  = landV5 &^ makeNodes
	landDevice = landRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// landRules derives the rules from the view: with a private root everything in
// it may be read, without one only what the view names.
func (s *site) landRules() []landRule {
	v := s.spec.View
	ws := landRule{v.Workspace, landRead}
	if v.Writable {
		ws.rights = landWrite
	}
	rules := []landRule{ws}
	whole := s.spec.Flags&unix.CLONE_NEWNS != 0
	if whole {
		rules = append(rules, landRule{"/", landRead}, landRule{"/dev", landDevice})
	} else {
		rules = append(readAround(v.Workspace, v.Hidden), landRule{"/proc", landRead})
	}
	for _, t := range v.Tmpfs {
		rules = append(rules, landRule{t.Path, landWrite})
	}
	for _, b := range v.Binds {
		switch {
		case b.Writable:
			rules = append(rules, landRule{b.At(), landWrite})
		case b.Device:
			rules = append(rules, landRule{b.At(), landDevice})
		case !whole:
			rules = append(rules, landRule{b.At(), landRead})
		}
	}
	return rules
}

// readAround grants reading of a folder but for what is hidden in it. Landlock
// only adds rights, so that a folder with something hidden gets the right to
// be listed, and its other entries the right to be read.
func readAround(dir string, hidden []string) []landRule {
	inside := slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, dir+"/") })
	if !inside {
		return []landRule{{dir, landRead}}
	}
	rules := []landRule{{dir, ll.AccessFSReadDir}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return rules
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink == 0 && !slices.Contains(hidden, p) {
			rules = append(rules, readAround(p, hidden)...)
		}
	}
	return rules
}

func allow(ruleset int, r landRule, handled uint64) error {
	fd, err := unix.Open(r.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // an optional bind
	}
	if err != nil {
		return fmt.Errorf("open %s for a Landlock rule: %w", r.path, err)
	}
	defer unix.Close(fd)
	rights := r.rights & handled
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	}
	rule := ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}
	if err := ll.LandlockAddPathBeneathRule(ruleset, &rule, 0); err != nil {
		return fmt.Errorf("add a Landlock rule for %s: %w", r.path, err)
	}
	return nil
}

package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// report turns an outcome into the result's words.
func (r *Runner) report(c *cage, p plan, o outcome, res *Result) error {
	if o.exit.Error != "" {
		return &Error{Kind: KindStart, Msg: o.exit.Error,
			Remedy: "name a program that exists in the cell: the system's, the toolchains', or one in the workspace"}
	}
	if o.exit.Stale != "" {
		rel, err := filepath.Rel(p.workspace, o.exit.Stale)
		if err != nil {
			rel = o.exit.Stale
		}
		return changedSince(rel)
	}
	res.Ran = true
	res.Exit = o.exit.Code
	if o.exit.Signal != 0 {
		res.Signal = unix.SignalName(unix.Signal(o.exit.Signal))
	}
	res.Stdout, res.Stderr = o.stdout, o.stderr
	res.Usage = Usage{Wall: o.wall, User: time.Duration(o.exit.UserNS), Sys: time.Duration(o.exit.SysNS), Memory: o.exit.MaxRSS}
	var use groupUsage
	if c.group != nil {
		use = c.group.usage(p.limits)
		res.Usage.Memory = max(res.Usage.Memory, use.memory)
		res.Usage.Pids = use.pids
	}
	res.Hit = hits(p.limits, o, use)
	res.Denials = append(res.Denials, denials(p, o)...)
	if err := r.settle(c, p, res); err != nil {
		return err
	}
	if o.timeout {
		return &Error{Kind: KindTimeout, Msg: fmt.Sprintf("the command ran longer than %s and was stopped", p.limits.Wall),
			Remedy: "give it a longer timeout, or run less at once"}
	}
	return nil
}

// settle closes the write layer: what it holds becomes Changes and, in a
// transaction, stays until it is landed or dropped.
func (r *Runner) settle(c *cage, p plan, res *Result) error {
	if p.write != WriteTransaction {
		return nil
	}
	changes, err := r.store().changes(c.layer)
	if err != nil {
		return err
	}
	res.Changes = changes
	if len(changes) > 0 {
		res.Tx = c.layer
	}
	return nil
}

// hits lists the limits that stopped or cut the run.
func hits(l Limits, o outcome, use groupUsage) []LimitHit {
	var list []LimitHit
	if o.timeout {
		list = append(list, LimitHit{"wall", l.Wall.Milliseconds(), o.wall.Milliseconds()})
	}
	if use.oomKills > 0 {
		list = append(list, LimitHit{"memory", l.Memory, max(use.memory, l.Memory)})
	}
	if use.refork > 0 {
		list = append(list, LimitHit{"pids", l.Pids, max(use.pids-shimThreads, l.Pids)})
	}
	for _, s := range []Output{o.stdout, o.stderr} {
		if s.Cut() {
			list = append(list, LimitHit{"output", l.Output, s.Total})
		}
	}
	// A shell reports a child's signal as 128+N.
	if o.exit.Signal == int(unix.SIGXFSZ) || o.exit.Code == 128+int(unix.SIGXFSZ) ||
		strings.Contains(strings.ToLower(string(o.stderr.Data)), unix.EFBIG.Error()) {
		list = append(list, LimitHit{"file", l.File, l.File})
	}
	switch {
	case o.layer > 0:
		list = append(list, LimitHit{"disk", l.Disk, o.layer})
	case strings.Contains(strings.ToLower(string(o.stderr.Data)), unix.ENOSPC.Error()):
		list = append(list, LimitHit{"disk", l.Disk, l.Disk})
	}
	return list
}

func denials(p plan, o outcome) []Denial {
	d := denier{
		workspace: p.workspace, dir: p.command.run.Dir, write: p.write, net: p.spec.Proxy, profile: p.profile, open: p.open,
		protected: p.protected, hidden: p.spec.View.Hidden, pinned: p.spec.View.Pinned,
	}
	list := d.explain(string(o.stderr.Data))
	if o.exit.Signal == int(unix.SIGSYS) || o.exit.Code == 128+int(unix.SIGSYS) {
		list = append(list, Denial{"the program made an i386 or x32 system call and was killed", "use a build for x86-64"})
	}
	return list
}

package rego

import (
	"fmt"
	"slices"

	"sallyport/policy"
	"sallyport/sandbox"
)

// merge joins the lists of all layers, strongest first. What tightens (patterns,
// guards, protected and hidden paths, protected branches, limits, agents) is
// joined from every layer. What widens (allowed hosts, build files, registries, program classes, tools,
// presets, relax, shadow) is taken from the built-in layer and the owner of the
// machine: the administrator, or the user when there is no administrator. Any
// other layer that says it is refused, but for allowed_hosts, where it narrows.
func merge(sources []source) (*policy.Data, error) {
	d := &policy.Data{
		Guards: map[policy.Guard][]string{}, Programs: map[string]string{}, ToolKinds: map[string]string{},
		Registries: map[string][]sandbox.Endpoint{},
		Presets:    map[string]policy.Preset{}, Agents: map[string]policy.AgentPolicy{},
		Patterns: []policy.Pattern{}, ProtectedBranches: []string{}, ProtectedPaths: []string{}, HiddenPaths: []string{}, SensitivePaths: []string{}, BuildFiles: []string{},
		AllowedHosts: []sandbox.Endpoint{}, Relax: []policy.Relax{}, Shadow: []string{},
	}
	owner := ownerOf(sources)
	for _, s := range sources {
		for _, l := range s.lists {
			if err := tighten(d, l, s.layer == builtin || s.layer == owner); err != nil {
				return nil, err
			}
			if s.layer == builtin || s.layer == owner {
				widen(d, l)
				continue
			}
			if err := narrow(d, l); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// ownerOf names the layer that may widen.
func ownerOf(sources []source) string {
	for _, s := range sources {
		if s.layer == administrator {
			return administrator
		}
	}
	return user
}

// tighten adds what makes policy stricter.
func tighten(d *policy.Data, l list, owner bool) error {
	for _, p := range l.data.Patterns {
		if slices.ContainsFunc(d.Patterns, func(q policy.Pattern) bool { return q.ID == p.ID }) {
			return fmt.Errorf("%s:%d: pattern %q exists already in another file; give it another id", l.file, l.keys["patterns"], p.ID)
		}
		d.Patterns = append(d.Patterns, p)
	}
	for g, globs := range l.data.Guards {
		d.Guards[g] = join(d.Guards[g], globs)
	}
	d.ProtectedBranches = join(d.ProtectedBranches, l.data.ProtectedBranches)
	d.ProtectedPaths = join(d.ProtectedPaths, l.data.ProtectedPaths)
	d.HiddenPaths = join(d.HiddenPaths, l.data.HiddenPaths)
	d.SensitivePaths = join(d.SensitivePaths, l.data.SensitivePaths)
	for name, a := range l.data.Agents {
		before, ok := d.Agents[name]
		if !ok && !owner {
			before = d.Agent(name)
			ok = true
		}
		d.Agents[name] = narrowAgent(before, a, ok)
	}
	limitFields(&d.Limits, l.data.Limits, owner)
	return nil
}

// widen takes what may make policy looser.
func widen(d *policy.Data, l list) {
	d.BuildFiles = join(d.BuildFiles, l.data.BuildFiles)
	for p, class := range l.data.Programs {
		d.Programs[p] = class
	}
	for t, kind := range l.data.ToolKinds {
		d.ToolKinds[t] = kind
	}
	for p, hosts := range l.data.Registries {
		d.Registries[p] = hosts
	}
	for p, preset := range l.data.Presets {
		d.Presets[p] = preset
	}
	for _, h := range l.data.AllowedHosts {
		if !slices.Contains(d.AllowedHosts, h) {
			d.AllowedHosts = append(d.AllowedHosts, h)
		}
	}
	d.Relax = append(d.Relax, l.data.Relax...)
	d.Shadow = join(d.Shadow, l.data.Shadow)
}

// narrow refuses what would widen, and keeps of the allowed hosts only those
// the layer names too, when it names any.
func narrow(d *policy.Data, l list) error {
	for _, key := range []string{"build_files", "programs", "registries", "tool_kinds", "presets", "relax", "shadow"} {
		if line, ok := l.keys[key]; ok {
			return fmt.Errorf("%s:%d: %s can loosen the policy and is read from the administrator's layer only (or the user's, where there is no administrator); write a rule instead", l.file, line, key)
		}
	}
	if _, ok := l.keys["allowed_hosts"]; !ok {
		return nil
	}
	d.AllowedHosts = slices.DeleteFunc(slices.Clone(d.AllowedHosts), func(h sandbox.Endpoint) bool {
		return !slices.ContainsFunc(l.data.AllowedHosts, func(k sandbox.Endpoint) bool {
			return k.Host == h.Host && (k.Port == h.Port || k.Port == 0)
		})
	})
	return nil
}

// narrowAgent joins two entries for one agent; the result allows no more than
// either.
func narrowAgent(before, next policy.AgentPolicy, exists bool) policy.AgentPolicy {
	if !exists {
		return next
	}
	out := policy.AgentPolicy{MaxTier: min(before.MaxTier, next.MaxTier)}
	switch {
	case len(next.Tools) == 0:
		out.Tools = before.Tools
	case len(before.Tools) == 0:
		out.Tools = next.Tools
	default:
		for _, t := range next.Tools {
			if before.Allows(t) {
				out.Tools = append(out.Tools, t)
			}
		}
		if len(out.Tools) == 0 {
			out.Tools = []string{"-"} // a name no tool has: none is left
		}
	}
	return out
}

// limitFields takes the smaller of two limits; the owner's replaces it.
func limitFields(d *policy.RateLimits, l policy.RateLimits, owner bool) {
	set := func(dst *int, v int) {
		if v > 0 && (owner || *dst == 0 || v < *dst) {
			*dst = v
		}
	}
	if l.WindowSeconds > 0 && owner {
		d.WindowSeconds = l.WindowSeconds
	}
	set(&d.PerAgent, l.PerAgent)
	set(&d.PerTool, l.PerTool)
	set(&d.Global, l.Global)
	set(&d.Repeats, l.Repeats)
	set(&d.Calls, l.Calls)
	set(&d.ChangedFiles, l.ChangedFiles)
	set(&d.RunSeconds, l.RunSeconds)
	set(&d.BreakerAfter, l.BreakerAfter)
	if l.BreakerCool > 0 && (owner || l.BreakerCool > d.BreakerCool) {
		d.BreakerCool = l.BreakerCool
	}
	set(&d.Slots, l.Slots)
}

func join(have, more []string) []string {
	for _, m := range more {
		if !slices.Contains(have, m) {
			have = append(have, m)
		}
	}
	return have
}

package approval

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport/policy"
)

// Grant lets one decision cover more than one call. Every condition that is set
// must hold; a grant needs a tool, rules or a session, and always ends. It never
// covers a call that needs two people or a role, nor L3 unless L3 is set.
type Grant struct {
	ID string `json:"id"`

	Tool  string   `json:"tool,omitempty"`
	Rules []string `json:"rules,omitempty"` // every rule that asks is one of them
	// Paths are doublestar globs: the call names at least one path and each
	// matches. Empty means any path.
	Paths    []string `json:"paths,omitempty"`
	Branches []string `json:"branches,omitempty"` // globs for the branch; empty means any
	// Hosts are globs for hosts; each endpoint matches one. Empty means that a
	// call with network is not covered.
	Hosts     []string `json:"hosts,omitempty"`
	Session   string   `json:"session,omitempty"`
	Agent     string   `json:"agent,omitempty"`
	Workspace string   `json:"workspace,omitempty"`
	// Scripts are the files a call may run and the digests they then have. A call
	// that runs another script, or an edited one, is not covered, unless AnyScript.
	Scripts   map[string]string `json:"scripts,omitempty"`
	AnyScript bool              `json:"any_script,omitempty"`
	MaxTier   policy.Tier       `json:"max_tier"`       // highest tier covered; L0 means L2
	L3        bool              `json:"l3,omitempty"`   // may cover L3; needs Options.GrantL3
	Solo      bool              `json:"solo,omitempty"` // made by the preset

	Uses  int       `json:"uses,omitempty"` // how often; 0 means until it ends
	Used  int       `json:"used"`
	Until time.Time `json:"until"`

	Created time.Time `json:"created"`
	By      Person    `json:"by"`
	Reason  string    `json:"reason,omitempty"`
	Request string    `json:"request,omitempty"` // the request whose approval made it
	Revoked time.Time `json:"revoked,omitzero"`
}

// State is "active", "spent", "expired" or "revoked".
func (g Grant) State(now time.Time) string {
	switch {
	case !g.Revoked.IsZero():
		return "revoked"
	case !now.Before(g.Until):
		return "expired"
	case g.Uses > 0 && g.Used >= g.Uses:
		return "spent"
	}
	return "active"
}

// Summary says in one line what a grant covers, every character visible.
func (g Grant) Summary() string {
	var parts []string
	add := func(name string, values ...string) {
		if v := strings.Join(values, ", "); v != "" {
			parts = append(parts, name+" "+v)
		}
	}
	add("tool", g.Tool)
	add("rules", g.Rules...)
	add("paths", g.Paths...)
	add("branches", g.Branches...)
	add("hosts", g.Hosts...)
	add("agent", g.Agent)
	add("session", g.Session)
	add("workspace", g.Workspace)
	add("scripts", slices.Sorted(maps.Keys(g.Scripts))...)
	parts = append(parts, "up to "+g.ceiling().String())
	if g.Uses > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d uses left", max(0, g.Uses-g.Used), g.Uses))
	}
	return Visible(strings.Join(parts, " · "))
}

// grantCeiling is the highest tier a grant covers without leave of the policy.
const grantCeiling = policy.L2

func (g Grant) ceiling() policy.Tier {
	switch {
	case g.L3:
		return policy.L3
	case g.MaxTier == policy.L0:
		return grantCeiling
	}
	return min(g.MaxTier, grantCeiling)
}

// covers reports whether the grant answers for a person.
func (g Grant) covers(a Ask, now time.Time) bool {
	s, ob := a.Subject, a.Decision.Obligations
	return g.State(now) == "active" && (!g.Solo || a.Solo) && // a preset that was switched off covers nothing
		a.Decision.Verdict == policy.Ask && a.Decision.Tier <= g.ceiling() &&
		ob.Approvers <= 1 && len(ob.Roles) == 0 &&
		(g.Tool == "" || g.Tool == s.Tool) &&
		(g.Session == "" || g.Session == s.Session) &&
		(g.Agent == "" || g.Agent == s.Agent) &&
		(g.Workspace == "" || g.Workspace == s.Workspace) &&
		g.coversRules(a.asked()) &&
		(len(g.Branches) == 0 || matchesAny(g.Branches, s.Branch)) &&
		g.coversPaths(a) && g.coversHosts(a) && g.coversScripts(s)
}

func (g Grant) coversRules(asked []string) bool {
	if len(g.Rules) == 0 {
		return true
	}
	return len(asked) > 0 && !slices.ContainsFunc(asked, func(id string) bool { return !slices.Contains(g.Rules, id) })
}

func (g Grant) coversPaths(a Ask) bool {
	if len(g.Paths) == 0 {
		return true
	}
	paths := a.paths()
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool {
		return path.Clean(p) != p || strings.HasPrefix(p, "../") || !matchesAny(g.Paths, p)
	})
}

// paths are all paths the call names.
func (a Ask) paths() []string {
	out := slices.Collect(maps.Keys(a.Subject.Files))
	for _, f := range a.Show.Files {
		out = append(out, f.Path)
	}
	return out
}

func (g Grant) coversHosts(a Ask) bool {
	for _, e := range a.Show.Net {
		if e.Host == "" || !matchesAny(g.Hosts, e.Host) {
			return false
		}
	}
	return true
}

func (g Grant) coversScripts(s Subject) bool {
	if g.AnyScript {
		return true
	}
	for p, sum := range s.Scripts {
		if was, ok := g.Scripts[p]; !ok || was != sum {
			return false
		}
	}
	return true
}

func matchesAny(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return doublestar.MatchUnvalidated(g, s) })
}

// covering is the grant that answers for the call: the one that ends first.
func (t *tx) covering(a Ask) (Grant, bool, error) {
	var best Grant
	found := false
	err := t.eachGrant(func(g Grant) error {
		if g.covers(a, t.now) && (!found || g.Until.Before(best.Until)) {
			best, found = g, true
		}
		return nil
	})
	return best, found, err
}

func (t *tx) soloCovered(r Request) (covered bool, err error) {
	err = t.eachGrant(func(g Grant) error {
		covered = covered || g.Solo && g.State(t.now) == "active" && g.Session == r.Session && g.Agent == r.Agent && g.Workspace == r.Workspace
		return nil
	})
	return covered, err
}

// eachGrant calls fn for every grant; fn may store or delete it.
func (t *tx) eachGrant(fn func(Grant) error) error {
	var all []Grant
	err := t.Bucket(bucketGrants).ForEach(func(k, _ []byte) error {
		var g Grant
		err := getJSON(t.Bucket(bucketGrants), k, &g)
		all = append(all, g)
		return err
	})
	for _, g := range all {
		if err == nil {
			err = fn(g)
		}
	}
	return err
}

func (t *tx) putGrant(g Grant) error { return putJSON(t.Bucket(bucketGrants), []byte(g.ID), g) }

// completed takes from a request what a grant made of it shares with it.
func (g Grant) completed(r Request) Grant {
	g.Tool, g.Agent, g.Workspace, g.Hosts = r.Tool, r.Agent, r.Workspace, r.Hosts
	if len(g.Rules) == 0 {
		g.Rules = r.asked()
	}
	if g.Session != "" {
		g.Session = r.Session
	}
	return g
}

// addGrant completes, checks and stores a grant made by the approval of r. With
// the request's detail at hand, a grant that does not cover that very request is
// refused: its paths or branches were mistyped.
func (t *tx) addGrant(g Grant, r Request, by Person) error {
	g.By, g.Request, g.Scripts = by, r.ID, r.Scripts
	if g.Until.IsZero() {
		g.Until = t.now.Add(t.d.o.GrantTTL)
	}
	if r.Subject != nil && !g.covers(r.ask(), t.now) {
		return fmt.Errorf("%w: the grant would not cover the call it comes from; widen its paths or branches", ErrInvalid)
	}
	_, err := t.storeGrant(g)
	return err
}

// ask is the call of a request with its detail, as far as a grant looks at it.
func (r Request) ask() Ask {
	return Ask{Subject: *r.Subject, Show: *r.Show, Decision: policy.Decision{
		Tier: r.Tier, Verdict: policy.Ask, Rules: r.Rules,
		Obligations: policy.Obligations{Approvers: r.Approvers, Roles: r.Roles},
	}}
}

func (t *tx) storeGrant(g Grant) (Grant, error) {
	if err := t.d.checkGrant(g, t.now); err != nil {
		return g, err
	}
	id, err := t.newGrantID()
	if err != nil {
		return g, err
	}
	g.ID, g.Created, g.Used, g.Revoked = id, t.now, 0, time.Time{}
	if g.Until.IsZero() {
		g.Until = t.now.Add(t.d.o.GrantTTL)
	}
	if err := t.putGrant(g); err != nil {
		return g, err
	}
	t.emit(Event{Kind: Granted, Grant: &g, Person: &g.By})
	return g, nil
}

func (d *Desk) checkGrant(g Grant, now time.Time) error {
	switch {
	case g.Tool == "" && len(g.Rules) == 0 && g.Session == "":
		return fmt.Errorf("%w: a grant names a tool, rules or a session", ErrInvalid)
	case g.Uses < 0 || !g.Until.IsZero() && !now.Before(g.Until):
		return fmt.Errorf("%w: a grant has a number of uses of at least 0 and ends in the future", ErrInvalid)
	case (g.MaxTier >= policy.L3 || g.L3) && !(g.L3 && d.o.GrantL3):
		return fmt.Errorf("%w: a grant does not cover L3; the administrator's policy can permit that", ErrRefused)
	}
	for _, globs := range [][]string{g.Paths, g.Branches, g.Hosts} {
		for _, p := range globs {
			if !doublestar.ValidatePattern(p) {
				return fmt.Errorf("%w: %q is not a glob", ErrInvalid, p)
			}
		}
	}
	return d.may(g.By, Request{Agent: g.Agent, Session: g.Session})
}

// AddGrant adds a grant; ID, Created and Used are set by the desk, and Until if
// it is zero.
func (d *Desk) AddGrant(g Grant) (Grant, error) {
	err := d.update(func(t *tx) (err error) {
		g, err = t.storeGrant(g)
		return err
	})
	if err != nil {
		return Grant{}, d.kept(g.By, fmt.Errorf("add a grant: %w", err))
	}
	return g, nil
}

// Grants lists the grants the desk remembers, newest first; Grant.State tells
// which are active.
func (d *Desk) Grants() ([]Grant, error) {
	out := []Grant{}
	err := d.view(func(t *tx) error {
		return t.eachGrant(func(g Grant) error { out = append(out, g); return nil })
	})
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	slices.SortFunc(out, func(a, b Grant) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// Revoke ends a grant at once. The id may lack its "g-".
func (d *Desk) Revoke(id string, by Person) (Grant, error) {
	var g Grant
	err := d.update(func(t *tx) error {
		key := canonicalID(id)
		if !strings.HasPrefix(key, "g-") {
			key = "g-" + key
		}
		if t.Bucket(bucketGrants).Get([]byte(key)) == nil {
			return fmt.Errorf("%w: `sallyport grants list` shows them", ErrNotFound)
		}
		if err := getJSON(t.Bucket(bucketGrants), []byte(key), &g); err != nil {
			return err
		}
		if state := g.State(t.now); state != "active" {
			return fmt.Errorf("%w: grant %s is %s", ErrDecided, g.ID, state)
		}
		if err := d.may(by, Request{Agent: g.Agent, Session: g.Session}); err != nil {
			return err
		}
		g.Revoked = t.now
		t.emit(Event{Kind: Revoked, Grant: &g, Person: &by})
		return t.putGrant(g)
	})
	if err != nil {
		return Grant{}, d.kept(by, fmt.Errorf("revoke grant %s: %w", Visible(id), err))
	}
	return g, nil
}

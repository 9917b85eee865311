// Package identity establishes who sends an HTTP request: by a bearer token that
// this host issued, or by a JWT that a configured issuer signed.
package identity

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/policy"
)

// ErrUnknown means that a credential is none of ours, or no longer is. It never
// says which.
var ErrUnknown = errors.New("the credential is unknown, expired or revoked")

// Rights are what an identity may do. The zero value may read in no workspace.
type Rights struct {
	Agent     string      `json:"agent"`
	Workspace string      `json:"workspace"`       // absolute
	MaxTier   policy.Tier `json:"max_tier"`        // calls of a higher tier are refused
	Tools     []string    `json:"tools,omitempty"` // nil means all
}

// Identity is who a credential proves its holder to be.
type Identity struct {
	Rights
	User       string    // a JWT's subject; "" for a token
	Credential string    // "token:<id>" or "jwt:<subject>"; no secret
	Expires    time.Time // never zero
}

// within reports whether child grants nothing that parent does not, and names
// the first thing that it would.
func (parent Rights) within(child Rights) error {
	switch {
	case child.Agent != parent.Agent && !strings.HasPrefix(child.Agent, parent.Agent+"/"):
		return fmt.Errorf("agent %q: a child of %q is called %q or %q", child.Agent, parent.Agent, parent.Agent, parent.Agent+"/…")
	case !beneath(child.Workspace, parent.Workspace):
		return fmt.Errorf("workspace %s does not lie in %s", child.Workspace, parent.Workspace)
	case child.MaxTier > parent.MaxTier:
		return fmt.Errorf("max tier %s is above %s", child.MaxTier, parent.MaxTier)
	case parent.Tools == nil:
		return nil
	case child.Tools == nil:
		return fmt.Errorf("all tools are more than %s", strings.Join(parent.Tools, ", "))
	}
	for _, t := range child.Tools {
		if !slices.Contains(parent.Tools, t) {
			return fmt.Errorf("tool %s is not among %s", t, strings.Join(parent.Tools, ", "))
		}
	}
	return nil
}

// valid reports what is missing from rights.
func (r Rights) valid() error {
	switch {
	case r.Agent == "" || len(r.Agent) > maxName || strings.ContainsFunc(r.Agent, odd):
		return fmt.Errorf("agent %q is not a name of 1 to %d printable characters", r.Agent, maxName)
	case !filepath.IsAbs(r.Workspace) || filepath.Clean(r.Workspace) != r.Workspace || r.Workspace == "/":
		return fmt.Errorf("workspace %q is not the absolute path of a project folder", r.Workspace)
	case r.MaxTier < policy.L0 || r.MaxTier > policy.L3:
		return fmt.Errorf("max tier %d is not L0, L1, L2 or L3", int(r.MaxTier))
	}
	return nil
}

const maxName = 64

func odd(r rune) bool { return r <= ' ' || r >= 0x7f }

func beneath(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sallyport/policy/approval/console"
	"sallyport/sandbox"
)

// config is config.yaml. Every key is optional; an unknown key is refused.
type config struct {
	// Preset is what an L2 call needs: "strict" (a person, each time; the
	// default), "worktree" (nothing inside a linked worktree) or "solo" (one
	// approval for the session), where no person chose another for the workspace.
	Preset string `yaml:"preset"`
	// MinLevel is the lowest rung of the sandbox that still runs commands:
	// "full", "reduced" or "minimal".
	MinLevel sandbox.Level `yaml:"min_level"`
	// IdleExit ends a daemon that nobody uses; 0 means never.
	IdleExit duration `yaml:"idle_exit"`
	// ApprovalTTL is how long a request waits for a person.
	ApprovalTTL duration `yaml:"approval_ttl"`
	// Approvers says who may decide: "any" person who reaches control.sock (the
	// default), only a process that no connected agent host started
	// ("other-process"), only another user than the agent's ("other-user"), or only
	// whoever holds a role ("role:NAME").
	Approvers string `yaml:"approvers"`
	// Roles gives people roles that rules ask for: role -> names of users, and of
	// groups with an "@" before them.
	Roles map[string][]string `yaml:"roles"`
	// PendingDir is where each request that waits has a file for programs; the folder
	// pending of the state folder by default. Keep it where agents cannot write.
	PendingDir string `yaml:"pending_dir"`
	// PageSize is how many entries MCP's lists give at a time, 100 by default.
	PageSize int `yaml:"page_size"`
	// AnchorFile is a file outside the state folder that gets the log's signed
	// checkpoints, so that a rollback of the whole folder shows.
	AnchorFile string `yaml:"anchor_file"`
	// Audit is how the log is kept and sent on; see audit_config.go.
	Audit auditConfig `yaml:"audit"`
	// Policy names folders of Rego and data that tighten the built-in rules.
	Policy struct {
		Administrator string `yaml:"administrator"`
		// AdministratorKey is a PEM public key: the administrator's folder then
		// holds one bundle.tar.gz signed with it (opa build --signing-key), by
		// AdministratorAlgorithm ("RS256" by default).
		AdministratorKey       string `yaml:"administrator_key"`
		AdministratorAlgorithm string `yaml:"administrator_algorithm"`
		User                   string `yaml:"user"`
	} `yaml:"policy"`
	// Console is the approvals page; it listens on loopback only, on any free port
	// unless one is named. With a URL it is served at http.listen too, under that
	// address, and messages link to it.
	Console struct {
		Listen string `yaml:"listen"`
		URL    string `yaml:"url"`
	} `yaml:"console"`
	// Webhooks are systems that are told what waits; see webhooks.go.
	Webhooks []webhookConfig `yaml:"webhooks"`
	// HTTP serves MCP over the network; see http_config.go.
	HTTP httpConfig `yaml:"http"`
	// Telemetry sends traces and metrics away; see metrics_telemetry.go.
	Telemetry telemetryConfig `yaml:"telemetry"`
}

// duration is a time.Duration written as "30m".
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is not a duration such as 30m", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// loadConfig reads config.yaml of a folder; without one the defaults hold.
func loadConfig(dir string) (config, error) {
	c := config{Preset: "strict", IdleExit: duration(30 * time.Minute)}
	path := filepath.Join(dir, "config.yaml")
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("open the configuration: %w", err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	if !slices.Contains(presetNames, c.Preset) {
		return c, fmt.Errorf("read %s: preset %q is not strict, worktree or solo", path, c.Preset)
	}
	if c.PageSize < 0 {
		return c, fmt.Errorf("read %s: page_size %d is not a number of entries", path, c.PageSize)
	}
	switch role, byRole := strings.CutPrefix(c.Approvers, approversRole); {
	case slices.Contains([]string{"", "any", "other-process", "other-user"}, c.Approvers):
	case byRole && len(c.Roles[role]) > 0:
	case byRole:
		return c, fmt.Errorf("read %s: approvers %q: nobody has that role; give it to somebody in roles", path, c.Approvers)
	default:
		return c, fmt.Errorf("read %s: approvers %q is not any, other-process, other-user or role:NAME", path, c.Approvers)
	}
	if c.Console.URL != "" {
		if u, err := url.Parse(c.Console.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != console.DefaultPrefix || c.HTTP.Listen == "" {
			return c, fmt.Errorf("read %s: console.url %q is not such as https://gate.example:7766%s, with http.listen to serve it", path, c.Console.URL, console.DefaultPrefix)
		}
	}
	if c.PendingDir != "" && !filepath.IsAbs(c.PendingDir) {
		return c, fmt.Errorf("read %s: pending_dir %q is not an absolute path", path, c.PendingDir)
	}
	if _, err := c.logOptions(nil); err != nil {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	switch c.MinLevel {
	case "", sandbox.LevelFull, sandbox.LevelReduced, sandbox.LevelMinimal:
	default:
		return c, fmt.Errorf("read %s: min_level %q is not full, reduced or minimal", path, c.MinLevel)
	}
	return c, nil
}

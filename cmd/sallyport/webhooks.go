package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
)

// webhookConfig is one system that is told what waits.
type webhookConfig struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
	// Format is "plain" (the default), "slack" or "feishu".
	Format string `yaml:"format"`
	// SecretFile holds the secret that signs messages and answers, 16 bytes at
	// least; it must not be readable by others.
	SecretFile string `yaml:"secret_file"`
	// After is how long a request waits before this system is told: an
	// escalation. Zero is at once.
	After duration `yaml:"after"`
	// MinTier leaves out requests below it, "L2" or "L3".
	MinTier policy.Tier `yaml:"min_tier"`
	// MaxTier is the highest tier that may be decided from there, "L2" by default.
	MaxTier policy.Tier `yaml:"max_tier"`
	// People maps who the system says answered to the name of a person here.
	People map[string]string `yaml:"people"`
}

// newWebhooks makes the webhooks of the configuration; nil without any.
func (d *daemon) newWebhooks() (*webhook.Hook, error) {
	if len(d.config.Webhooks) == 0 {
		return nil, nil
	}
	o := webhook.Options{Desk: d.desk, Public: origin(d.config.HTTP.URL), Console: d.config.Console.URL, Log: d.logger, Redact: d.log.Redact}
	for _, c := range d.config.Webhooks {
		secret, err := readSecret(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("webhook %s: %w", c.Name, err)
		}
		t := webhook.Target{
			Name: c.Name, URL: c.URL, Format: webhook.Format(c.Format), Secret: secret,
			After: time.Duration(c.After), MinTier: c.MinTier, MaxTier: c.MaxTier, People: map[string]approval.Person{},
		}
		for them, us := range c.People {
			t.People[them] = d.config.holding(approval.Person{Name: us, Channel: "webhook", From: c.Name, UID: -1})
		}
		o.Targets = append(o.Targets, t)
	}
	h, err := webhook.New(o)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	return h, nil
}

// origin is the scheme and host of a URL: webhooks are answered beside /mcp.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func readSecret(file string) ([]byte, error) {
	i, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read secret_file: %w", err)
	}
	if i.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read secret_file: others can read %s: chmod 600 it", file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read secret_file: %w", err)
	}
	return bytes.TrimSpace(b), nil
}

// runHook tells the webhooks until ctx ends.
func (d *daemon) runHook(ctx context.Context) {
	if err := d.webhooks.Run(ctx); err != nil && ctx.Err() == nil {
		d.logger.Error("tell the webhooks", "err", err)
	}
}

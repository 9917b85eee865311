package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sallyport/audit"
	"sallyport/audit/push"
	"sallyport/policy/approval/webhook"
	"sallyport/sandbox"
)

// auditConfig is how the log is kept and where it is sent.
type auditConfig struct {
	// Anchors get the log's signed checkpoints, beside anchor_file: "file:/path",
	// "git:/repository", "syslog:" or "syslog:udp://host:514", "journald:".
	Anchors []string `yaml:"anchors"`
	// AnchorEvery and AnchorAfter say how often: after so many records, or so long.
	AnchorEvery int      `yaml:"anchor_every"`
	AnchorAfter duration `yaml:"anchor_after"`
	// Retain is how long records are kept; 190 days by default.
	Retain duration `yaml:"retain"`
	// SealTo are age public keys; what redaction takes out of a call's arguments is
	// kept encrypted to them, for `audit unseal`.
	SealTo []string `yaml:"seal_to"`
	// Push sends records to other systems as they come.
	Push []pushConfig `yaml:"push"`
}

// pushConfig is one system that records are pushed to.
type pushConfig struct {
	Name string `yaml:"name"`
	// URL says what it is: syslog+udp://host:514, syslog+tcp://, syslog+tls://,
	// syslog+unix:/dev/log, https://host/path (a webhook), s3://bucket/prefix or
	// file:/folder.
	URL    string `yaml:"url"`
	Format string `yaml:"format"` // "record" (the default) or "ocsf"
	// SecretFile signs what a webhook gets, or holds ACCESS_KEY:SECRET_KEY of an S3
	// store.
	SecretFile string `yaml:"secret_file"`
	CA         string `yaml:"ca"`   // PEM of the authorities to trust instead of the system's
	Cert       string `yaml:"cert"` // and, where the other side asks, who we are
	Key        string `yaml:"key"`
	Endpoint   string `yaml:"endpoint"` // of an S3 store; https://s3.REGION.amazonaws.com by default
	Region     string `yaml:"region"`
	// Lock keeps an object of an S3 store from being deleted so long.
	Lock duration `yaml:"lock"`
	// Every is how long the object of a store may fill; 1 minute by default.
	Every duration `yaml:"every"`
}

// logOptions are the log's options as the configuration has them.
func (c config) logOptions(logger *slog.Logger) (audit.Options, error) {
	o := audit.Options{
		AnchorFile: c.AnchorFile, AnchorEvery: c.Audit.AnchorEvery, AnchorAfter: time.Duration(c.Audit.AnchorAfter),
		Retain: time.Duration(c.Audit.Retain), Secrets: secretsOf(os.Environ()), Logger: logger,
	}
	var err error
	if o.SealTo, err = audit.ParseRecipients(c.Audit.SealTo); err != nil {
		return o, fmt.Errorf("audit.seal_to: %w", err)
	}
	for _, a := range c.Audit.Anchors {
		made, err := anchorOf(a)
		if err != nil {
			return o, fmt.Errorf("audit.anchors: %w", err)
		}
		o.Anchors = append(o.Anchors, made)
	}
	return o, nil
}

// anchorOf is the anchor that the configuration names.
func anchorOf(text string) (audit.Anchor, error) {
	kind, where, ok := strings.Cut(text, ":")
	switch {
	case !ok:
	case kind == "file" && filepath.IsAbs(where):
		return audit.FileAnchor(where), nil
	case kind == "git" && filepath.IsAbs(where):
		return audit.GitAnchor(gitFolder(where)), nil
	case kind == "syslog":
		return audit.SyslogAnchor(where), nil
	case kind == "journald":
		return audit.JournalAnchor(where), nil
	}
	return nil, fmt.Errorf("%q is not file:/path, git:/repository, journald:, syslog:, syslog:udp://host:514 or syslog:tcp://host:514", text)
}

// gitFolder is the git folder of a worktree or a bare repository.
func gitFolder(repository string) string {
	if common := sandbox.CommonDir(repository); common != "" {
		return common
	}
	return repository
}

// keptAnchors reads back the checkpoints of those configured anchors that can be
// read: files and git notes. anchor_file is the log's own to read.
func (c config) keptAnchors(ctx context.Context, run func() (actor, func(), error)) ([][]byte, error) {
	var out [][]byte
	for _, a := range c.Audit.Anchors {
		kind, where, _ := strings.Cut(a, ":")
		var text string
		switch kind {
		case "file":
			b, err := os.ReadFile(where)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("read the anchors: %w", err)
			}
			text = string(b)
		case "git":
			r, done, err := run()
			if err != nil {
				return nil, err
			}
			text, err = gitOutput(ctx, r, where, "log", "--patch", "--format=", "--no-ext-diff", "--no-textconv", audit.NotesRef)
			done()
			if err != nil && !strings.Contains(err.Error(), "unknown revision") {
				return nil, fmt.Errorf("read the anchors in %s: %w", where, err)
			}
		}
		found, err := audit.ReadAnchors(strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// pushTargets are the targets of the configuration.
func (c config) pushTargets() ([]push.Target, error) {
	var out []push.Target
	for _, p := range c.Audit.Push {
		t, err := p.target()
		if err != nil {
			return nil, fmt.Errorf("audit.push %s: %w", p.Name, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// Batches: what is sent at once, and how much a store's object holds.
const (
	sendRecords, sendBytes     = 200, 1 << 20
	objectRecords, objectBytes = 5000, 8 << 20
)

func (p pushConfig) target() (push.Target, error) {
	t := push.Target{Name: p.Name, URL: p.URL, Format: p.Format, Records: sendRecords, Bytes: sendBytes}
	if t.Format == "" {
		t.Format = "record"
	}
	if t.Format != "record" && t.Format != "ocsf" {
		return t, fmt.Errorf("format %q is not record or ocsf", p.Format)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return t, fmt.Errorf("read the url: %w", err)
	}
	conf, err := p.tls()
	if err != nil {
		return t, err
	}
	t.URL = u.Redacted()
	kind, network, _ := strings.Cut(u.Scheme, "+")
	switch {
	case kind == "syslog" && network == "unix" && u.Path != "":
		t.Sink = push.Syslog{Network: network, Address: u.Path}
	case kind == "syslog" && (network == "udp" || network == "tcp" || network == "tls") && u.Port() != "":
		conf.ServerName = u.Hostname()
		t.Sink = push.Syslog{Network: network, Address: u.Host, TLS: conf}
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		t.Sink, err = p.webhook(conf)
	case u.Scheme == "s3" && u.Host != "":
		t.Sink, err = p.s3(u, conf)
	case u.Scheme == "file" && filepath.IsAbs(u.Path):
		t.Sink = push.Files(u.Path)
	default:
		err = fmt.Errorf("%q is not syslog+udp://host:port, syslog+tcp://, syslog+tls://, syslog+unix:/socket, https://, s3://bucket/prefix or file:/folder", p.URL)
	}
	if u.Scheme == "s3" || u.Scheme == "file" {
		t.Records, t.Bytes, t.Every = objectRecords, objectBytes, time.Duration(p.Every)
		if t.Every == 0 {
			t.Every = time.Minute
		}
	}
	return t, err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (p pushConfig) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return nil, fmt.Errorf("read ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca: %s holds no certificate", p.CA)
		}
	}
	if p.Cert != "" || p.Key != "" {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, fmt.Errorf("read cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// webhook signs as the approvals' webhooks do.
func (p pushConfig) webhook(conf *tls.Config) (push.Sink, error) {
	if p.SecretFile == "" {
		return nil, errors.New("a webhook needs secret_file, by which the receiver knows us")
	}
	secret, err := readSecret(p.SecretFile)
	if err != nil {
		return nil, err
	}
	if len(secret) < 16 {
		return nil, fmt.Errorf("the secret in %s has less than 16 bytes", p.SecretFile)
	}
	return push.NewWebhook(push.Webhook{URL: p.URL, Sign: func(h http.Header, at time.Time, body []byte) {
		h.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
		h.Set(webhook.HeaderSignature, webhook.SignMessage(secret, at, body))
	}}, conf), nil
}

func (p pushConfig) s3(u *url.URL, conf *tls.Config) (push.Sink, error) {
	if p.SecretFile == "" || p.Region == "" {
		return nil, errors.New("an S3 store needs region and secret_file (ACCESS_KEY:SECRET_KEY)")
	}
	secret, err := readSecret(p.SecretFile)
	if err != nil {
		return nil, err
	}
	keys := strings.Split(string(secret), ":")
	if len(keys) < 2 {
		return nil, fmt.Errorf("%s does not hold ACCESS_KEY:SECRET_KEY", p.SecretFile)
	}
	s := push.S3{Region: p.Region, Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), AccessKey: keys[0], SecretKey: keys[1], Lock: time.Duration(p.Lock), TLS: conf}
	if len(keys) > 2 {
		s.SessionToken = keys[2]
	}
	endpoint := p.Endpoint
	if endpoint == "" {
		endpoint = "https://s3." + p.Region + ".amazonaws.com"
	}
	if s.Endpoint, err = url.Parse(endpoint); err != nil || s.Endpoint.Host == "" || s.Endpoint.Scheme != "https" && !loopback(s.Endpoint.Hostname()) {
		return nil, fmt.Errorf("endpoint %q is not https://host", endpoint)
	}
	return push.NewS3(s), nil
}

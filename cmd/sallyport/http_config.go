package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// httpConfig is the http part of config.yaml: MCP over the network. Without
// listen there is none.
type httpConfig struct {
	// Listen is the address to serve on, such as 127.0.0.1:7766. Any other than a
	// loopback address needs TLS, or insecure_non_loopback.
	Listen string `yaml:"listen"`
	// TLSCert and TLSKey are PEM files; they are read again when they change.
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`
	// ClientCA is a PEM file: clients need a certificate that it signed, and a
	// token as well.
	ClientCA string `yaml:"client_ca"`
	// InsecureNonLoopback serves without TLS where others can listen in: only
	// behind a proxy that does TLS, or on a network of one's own.
	InsecureNonLoopback bool `yaml:"insecure_non_loopback"`
	// Hosts are the names that clients reach this server by (Host header, with
	// the port); Origins the web origins whose pages may call it.
	Hosts   []string `yaml:"hosts"`
	Origins []string `yaml:"origins"`
	// URL is where clients find /mcp; it is the audience that JWTs need.
	URL string `yaml:"url"`
	// MaxSessions bounds the open sessions, SessionIdle their unused time.
	MaxSessions int      `yaml:"max_sessions"`
	SessionIdle duration `yaml:"session_idle"`
	// JWT accepts tokens of an identity provider beside our own.
	JWT struct {
		Issuer string `yaml:"issuer"`
		// JWKS is the issuer's key set: a file or an https URL.
		JWKS string `yaml:"jwks"`
		// Workspaces are the folders that a token may open.
		Workspaces []string `yaml:"workspaces"`
		// Servers are the authorization servers that clients are sent to; the
		// issuer by default.
		Servers []string `yaml:"authorization_servers"`
		// Claims rename the claims that are read.
		Claims struct {
			Agent     string `yaml:"agent"`
			Workspace string `yaml:"workspace"`
			MaxTier   string `yaml:"max_tier"`
			Tools     string `yaml:"tools"`
		} `yaml:"claims"`
	} `yaml:"jwt"`
}

// open binds the address, if it may be served as configured.
func (c httpConfig) open() (net.Listener, error) {
	t, err := c.tls()
	if err != nil {
		return nil, err
	}
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP on %q: %w", c.Listen, err)
	}
	if t == nil && !addr.IP.IsLoopback() && !c.InsecureNonLoopback {
		return nil, fmt.Errorf("serve HTTP on %s: others could listen in; set http.tls_cert and http.tls_key, "+
			"or http.insecure_non_loopback behind a proxy that does TLS", c.Listen)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP: %w", err)
	}
	if t == nil {
		return l, nil
	}
	return tls.NewListener(l, t), nil
}

// tls is the configuration of TLS, nil for none.
func (c httpConfig) tls() (*tls.Config, error) {
	if c.TLSCert == "" && c.TLSKey == "" {
		if c.ClientCA != "" {
			return nil, errors.New("http.client_ca needs http.tls_cert and http.tls_key")
		}
		return nil, nil
	}
	cert := &certificate{cert: c.TLSCert, key: c.TLSKey}
	if _, err := cert.get(nil); err != nil {
		return nil, err
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read http.client_ca: %w", err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read http.client_ca: %s holds no PEM certificate", c.ClientCA)
	}
	return t, nil
}

// certificate is a pair of files that may be renewed while serving.
type certificate struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	of     time.Time // modification time of the certificate's file
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && i.ModTime().Equal(c.of) {
		return c.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.loaded, c.of = &pair, i.ModTime()
			return c.loaded, nil
		}
	}
	if c.loaded != nil {
		return c.loaded, nil // half renewed: the old pair is good until the new one is whole
	}
	return nil, fmt.Errorf("read http.tls_cert and http.tls_key: %w", err)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"sallyport/audit"
	"sallyport/mcpserver/identity"
	"sallyport/policy"
)

func (p place) tokens() string { return filepath.Join(p.state, "tokens") }

// tokenIn asks for a token.
type tokenIn struct {
	Agent     string      `json:"agent"`
	Workspace string      `json:"workspace"`
	MaxTier   policy.Tier `json:"max_tier"`
	Tools     []string    `json:"tools"` // null for all
	TTL       string      `json:"ttl"`
	Parent    string      `json:"parent,omitempty"`
}

// tokenOut is a token that was made: the only time its text is shown.
type tokenOut struct {
	Text string `json:"token"`
	identity.Token
}

// tokenRoutes are the routes that need the tokens. What is made or revoked is
// recorded, without the secret.
func tokenRoutes(m *http.ServeMux, p place, s *identity.Store, log appender) {
	m.HandleFunc("GET /v1/tokens", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.List(time.Now(), r.URL.Query().Get("all") == "true"), nil)
	})
	m.HandleFunc("POST /v1/tokens", func(w http.ResponseWriter, r *http.Request) {
		var in tokenIn
		if !read(w, r, &in) {
			return
		}
		out, err := makeToken(p, s, in, personOf(r).String())
		if err == nil {
			err = recordToken(r, log, "token.create", out.Token)
		}
		if err != nil {
			answer(w, nil, err)
			return
		}
		answer(w, out, nil)
	})
	m.HandleFunc("DELETE /v1/tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
		t, err := s.Revoke(time.Now(), r.PathValue("id"))
		if err == nil {
			err = recordToken(r, log, "token.revoke", t)
		}
		answer(w, t, err)
	})
}

func makeToken(p place, s *identity.Store, in tokenIn, by string) (tokenOut, error) {
	ttl, err := time.ParseDuration(in.TTL)
	if err != nil {
		return tokenOut{}, fmt.Errorf("make a token: %q is not a duration such as 24h", in.TTL)
	}
	root, err := p.checkWorkspace(in.Workspace)
	if err != nil {
		return tokenOut{}, err
	}
	text, t, err := s.Create(time.Now(), identity.Request{
		Rights: identity.Rights{Agent: in.Agent, Workspace: root, MaxTier: in.MaxTier, Tools: in.Tools},
		Parent: in.Parent, TTL: ttl, By: by,
	})
	return tokenOut{text, t}, err
}

func recordToken(r *http.Request, log appender, event string, t identity.Token) error {
	_, err := log.Append(r.Context(), audit.Record{
		Kind: audit.KindEvent, Event: event, Agent: t.Agent, Workspace: t.Workspace, Person: personOf(r).String(), Detail: asJSON(t),
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", event, err)
	}
	return nil
}

// localTokens opens what the token routes need where nobody serves.
func localTokens(p place, m *http.ServeMux) (shut func() error, err error) {
	_, log, err := openLog(p)
	if err != nil {
		return nil, err
	}
	s, err := identity.Open(p.tokens()) // the log's lock keeps others out of this file too
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	tokenRoutes(m, p, s, log)
	return func() error { return errors.Join(s.Close(), log.Close()) }, nil
}

// appender is the log as the token routes need it.
type appender interface {
	Append(ctx context.Context, r audit.Record) (audit.Seq, error)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sallyport/audit"
	"sallyport/policy/approval"
)

// backend is the control API as a command sees it: the daemon's where one
// serves, else the same handler over stores that the command opens itself.
type backend struct {
	client *http.Client
	close  func()
}

// need says which stores a command has to have where nobody serves.
type need int

const (
	needLog    need = iota // the log, read-only
	needDesk               // the desk, and the log for what is decided
	needTokens             // the tokens, and the log for what is made or revoked
	needDaemon
)

// errNobody means that no daemon serves.
var errNobody = errors.New("no sallyport daemon serves")

func openBackend(cmd *cobra.Command, n need) (*backend, error) {
	p, err := placeOf(cmd)
	if err != nil {
		return nil, err
	}
	if c, err := dial(p.controlSock()); err == nil {
		c.Close()
		return remote(p), nil
	} else if errors.Is(err, syscall.EAGAIN) {
		return nil, tooMany(p)
	} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("reach the daemon: %w", err)
	}
	return local(p, n)
}

func remote(p place) *backend {
	t := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return attend(p, p.controlSock()) }}
	return &backend{client: &http.Client{Transport: t}, close: t.CloseIdleConnections}
}

// local opens the stores in this process.
func local(p place, n need) (*backend, error) {
	m := http.NewServeMux()
	b := &backend{}
	var shut func()
	b.client, shut = inProcess(m)
	b.close = shut
	switch n {
	case needLog:
		c, err := loadConfig(p.config)
		if err != nil {
			return nil, err
		}
		o, err := c.logOptions(nil)
		if err != nil {
			return nil, err
		}
		r, err := audit.OpenReadOnly(p.log(), o)
		if err != nil {
			return nil, fmt.Errorf("open the audit log: %w", err)
		}
		logRoutes(m, r, localAnchors(c))
		localPushRoutes(m, p, c, r)
	case needDesk:
		c, log, err := openLog(p)
		if err != nil {
			return nil, err
		}
		desk, err := openDesk(p, c, log)
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		set, err := openPresets(p, c.Preset)
		if err != nil {
			return nil, errors.Join(err, desk.Close(), log.Close())
		}
		person := func(r *http.Request) approval.Person { return c.holding(personOf(r)) }
		deskRoutes(m, desk, person)
		presetRoutes(m, p, set, desk, log, person)
		files, err := openPendingFiles(p, c, desk, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, errors.Join(err, desk.Close(), log.Close())
		}
		b.close = func() { shut(); _ = errors.Join(files.syncAll(), desk.Close(), log.Close()) }
	case needTokens:
		done, err := localTokens(p, m)
		if err != nil {
			return nil, err
		}
		b.close = func() { shut(); _ = done() }
	default:
		return nil, errNobody
	}
	return b, nil
}

// openLog opens the log for writing where nobody serves, with the configuration
// that it is opened by.
func openLog(p place) (config, *audit.Log, error) {
	if err := p.make(); err != nil {
		return config{}, nil, err
	}
	c, err := loadConfig(p.config)
	if err != nil {
		return config{}, nil, err
	}
	o, err := c.logOptions(nil)
	if err != nil {
		return c, nil, err
	}
	log, err := audit.Open(p.log(), o)
	if err != nil {
		return config{}, nil, fmt.Errorf("open the audit log: %w", err)
	}
	return c, log, nil
}

// inProcess serves a handler to this process alone, over in-memory connections.
func inProcess(h http.Handler) (*http.Client, func()) {
	conns := make(pipeListener)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(conns) }()
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	return &http.Client{Transport: t}, func() { t.CloseIdleConnections(); srv.Close() }
}

// pipeListener accepts the connections that are sent to it.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "in process", Net: "unix"} }

// do makes one request; out may be nil.
func (b *backend) do(ctx context.Context, method, path string, in, out any) error {
	body, err := b.stream(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return nil
}

// stream makes one request and hands its body on.
func (b *backend) stream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://sallyport"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var p problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Error == "" {
		return nil, fmt.Errorf("the daemon answered %s: it may be another version (`sallyport stop` restarts it)", resp.Status)
	}
	return nil, errors.New(p.Error)
}

// self is this process's own user.
func self() peer {
	p := peer{uid: os.Geteuid(), pid: os.Getpid(), user: strconv.Itoa(os.Geteuid())}
	if u, err := user.Current(); err == nil {
		p.user = u.Username
	}
	return p
}

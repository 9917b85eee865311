package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sallyport/policy/approval"
	"sallyport/policy/approval/console"
)

// page is the web page of the desk. It listens on a loopback port of its own
// from the first time that somebody asks for a link, unless it is served where
// agents call, under console.url.
type page struct {
	d *daemon

	mu     sync.Mutex
	public *console.Console // at console.url
	web    *console.Console
	server *http.Server
	base   string // "http://127.0.0.1:PORT"
}

// link opens the page for a person and mints a one-time login.
func (p *page) link(who approval.Person) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.public != nil {
		path, err := p.public.Link(who)
		return strings.TrimSuffix(p.d.config.Console.URL, console.DefaultPrefix) + path, err
	}
	if p.server == nil {
		if err := p.open(); err != nil {
			return "", err
		}
	}
	path, err := p.web.Link(who)
	if err != nil {
		return "", err
	}
	return p.base + path, nil
}

// publish is the page for console.url, nil without one.
func (p *page) publish() (http.Handler, error) {
	if p.d.config.Console.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(p.d.config.Console.URL)
	if err != nil {
		return nil, fmt.Errorf("serve the console: %w", err)
	}
	web, err := console.New(console.Options{Desk: p.d.desk, Hosts: []string{u.Hostname()}, Secure: u.Scheme == "https"})
	if err != nil {
		return nil, fmt.Errorf("serve the console: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.public = web
	return web, nil
}

func (p *page) open() error {
	web, err := console.New(console.Options{Desk: p.d.desk})
	if err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	listen := p.d.config.Console.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil || !addr.IP.IsLoopback() {
		return fmt.Errorf("open the console: console.listen %q is not a loopback address", listen)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	p.web, p.base = web, "http://"+l.Addr().String()
	p.server = &http.Server{Handler: p.d.touching(web), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	p.d.busy.Go(func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.d.logger.Error("serve the console", "err", err)
		}
	})
	return nil
}

func (p *page) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close()
	}
}

func (p *page) postLink(w http.ResponseWriter, r *http.Request) {
	who := p.d.personOf(r)
	who.Channel = "console"
	url, err := p.link(who)
	answer(w, map[string]string{"url": url}, err)
}

func newConsole() *cobra.Command {
	return &cobra.Command{
		Use: "console", Short: "Print a one-time link to the approvals page in the browser", Args: cobra.NoArgs,
		Long: `Print a link that opens the approvals page. It works once, for two minutes. The page listens on
loopback only, unless console.url of the configuration has it served at http.listen.`,
		Example: "  sallyport console",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(cmd, needDaemon)
			if errors.Is(err, errNobody) {
				return fmt.Errorf("%w: start one with `sallyport serve`", err)
			}
			if err != nil {
				return err
			}
			defer b.close()
			var out map[string]string
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/console/link", nil, &out); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), out)
			}
			fmt.Fprintln(cmd.OutOrStdout(), out["url"])
			return nil
		},
	}
}

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/audit"
	"sallyport/audit/push"
	"sallyport/mcpserver"
	"sallyport/mcpserver/identity"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/approval/webhook"
	"sallyport/policy/limits"
	"sallyport/policy/rego"
	"sallyport/sandbox"
)

// daemon is the composition root: the one process of a user that owns the log,
// the desk, the policy and the cells.
type daemon struct {
	place  place
	config config
	logger *slog.Logger

	helloTime time.Duration // that a client has to say who it is

	log      *audit.Log
	pusher   *push.Pusher
	desk     *approval.Desk
	files    *pendingFiles // of what waits
	judges   *judges
	limits   counting
	page     page
	webhooks *webhook.Hook // nil where none is configured
	runner   *sandbox.Runner
	mcp      *mcpserver.Server
	tokens   *identity.Store
	presets  *presets
	sessions *sessions

	levelMu sync.Mutex
	level   sandbox.Level // of the last probe
	levelAt time.Time

	telemetry *telemetry

	hostsMu sync.Mutex
	hosts   map[string]int // session -> process that started its shim

	used atomic.Int64 // unix nanoseconds of the last use, for the idle exit
	busy sync.WaitGroup
	stop context.CancelCauseFunc

	ending <-chan struct{} // closed when serve ends

	loading sync.WaitGroup // of the policy
}

// openDaemon opens every store. The log comes first: its lock elects the one
// daemon, and audit.ErrLocked means that another serves.
func openDaemon(ctx context.Context, p place, logger *slog.Logger) (_ *daemon, err error) {
	c, err := loadConfig(p.config)
	if err != nil {
		return nil, err
	}
	if err := p.make(); err != nil {
		return nil, err
	}
	d := &daemon{place: p, config: c, logger: logger, helloTime: 10 * time.Second, hosts: map[string]int{}, sessions: newSessions()}
	d.page.d = d
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.openLog(); err != nil {
		return nil, err
	}
	if d.desk, err = openDesk(p, c, d.log); err != nil {
		return nil, err
	}
	if d.files, err = openPendingFiles(p, c, d.desk, logger); err != nil {
		return nil, err
	}
	if d.webhooks, err = d.newWebhooks(); err != nil {
		return nil, err
	}
	if d.tokens, err = identity.Open(p.tokens()); err != nil {
		return nil, err
	}
	if d.presets, err = openPresets(p, c.Preset); err != nil {
		return nil, err
	}
	if d.judges, err = openJudges(p, c, authorIn(d.log)); err != nil {
		return nil, err
	}
	d.loadPolicy(ctx)
	if d.runner, err = sandbox.NewRunner(sandbox.Options{State: p.state, MinLevel: c.MinLevel}); err != nil {
		return nil, fmt.Errorf("prepare the sandbox: %w", err)
	}
	if d.telemetry, err = openTelemetry(ctx, c.Telemetry); err != nil {
		return nil, err
	}
	if err := d.expectSessions(); err != nil {
		return nil, err
	}
	d.mcp = mcpserver.New(mcpserver.Options{
		Version: version, Ready: d.judges.ready, Gate: d.judges, Desk: filedDesk{d.desk, d.files}, Runner: d.runner, Log: d.log,
		PageSize: d.config.PageSize, Limits: &d.limits, Now: time.Now, ID: newID, Logger: logger,
		Traces: d.telemetry.traces, Metrics: d.telemetry.meters, Rules: d.rules, History: d.history, May: d.may,
		Sessions: sessionsIn{d.log}, Preset: d.preset, About: d.about, Ended: d.sessionEnded, PendingFile: d.files.path,
		HeldFor: c.sessionGrace() + time.Minute,
	})
	return d, nil
}

// counting is the limiter, made once the policy that configures it is loaded.
type counting struct{ *limits.Limiter }

// loadPolicy begins to load the policy, half of a daemon's start. Clients are
// greeted in the meantime and told what became of the calls that a daemon before
// this one left; their next calls wait for it.
func (d *daemon) loadPolicy(ctx context.Context) {
	d.loading.Go(func() {
		d.judges.load(ctx, func(j *judge) { d.limits.Limiter = limits.New(j.engine.Data().Limits) })
	})
}

// openDesk opens the approvals desk, whose every step is recorded before it
// takes effect.
func openDesk(p place, c config, log *audit.Log) (*approval.Desk, error) {
	desk, err := approval.Open(p.desk(), approval.Options{
		TTL: time.Duration(c.ApprovalTTL), Redact: log.Redact, OtherUser: c.Approvers == "other-user", Role: c.decidingRole(),
		Record: func(e approval.Event) error {
			_, err := log.Append(context.Background(), deskRecord(e))
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the approvals: %w", err)
	}
	return desk, nil
}

// deskRecord is what the log keeps of a step at the desk.
func deskRecord(e approval.Event) audit.Record {
	r := audit.Record{Kind: audit.KindEvent, Event: string(e.Kind), Detail: asJSON(e)}
	if q := e.Request; q != nil {
		r.Approval, r.Agent, r.Session, r.Workspace, r.Call = q.ID, q.Agent, q.Session, q.Workspace, q.Call
	}
	if e.Person != nil {
		r.Person = e.Person.String()
	}
	return r
}

// authorIn looks a file's author up in the log: the newest call that left this
// content.
func authorIn(log *audit.Log) authorOf {
	return func(workspace, path, sha256 string) (author string) {
		most := 50 // of calls that name the path; an older author is nobody
		_ = log.Select(context.Background(), audit.Filter{Path: path, Kind: audit.KindOutcome, Newest: true, Limit: most}, func(r audit.Record) bool {
			for _, c := range r.Changes {
				if r.Workspace == workspace && c.Path == path && c.After == sha256 {
					author = r.Agent + "/" + r.Session + " at " + r.Time.Format(time.RFC3339)
				}
			}
			return author == ""
		})
		return author
	}
}

// event appends a record of something that happened to the daemon itself.
func (d *daemon) event(name string, detail any) error {
	_, err := d.log.Append(context.Background(), audit.Record{Kind: audit.KindEvent, Event: name, Detail: asJSON(detail)})
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return nil
}

// close closes what is open, in the opposite order.
func (d *daemon) close() {
	d.loading.Wait()
	var errs []error
	if d.telemetry != nil {
		errs = append(errs, d.telemetry.close())
	}
	if d.runner != nil {
		errs = append(errs, d.runner.Close())
	}
	if d.tokens != nil {
		errs = append(errs, d.tokens.Close())
	}
	if d.desk != nil {
		errs = append(errs, d.desk.Close())
	}
	if d.pusher != nil {
		d.pusher.Close()
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	if err := errors.Join(errs...); err != nil {
		d.logger.Error("close the stores", "err", err)
	}
}

// serve answers on both sockets until ctx ends or, with idle > 0, until nobody
// has used the daemon for that long.
func (d *daemon) serve(ctx context.Context, idle time.Duration, ready func()) error {
	ctx, d.stop = context.WithCancelCause(ctx)
	defer d.stop(nil)
	d.ending = ctx.Done()
	agents, err := listen(d.place.agentSock())
	if err != nil {
		return err
	}
	defer agents.Close()
	people, err := listen(d.place.controlSock())
	if err != nil {
		return err
	}
	stopHTTP, err := d.serveHTTP(ctx)
	if err != nil {
		return err
	}
	control := networkBounds().server(d.touching(d.control()))
	control.ConnContext = withUnixPeer
	d.touch()
	d.judges.watch = func(e *rego.Engine) { d.busy.Go(func() { e.Watch(ctx, d.policyEdited) }) }
	d.busy.Go(func() { d.accept(ctx, agents) })
	d.busy.Go(func() { _ = control.Serve(people) })
	d.busy.Go(func() { d.followPolicy(ctx) })
	d.busy.Go(func() { d.followDesk(ctx) })
	if d.webhooks != nil {
		d.busy.Go(func() { d.runHook(ctx) })
	}
	if idle > 0 && d.config.HTTP.Listen == "" { // nobody on the network could start it again
		d.busy.Go(func() { d.watchIdle(ctx, idle) })
	}
	ready()
	<-ctx.Done()
	d.page.close()
	agents.Close()
	stopHTTP()
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := control.Shutdown(shut); err != nil {
		control.Close()
	}
	d.busy.Wait()
	why := context.Cause(ctx)
	err = d.event("stop", map[string]string{"why": why.Error()})
	if f := (failed{}); errors.As(why, &f) {
		return errors.Join(f.error, err)
	}
	return err
}

// failed is why the daemon could not go on; any other reason to end is orderly.
type failed struct{ error }

// may reports whether the policy data give an agent a tool. Without a policy every
// call is refused, with the reason.
func (d *daemon) may(agent, tool string) bool {
	return d.judges.ready(context.Background()) != nil || d.judges.base.engine.Data().Agent(agent).Allows(tool)
}

// farewellTime is how long a daemon without a policy tells so to whoever has
// connected already: a client that it just hung up on would start another.
const farewellTime = 500 * time.Millisecond

// followPolicy records the policy that decides and follows its edits. Without one
// the daemon ends.
func (d *daemon) followPolicy(ctx context.Context) {
	err := d.judges.ready(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		revision := d.judges.base.engine.Revision()
		d.logger.Info("policy loaded", "revision", revision)
		err = d.event("policy.load", map[string]string{"revision": revision})
	}
	if err != nil {
		d.logger.Error("there is no policy to judge by: end", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(farewellTime):
		}
		d.stop(failed{err})
		return
	}
	d.judges.watch(d.judges.base.engine)
}

// policyEdited records a policy edit that came into force, or was refused.
func (d *daemon) policyEdited(e rego.Event) {
	name, detail := "policy.load", map[string]string{"revision": e.Revision}
	if e.Err != nil {
		name, detail["error"] = "policy.refused", e.Err.Error()
		d.logger.Error("the policy edit is refused; the one before it still decides", "err", e.Err)
	} else {
		d.limits.Configure(d.judges.base.engine.Data().Limits)
		d.logger.Info("policy loaded", "revision", e.Revision)
		d.mcp.ToolsChanged()
	}
	if err := d.event(name, detail); err != nil {
		d.logger.Error("record a policy edit", "err", err)
	}
}

// followDesk ends the running calls of whoever is frozen, and sweeps what has
// expired, until ctx ends.
func (d *daemon) followDesk(ctx context.Context) {
	events, cancel := d.desk.Subscribe()
	defer cancel()
	sweep := time.NewTicker(5 * time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			if err := d.desk.Sweep(); err != nil {
				d.logger.Error("sweep the approvals", "err", err)
			}
			d.files.tidy()
			for _, session := range d.sessions.due(time.Now(), d.config.sessionGrace()) {
				d.sessionEnded(session)
			}
		case e, ok := <-events:
			if !ok { // fell behind, or the desk is closed
				cancel()
				if ctx.Err() != nil {
					return
				}
				events, cancel = d.desk.Subscribe()
				if err := d.files.syncAll(); err != nil {
					d.logger.Error("keep the files of what waits", "err", err)
				}
				continue
			}
			if e.Request != nil {
				d.files.sync(e.Request.ID)
			}
			if e.Kind == approval.Frozen && e.Scope != nil {
				d.mcp.Interrupt(e.Scope.Agent)
			}
		}
	}
}

func (d *daemon) touch() { d.used.Store(time.Now().UnixNano()) }

func (d *daemon) touching(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.touch()
		h.ServeHTTP(w, r)
	})
}

func (d *daemon) watchIdle(ctx context.Context, idle time.Duration) {
	t := time.NewTicker(min(idle, 30*time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if d.mcp.Sessions() > 0 {
				d.touch()
			} else if time.Since(time.Unix(0, d.used.Load())) >= idle {
				d.logger.Info("nobody has used the daemon: exit", "idle", idle)
				d.stop(fmt.Errorf("nobody has used it for %s", idle))
			}
		}
	}
}

// accept serves each agent connection until the listener closes.
func (d *daemon) accept(ctx context.Context, l *net.UnixListener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil {
				d.logger.Error("accept an agent", "err", err)
			}
			return
		}
		conns.Go(func() {
			defer c.Close()
			d.touch()
			stop := context.AfterFunc(ctx, func() { c.CloseRead() })
			defer stop()
			if err := d.agent(ctx, c); err != nil {
				d.logger.Warn("agent connection", "err", err)
			}
			d.touch()
		})
	}
}

// agentConn is an agent's connection behind its handshake.
type agentConn struct {
	*net.UnixConn
	in *bufio.Reader
}

func (a agentConn) Read(b []byte) (int, error) { return a.in.Read(b) }

// Gone reports whether the agent has closed both directions.
func (a agentConn) Gone() bool { return gone(a.UnixConn) }

// agent greets one agent and serves it.
func (d *daemon) agent(ctx context.Context, c *net.UnixConn) error {
	a := agentConn{c, bufio.NewReaderSize(c, 64<<10)}
	if err := c.SetReadDeadline(time.Now().Add(d.helloTime)); err != nil {
		return err
	}
	p, err := d.greet(ctx, a)
	if err != nil {
		_ = writeLine(c, welcome{Error: err.Error(), Remedy: "see `sallyport doctor`"})
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := writeLine(c, welcome{OK: true, Session: p.Session, Version: version, PID: os.Getpid()}); err != nil {
		return err
	}
	defer d.host(p.Session, a)()
	d.sessions.enter(p.Session)
	defer func() {
		if d.sessions.leave(p.Session, time.Now()) && ctx.Err() == nil { // a daemon that stops ends no session
			d.sessionEnded(p.Session)
		}
	}()
	return d.mcp.Serve(ctx, a, p)
}

// host notes which process started a session's shim, until the function it
// returns is called.
func (d *daemon) host(session string, a agentConn) func() {
	who, err := peerOf(a.UnixConn)
	parent, perr := parentOf(who.pid)
	if err != nil || perr != nil {
		return func() {}
	}
	d.hostsMu.Lock()
	defer d.hostsMu.Unlock()
	d.hosts[session] = parent
	return func() {
		d.hostsMu.Lock()
		defer d.hostsMu.Unlock()
		delete(d.hosts, session)
	}
}

// greet reads the hello and establishes who calls.
func (d *daemon) greet(ctx context.Context, a agentConn) (*mcpserver.Peer, error) {
	who, err := peerOf(a.UnixConn)
	if err != nil {
		return nil, err
	}
	var h hello
	if err := readHello(a.in, &h); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if !h.Again { // who comes back is told first what became of its calls
		if err := d.judges.ready(ctx); err != nil {
			return nil, err
		}
	}
	if h.Sallyport != helloVersion {
		return nil, fmt.Errorf("the client speaks handshake %d and this daemon (version %s) speaks %d: restart the older of the two (`sallyport stop`)",
			h.Sallyport, version, helloVersion)
	}
	root, err := d.place.checkWorkspace(h.Workspace)
	if err != nil {
		return nil, err
	}
	session := h.Session
	if session == "" {
		session = ownSession + newID()
	}
	return &mcpserver.Peer{
		Agent: name(h.Agent), User: who.user, Session: name(session), Conn: newID(), Workspace: root,
		MaxTier: policy.L3,
		Sources: map[string]string{"user": "peercred", "agent": "client", "session": "client", "workspace": "client"},
	}, nil
}

// name keeps a client's own claim short and printable.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "unnamed"
	}
	return s[:min(len(s), 64)]
}

// newID is a fresh id of 16 base32 characters (80 random bits).
func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// secretsOf picks the environment's values that look like secrets by name, so
// that they are recognised wherever they turn up.
func secretsOf(environ []string) []string {
	var out []string
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		k = strings.ToUpper(k)
		for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "CREDENTIAL", "PRIVATE_KEY"} {
			if len(v) >= 8 && strings.Contains(k, word) && !filepath.IsAbs(v) {
				out = append(out, v)
				break
			}
		}
	}
	return out
}

func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(err.Error())
	}
	return b
}

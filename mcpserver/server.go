package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/limits"
	"sallyport/sandbox"
	"sallyport/tools"
)

// The stations a call passes, as this package needs them.
type (
	gate interface {
		Admit(ctx context.Context, c policy.Call) (policy.Decision, policy.Facts)
	}
	desk interface {
		Settle(ctx context.Context, a approval.Ask) (approval.Outcome, error)
		Announce(ctx context.Context, asks []approval.Ask) (approval.Batch, error)
		Wait(ctx context.Context, id string) (approval.Request, error)
		Get(id string) (approval.Request, error)
		Approve(id string, by approval.Person, o approval.ApproveOptions) (approval.Request, error)
		Deny(id string, by approval.Person, advice, shown string) (approval.Request, error)
		Finish(id, result string) error
		Frozen(agent string) (bool, string)
	}
	runner interface {
		Run(ctx context.Context, a sandbox.Action, t sandbox.Terms) (sandbox.Result, error)
		Land(ctx context.Context, tx string) ([]sandbox.Change, error)
		Drop(tx string) error
		TxContent(tx, path string) ([]byte, error)
		Keep(tx string, note []byte) error
		Kept() (map[string][]byte, error)
	}
	journal interface {
		Append(ctx context.Context, r audit.Record) (audit.Seq, error)
		Redact(text string) string
		Digest(raw []byte) string
		ByKey(ctx context.Context, session, key string) (*audit.Step, error)
	}
	sessions interface {
		// Steps is what happened in a session.
		Steps(ctx context.Context, session string) ([]audit.Step, error)
		// Newest is the caller's session with calls, or the newest that the same agent
		// and user had in this workspace before; "" for none.
		Newest(ctx context.Context, p *Peer) (string, error)
	}
	limiter interface {
		Admit(now time.Time, k limits.Key, digest string) (bool, limits.Violation)
		Slot(ctx context.Context, name string) (release func(), err error)
		Observe(now time.Time, k limits.Key, o limits.Outcome)
		Session(id string) policy.Session
	}
)

// Options are the stations of a Server; all are required but Logger.
type Options struct {
	Version string
	// Ready waits until calls can be judged; its error refuses a call. nil means
	// at once.
	Ready  func(context.Context) error
	Gate   gate
	Desk   desk
	Runner runner
	Log    journal
	Limits limiter
	Now    func() time.Time
	// ID makes a fresh unique id for a call or a session.
	ID     func() string
	Logger *slog.Logger
	// PageSize is how many entries a list (tools, resources, prompts) gives at a time,
	// 100 by default: hosts that do not ask for a second page miss nothing.
	PageSize int
	// Progress is how often a call that runs on says so, 10 s by default.
	Progress time.Duration
	// Drain is how long requests in flight may still take after a peer has sent its
	// last one, 10 s by default: enough for a scripted client that pipes its
	// requests in and reads on.
	Drain time.Duration
	// Traces and Metrics go where the composition sends them; nil is nowhere.
	Traces  trace.TracerProvider
	Metrics metric.MeterProvider
	// May reports whether an agent has a tool at all; nil means every tool. What it
	// has not is neither listed nor callable.
	May func(agent, tool string) bool
	// Preset is the preset that holds in a workspace; nil is one named strict.
	Preset func(workspace string) (name string, p policy.Preset)
	// About tells of an agent and the cells it would get; nil leaves that out.
	About func(ctx context.Context, agent string) (maxTier policy.Tier, level sandbox.Level)
	// HeldFor is how long changes wait for a person before they are dropped, 45
	// minutes by default: longer than a request and then its approval live.
	HeldFor time.Duration
	// PendingFile is the file that tells programs of a request; nil where there is none.
	PendingFile func(id string) string
	// Ended is told of each HTTP session that has ended for good; nil is told nothing.
	Ended func(session string)
	// Rules are what sallyport://policy shows an agent, History the records of its own
	// session, the newest first. Without them there is no such resource.
	Rules   func() []Rule
	History func(ctx context.Context, session string, most int) ([]audit.Record, error)
	// Sessions are what session_resume answers from; without them there is no such tool.
	Sessions sessions
}

// preset is the preset that holds in a workspace now.
func (o Options) preset(workspace string) (string, policy.Preset) {
	if o.Preset == nil {
		return "strict", policy.Preset{}
	}
	return o.Preset(workspace)
}

// Server serves MCP to any number of connections. Its methods may be called
// concurrently.
type Server struct {
	o       Options
	mcp     *server.MCPServer
	watcher *watcher
	pages   pages
	runs    runs

	mu    sync.Mutex
	conns map[*conn]struct{}
	held  map[string]held  // by heldKey: changes that wait to land
	turns map[string]*turn // by heldKey: who is landing them
	now   map[*running]struct{}
}

// New joins the stations.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, conns: map[*conn]struct{}{}, held: map[string]held{}, turns: map[string]*turn{}, now: map[*running]struct{}{}}
	var err error
	if s.watcher, err = newWatcher(o.Traces, o.Metrics); err != nil {
		o.Logger.Error("observe calls", "err", err)
		s.watcher, _ = newWatcher(nil, nil)
	}
	if o.Traces != nil {
		s.o = s.watcher.traced(o)
	}
	hooks := &server.Hooks{}
	hooks.AddOnError(s.failed)
	s.mcp = server.NewMCPServer("sallyport", o.Version,
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(false, false),
		server.WithPromptCapabilities(false),
		server.WithHooks(hooks),
		server.WithInstructions(instructions),
		server.WithToolFilter(s.visible),
		server.WithPaginationLimit(orDefault(o.PageSize, 100)),
		server.WithRecovery(),
	)
	for _, t := range tools.All() {
		s.mcp.AddTool(describe(t), s.handle)
	}
	s.findHeld()
	s.addOwnTools()
	s.addResources()
	s.addPrompts()
	return s
}

const instructions = `Sallyport guards this machine: its tools replace the shell and the host's own file tools.
Reading is answered at once. Changing code, or anything with effects outside, may answer "pending" with an approval id: tell the user, then repeat the identical call once a person has approved it.
A refusal names its rule and a remedy: follow the remedy instead of trying another spelling.`

// describe is a tool as MCP lists it.
func describe(t tools.Tool) mcp.Tool {
	d := mcp.NewToolWithRawSchema(t.Name, t.Description, t.Input)
	d.Title = t.Title
	d.Annotations = mcp.ToolAnnotation{
		Title:           t.Title,
		ReadOnlyHint:    &t.ReadOnly,
		DestructiveHint: &t.Destructive,
		IdempotentHint:  &t.Idempotent,
		OpenWorldHint:   &t.OpenWorld,
	}
	d.Meta = &mcp.Meta{AdditionalFields: map[string]any{
		"anthropic/alwaysLoad":         true,
		"anthropic/maxResultSizeChars": 200_000,
	}}
	return d
}

// visible keeps the tools that the caller's identity may use. A hidden tool is
// neither listed nor callable.
func (s *Server) visible(ctx context.Context, all []mcp.Tool) []mcp.Tool {
	p := peerOf(ctx)
	kept := make([]mcp.Tool, 0, len(all))
	for _, t := range all {
		if p.mayUse(t.Name) && (s.o.May == nil || s.o.May(p.Agent, t.Name)) {
			kept = append(kept, t)
		}
	}
	return kept
}

// handle is the handler of every tool: it hands the raw arguments to call.
func (s *Server) handle(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	raw := req.Params.RawArguments
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	p := peerOf(ctx)
	ctx, done := s.running(withinTrace(ctx, req.Params.Meta), p)
	defer done()
	ctx, end := s.watch(ctx, p, req.Params.Name)
	defer s.beat(ctx, req.Params.Meta)()
	c := s.call(ctx, p, attempt{tool: req.Params.Name, raw: raw, meta: req.Params.Meta})
	end(c)
	s.keep(c)
	return s.result(c), nil
}

// failed records what never reached handle: an unknown or hidden tool and
// parameters that do not parse.
func (s *Server) failed(ctx context.Context, id any, method mcp.MCPMethod, message any, err error) {
	if method != mcp.MethodToolsCall {
		return
	}
	name := ""
	if req, ok := message.(*mcp.CallToolRequest); ok && req != nil {
		name = req.Params.Name
		ctx = withinTrace(ctx, req.Params.Meta)
	}
	s.watcher.refused(ctx, name)
	r := s.record(peerOf(ctx), audit.KindCall, name)
	r.Call, r.Status, r.Error, r.Trace = s.o.ID(), audit.StatusInvalid, err.Error(), traceOf(ctx)
	if errors.Is(err, server.ErrToolNotFound) {
		r.Error = fmt.Sprintf("tool %q not found", name)
	}
	if _, err := s.o.Log.Append(ctx, r); err != nil {
		s.o.Logger.Error("record a failed request", "method", method, "err", err)
	}
}

// running is a call in flight.
type running struct {
	agent  string
	cancel context.CancelFunc
}

// running notes a call in flight so that Interrupt finds it.
func (s *Server) running(ctx context.Context, p *Peer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{p.Agent, cancel}
	s.mu.Lock()
	s.now[r] = struct{}{}
	s.mu.Unlock()
	return ctx, func() {
		cancel()
		s.mu.Lock()
		delete(s.now, r)
		s.mu.Unlock()
	}
}

// Interrupt cancels every call in flight of an agent; "" means of all. Their
// commands are killed and their outcomes recorded as cancelled.
func (s *Server) Interrupt(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.now {
		if agent == "" || r.agent == agent {
			r.cancel()
		}
	}
}

// ToolsChanged tells every client that the list of tools may have changed, as
// after a new policy.
func (s *Server) ToolsChanged() {
	s.mcp.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
}

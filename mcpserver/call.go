package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/policy/limits"
	"sallyport/sandbox"
	"sallyport/tools"
)

// attempt is one tools/call as it came in.
type attempt struct {
	tool string
	raw  json.RawMessage
	meta *mcp.Meta
}

// call is one call on its way. Each station fills in what it finds; the record
// and the answer are made of the same values.
type call struct {
	id       string
	peer     *Peer
	client   string        // what the client calls itself
	key      string        // what the client calls this call
	trace    string        // W3C trace id
	wait     time.Duration // how long the caller lets it wait for a person
	begun    time.Time
	preset   string
	solo     bool // the preset lets one confirmation cover L2
	tool     tools.Tool
	args     tools.Args
	digest   string     // of args, keyed by the log
	counted  limits.Key // whose call of what this is, for the limits
	action   sandbox.Action
	judged   policy.Call
	facts    policy.Facts
	decision policy.Decision
	allowed  approval.Outcome // who allowed it, where somebody had to
	intent   *audit.Seq
	result   sandbox.Result
	runErr   error
	answer   tools.Answer
	status   audit.Status
	wantsAll bool // the caller asked for the Structured form
}

// call leads one call along its way: plan, judge, ask, record, run, judge the
// effects, record, answer.
func (s *Server) call(ctx context.Context, p *Peer, a attempt) *call {
	c := s.begin(ctx, p, a)
	if err := s.frozen(c); err != nil {
		return s.refuse(ctx, c, a, err)
	}
	_, span := s.watcher.phase(ctx, "plan")
	err := plan(c, a)
	span.End()
	if raw := c.args.Canonical(); raw != nil {
		c.digest = s.o.Log.Digest(raw)
	}
	if err != nil {
		return s.refuse(ctx, c, a, err)
	}
	done, err := s.once(ctx, c, func() *call { return s.guarded(ctx, c, a) })
	if err != nil {
		return s.refuse(ctx, c, a, err)
	}
	return done
}

// guarded is the way of a planned call past the gate.
func (s *Server) guarded(ctx context.Context, c *call, a attempt) *call {
	if err := s.ready(ctx); err != nil {
		return s.refuse(ctx, c, a, err)
	}
	s.see(c)
	if err := s.limit(c, c.args.Canonical()); err != nil {
		return s.refuse(ctx, c, a, err)
	}
	s.admit(ctx, c)
	if done := s.goOn(ctx, c, a); done != nil {
		return done
	}
	if err := s.ask(ctx, c, nil); err != nil {
		return s.refuse(ctx, c, a, err)
	}
	if err := s.intend(ctx, c); err != nil {
		s.settled(c, "not run")
		return s.refuse(ctx, c, a, err)
	}
	s.run(ctx, c)
	s.effects(ctx, c)
	return s.finish(ctx, c)
}

// begin is a call that has got nowhere yet.
func (s *Server) begin(ctx context.Context, p *Peer, a attempt) *call {
	return &call{
		id: s.o.ID(), peer: p, client: clientOf(ctx), key: keyOf(a.meta), trace: traceOf(ctx), begun: s.o.Now(),
		wait: waitOf(a.meta), wantsAll: wantsAll(a.meta), status: audit.StatusInvalid,
	}
}

// ready waits for what judges calls, as at the daemon's start.
func (s *Server) ready(ctx context.Context) error {
	if s.o.Ready == nil {
		return nil
	}
	if err := s.o.Ready(ctx); err != nil {
		return &tools.Failure{
			Kind: tools.KindExecutionFailed, Class: tools.Unrecoverable, Msg: "there is no policy to judge by, so nothing was run: " + err.Error(),
			Remedy: "ask a person to mend the policy; `sallyport policy check` shows where",
		}
	}
	return nil
}

// frozen refuses every call of an agent that a person has stopped.
func (s *Server) frozen(c *call) error {
	on, why := s.o.Desk.Frozen(c.peer.Agent)
	if !on {
		return nil
	}
	c.status, c.answer = audit.StatusDenied, frozen(why)
	return errStopped
}

// plan turns the arguments into the one Action that is judged, recorded and run.
func plan(c *call, a attempt) error {
	t, ok := tools.Find(a.tool)
	if !ok {
		return tools.NotFound(a.tool)
	}
	c.tool = t
	args, err := t.Parse(a.raw)
	if err != nil {
		return err
	}
	c.args = args
	ws, err := sandbox.OpenWorkspace(c.peer.Workspace)
	if err != nil {
		return err
	}
	defer ws.Close()
	c.action, err = t.Plan(args, tools.Place{Root: c.peer.Workspace, Exists: ws.Exists, Resolve: ws.Resolve, Mark: c.mark()})
	return err
}

// mark is what the call leaves in the commits it makes.
func (c *call) mark() tools.Mark {
	return tools.Mark{Call: c.id, Agent: c.peer.Agent, Session: c.peer.Session}
}

// limit stops an agent that runs in circles or too fast.
func (s *Server) limit(c *call, args json.RawMessage) error {
	c.counted = limits.Key{
		Agent: c.peer.Agent, Session: c.peer.Session, Tool: c.tool.Name, Shape: limits.Shape(c.tool.Name, args),
	}
	ok, v := s.o.Limits.Admit(c.begun, c.counted, c.digest)
	if ok {
		return nil
	}
	c.decision = policy.Decision{Tier: policy.L3, Verdict: policy.Deny, Rules: []policy.RuleHit{v.Rule()}}
	c.status, c.answer = audit.StatusDenied, limited(v)
	return errStopped
}

// run carries the action out. A command waits for one of the machine's slots;
// of a workspace's test runs one goes at a time.
func (s *Server) run(ctx context.Context, c *call) {
	if c.action.Exec != nil {
		name := ""
		if c.tool.Name == "run_tests" {
			name = "tests of " + c.peer.Workspace
		}
		release, err := s.o.Limits.Slot(ctx, name)
		if err != nil {
			c.runErr = &sandbox.Error{Kind: sandbox.KindCanceled, Msg: "the call ended before a slot was free", Err: err, Remedy: "try again"}
			return
		}
		defer release()
	}
	c.result, c.runErr = s.o.Runner.Run(ctx, c.action, c.decision.Obligations.Terms)
}

// Plan is the call that a tool would make of raw arguments in a workspace, for
// asking policy about it; nothing runs.
func Plan(tool string, raw json.RawMessage, root string) (policy.Call, error) {
	c := &call{peer: &Peer{Agent: "cli", Workspace: root, MaxTier: policy.L3}, begun: time.Now()}
	if err := plan(c, attempt{tool: tool, raw: raw}); err != nil {
		return policy.Call{}, err
	}
	return judged(c), nil
}

// judge looks at the workspace as it is now and decides.
func (s *Server) judge(ctx context.Context, c *call) {
	s.see(c)
	s.admit(ctx, c)
}

// see makes of a planned call what policy sees of it.
func (s *Server) see(c *call) {
	preset, of := s.o.preset(c.peer.Workspace)
	c.preset, c.solo = preset, of.Session
	c.judged = judged(c)
}

// admit decides on the call as it was judged last.
func (s *Server) admit(ctx context.Context, c *call) {
	c.judged.Session = s.o.Limits.Session(c.peer.Session)
	c.decision, c.facts = s.o.Gate.Admit(ctx, c.judged)
}

// judged is the call as policy sees it.
func judged(c *call) policy.Call {
	head := sandbox.ReadHead(c.peer.Workspace)
	return policy.Call{
		Phase: policy.PhaseCall, ID: c.id, Tool: c.tool.Name, Args: c.args.Canonical(), Agent: c.agent(),
		Workspace: policy.Workspace{
			Root: c.peer.Workspace, Branch: head.Branch, Commit: head.Commit, Worktree: head.Worktree, Preset: c.preset,
		},
		Action: c.action, Now: c.begun,
	}
}

func (c *call) agent() policy.Agent {
	return policy.Agent{Name: c.peer.Agent, User: c.peer.User, Client: c.client, Session: c.peer.Session, MaxTier: c.peer.MaxTier}
}

// errStopped is wrapped by what ends a call before anything runs, where the
// answer is already written.
var errStopped = errors.New("stopped before running")

// ask settles whether the call may go on: by its verdict, and by a person where
// the verdict is Ask. landing, where set, is what a run already did and waits
// to land.
func (s *Server) ask(ctx context.Context, c *call, landing *landing) error {
	if done, err := c.verdict(); done {
		return err
	}
	out, err := s.o.Desk.Settle(ctx, s.request(c, landing))
	if err != nil {
		return fmt.Errorf("ask for approval: %w", err)
	}
	if out.State == approval.StatePending && s.awaited(ctx, c, out.Request) {
		if landing == nil { // while a person looked, files may have changed
			s.judge(ctx, c)
			if done, err := c.verdict(); done {
				return err
			}
		}
		if out, err = s.o.Desk.Settle(ctx, s.request(c, landing)); err != nil {
			return fmt.Errorf("use the approval: %w", err)
		}
	}
	c.allowed = out
	if out.State == approval.StateApproved {
		return nil
	}
	c.status, c.answer = unsettled(c.decision, out, !c.planned())
	return errStopped
}

// verdict ends the question at once where policy alone answers it.
func (c *call) verdict() (done bool, err error) {
	switch c.decision.Verdict {
	case policy.Allow:
		return true, nil
	case policy.Ask:
		return false, nil
	}
	c.status, c.answer = audit.StatusDenied, denied(c.decision)
	return true, errStopped
}

// awaited reports whether a request was decided while the caller waited: at the
// host's own prompt where that may be, and else for as long as the caller allows.
func (s *Server) awaited(ctx context.Context, c *call, r approval.Request) bool {
	if hostMay(ctx, c, r) && s.askHost(ctx, c, r) {
		return true
	}
	if c.wait <= 0 {
		return false
	}
	wctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	_, err := s.o.Desk.Wait(wctx, r.ID)
	return err == nil // else time is up: still pending
}

// intend makes the intent durable; without it nothing runs. An L0 call has no
// effect: its one record is written before the answer leaves.
func (s *Server) intend(ctx context.Context, c *call) error {
	if c.decision.Tier == policy.L0 {
		return nil
	}
	seq, err := s.o.Log.Append(ctx, s.intentRecord(c))
	if err != nil {
		return fmt.Errorf("record the intent (nothing was run): %w", err)
	}
	c.intent = &seq
	return nil
}

// finish records the outcome and then lets the answer go. Without a durable
// outcome the answer is withheld.
func (s *Server) finish(ctx context.Context, c *call) *call {
	ctx = context.WithoutCancel(ctx) // a caller that left must not tear a hole in the log
	if c.answer.Text == "" {
		c.answer = c.tool.Answer(c.args, c.action, c.result, c.runErr)
		c.status = statusOf(c)
	}
	c.answer.Text = s.o.Log.Redact(c.answer.Text)
	s.settled(c, string(c.status))
	s.o.Limits.Observe(s.o.Now(), c.counted, observed(c))
	if _, err := s.o.Log.Append(ctx, s.outcomeRecord(c)); err != nil {
		s.o.Logger.Error("record an outcome", "call", c.id, "err", err)
		c.answer = unrecorded(c, err)
	}
	return c
}

// settled tells the desk how the run that it allowed ended.
func (s *Server) settled(c *call, result string) {
	if c.allowed.Request.ID == "" || c.allowed.State != approval.StateApproved {
		return
	}
	if err := s.o.Desk.Finish(c.allowed.Request.ID, result); err != nil {
		s.o.Logger.Error("close an approval", "id", c.allowed.Request.ID, "err", err)
	}
}

// refuse ends a call before anything ran: recorded, with a reason and a remedy.
func (s *Server) refuse(ctx context.Context, c *call, a attempt, err error) *call {
	if !errors.Is(err, errStopped) {
		f := tools.FailureOf(err)
		c.answer = tools.Answer{Text: f.Text(), IsError: true, Failure: f}
		if c.tool.Name != "" && f.Kind != tools.KindInvalidParameters {
			c.status = audit.StatusFailed
		}
	}
	c.answer.Text = s.o.Log.Redact(c.answer.Text)
	r := s.outcomeRecord(c)
	if c.tool.Name == "" || c.args.Canonical() == nil {
		r.Tool, r.Args = a.tool, rawArgs(a.raw)
	}
	if _, err := s.o.Log.Append(context.WithoutCancel(ctx), r); err != nil {
		s.o.Logger.Error("record a refusal", "call", c.id, "err", err)
		c.answer = unrecorded(c, err)
	}
	return c
}

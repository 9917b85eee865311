package mcpserver

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/audit"
	"sallyport/policy"
	"sallyport/policy/approval"
	"sallyport/sandbox"
	"sallyport/tools"
)

// held is a run whose changes wait for a person; repeating the identical call
// lands them instead of running again. Its JSON is the note that stays with the
// transaction, so that it outlives the daemon. What policy says of the changes is
// asked anew when they land.
type held struct {
	Key    string         `json:"key"` // see heldKey
	Result sandbox.Result `json:"result"`
	Since  time.Time      `json:"since"`
}

// heldFor is how long changes wait unless Options.HeldFor says otherwise.
const heldFor = 45 * time.Minute

// findHeld takes over what an earlier daemon held. A note that cannot be read
// tells of nothing that could land.
func (s *Server) findHeld() {
	kept, err := s.o.Runner.Kept()
	if err != nil {
		s.o.Logger.Error("look for changes that wait to land", "err", err)
	}
	for tx, note := range kept {
		var h held
		if err := json.Unmarshal(note, &h); err != nil || h.Key == "" || h.Result.Tx != tx {
			s.o.Logger.Error("read what a command left to land", "tx", tx, "err", err)
			s.drop(tx)
			continue
		}
		s.held[h.Key] = h
	}
}

// keepHeld notes what c's run did; it is false where the identical call holds
// changes already.
func (s *Server) keepHeld(c *call) bool {
	h := held{Key: s.heldKey(c), Result: c.result, Since: s.o.Now()}
	s.mu.Lock()
	_, busy := s.held[h.Key]
	if !busy {
		s.held[h.Key] = h
	}
	s.mu.Unlock()
	if busy {
		return false
	}
	note := h // on disk, so without the secrets that a command printed
	note.Result.Stdout.Data = []byte(s.o.Log.Redact(string(h.Result.Stdout.Data)))
	note.Result.Stderr.Data = []byte(s.o.Log.Redact(string(h.Result.Stderr.Data)))
	if err := s.o.Runner.Keep(c.result.Tx, toJSON(note)); err != nil {
		s.o.Logger.Error("keep the changes of a command over a restart", "call", c.id, "err", err)
	}
	return true
}

// heldOf is the held run of the identical call, if there is one. What waited too
// long is dropped.
func (s *Server) heldOf(key string) (held, bool) {
	most := s.o.HeldFor
	if most <= 0 {
		most = heldFor
	}
	s.mu.Lock()
	var old []string
	for k, h := range s.held {
		if s.o.Now().Sub(h.Since) > most && s.turns[k] == nil {
			delete(s.held, k)
			old = append(old, h.Result.Tx)
		}
	}
	h, ok := s.held[key]
	s.mu.Unlock()
	for _, tx := range old {
		s.drop(tx)
	}
	return h, ok
}

// turn is one call's turn to land what the identical call did.
type turn struct {
	done   chan struct{}
	landed *call // set before done is closed; nil when nothing landed
}

// takeTurn waits until no identical call is landing. Where one landed meanwhile,
// that is returned and no turn is taken.
func (s *Server) takeTurn(ctx context.Context, key string) (mine *turn, landed *call, err error) {
	for {
		s.mu.Lock()
		t := s.turns[key]
		if t == nil {
			t = &turn{done: make(chan struct{})}
			s.turns[key] = t
			s.mu.Unlock()
			return t, nil, nil
		}
		s.mu.Unlock()
		select {
		case <-t.done:
			if t.landed != nil {
				return nil, t.landed, nil
			}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (s *Server) endTurn(key string, t *turn, landed *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.landed = landed
	delete(s.turns, key)
	close(t.done)
}

// goOn goes on where the identical call was held: it settles and lands what that
// run did. nil means that nothing is held and the call goes its ordinary way.
func (s *Server) goOn(ctx context.Context, c *call, a attempt) *call {
	key := s.heldKey(c)
	if _, ok := s.heldOf(key); !ok {
		return nil
	}
	mine, landed, err := s.takeTurn(ctx, key)
	if err != nil {
		return s.refuse(ctx, c, a, err)
	}
	if landed != nil {
		return s.landedBefore(ctx, c, landed)
	}
	h, ok := s.heldOf(key)
	if !ok { // it was dropped while we waited
		s.endTurn(key, mine, nil)
		return nil
	}
	done, ok := s.landHeld(ctx, c, a, h)
	if !ok {
		s.endTurn(key, mine, nil)
	} else {
		s.endTurn(key, mine, done)
	}
	return done
}

// landHeld settles and lands what the identical call did before; ok reports
// whether it landed. Both the call and what it did are judged as policy stands now.
func (s *Server) landHeld(ctx context.Context, c *call, a attempt, h held) (_ *call, ok bool) {
	allowed := c.decision.Verdict != policy.Deny
	l := s.landing(ctx, c, h.Result)
	if allowed {
		c.result, c.decision, c.facts = h.Result, l.decision, l.facts
	}
	if err := s.ask(ctx, c, &l); err != nil {
		if c.status == audit.StatusDenied {
			s.release(h.Key)
			s.drop(h.Result.Tx)
		}
		return s.refuse(ctx, c, a, err), false
	}
	if err := s.intend(ctx, c); err != nil {
		s.settled(c, "not landed")
		return s.refuse(ctx, c, a, err), false
	}
	s.release(h.Key)
	s.land(ctx, c, l)
	return s.finish(ctx, c), c.runErr == nil
}

// landedBefore answers a call that came while the identical one landed: once is
// enough, for nobody approved two.
func (s *Server) landedBefore(ctx context.Context, c, first *call) *call {
	c.decision, c.facts = first.decision, first.facts
	c.status = first.status
	c.answer = tools.Answer{
		Text:    "An identical call (" + first.id + ") landed at this moment what the command had changed; nothing was run or landed again. It was told:\n" + first.answer.Text,
		IsError: first.answer.IsError, Data: first.answer.Data,
	}
	if _, err := s.o.Log.Append(context.WithoutCancel(ctx), s.outcomeRecord(c)); err != nil {
		c.answer = unrecorded(c, err)
	}
	return c
}

func (s *Server) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key)
}

// heldKey names the identical call of the same session's agent.
func (s *Server) heldKey(c *call) string {
	return approval.Subject{
		Agent: c.peer.Agent, Session: c.peer.Session, User: c.peer.User, Tool: c.tool.Name,
		Args: c.args.Canonical(), Workspace: c.peer.Workspace,
	}.Digest()
}

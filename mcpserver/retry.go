package mcpserver

import (
	"context"
	"fmt"
	"sync"

	"sallyport/audit"
	"sallyport/tools"
)

// A client that lost an answer sends the call again under the same key
// (_meta["claudecode/toolUseId"] or MetaKey). Such a call never runs twice: it
// attaches to the running one, gets the answer that was given, or is told that
// the first was interrupted.

// MetaKey in a request's _meta names the call for retries, where the client has
// no key of its own.
const MetaKey = "sallyport/key"

// remembered is how many calls of late are remembered with their whole answers; of
// older ones the log remembers a preview.
const remembered = 256

// earlier is a call that was made under a key.
type earlier struct {
	digest string // of tool and arguments
	done   chan struct{}
	c      *call // set before done is closed; nil when nothing ran
}

// runs are the calls of late by session and key.
type runs struct {
	mu    sync.Mutex
	byKey map[string]*earlier
	order []string
}

func (r *runs) claim(key, digest string) (p *earlier, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.byKey[key]; p != nil {
		return p, false
	}
	if r.byKey == nil {
		r.byKey = map[string]*earlier{}
	}
	p = &earlier{digest: digest, done: make(chan struct{})}
	r.byKey[key] = p
	r.order = append(r.order, key)
	if len(r.order) > remembered {
		delete(r.byKey, r.order[0])
		r.order = r.order[1:]
	}
	return p, true
}

// settle ends a claim: with the call that ran, or with nil when nothing ran and
// the key may be used again.
func (r *runs) settle(key string, p *earlier, c *call) {
	r.mu.Lock()
	p.c = c
	if c == nil && r.byKey[key] == p {
		delete(r.byKey, key)
	}
	r.mu.Unlock()
	close(p.done)
}

// once makes a call that has a key at most once: do is the way it takes the
// first time.
func (s *Server) once(ctx context.Context, c *call, do func() *call) (*call, error) {
	if c.key == "" {
		return do(), nil
	}
	key, digest := c.peer.Session+"\x00"+c.key, c.tool.Name+"\x00"+c.digest
	for {
		p, mine := s.runs.claim(key, digest)
		if mine {
			if known, err := s.recorded(ctx, c); known != nil || err != nil {
				s.runs.settle(key, p, nil)
				return known, err
			}
			out := do()
			if out.ran() {
				s.runs.settle(key, p, out)
			} else {
				s.runs.settle(key, p, nil)
			}
			return out, nil
		}
		if p.digest != digest {
			return nil, otherCall(c)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.c != nil {
			again := *p.c
			again.wantsAll = c.wantsAll
			return &again, nil
		}
	}
}

// ran reports whether the call got past every gate.
func (c *call) ran() bool {
	return c.status != audit.StatusInvalid && c.status != audit.StatusDenied && c.status != audit.StatusPending
}

// recorded is what the log knows of an earlier call under the same key.
func (s *Server) recorded(ctx context.Context, c *call) (*call, error) {
	step, err := s.o.Log.ByKey(ctx, c.peer.Session, c.key)
	if err != nil {
		return nil, fmt.Errorf("look for an earlier call with this key: %w", err)
	}
	if step == nil || step.Call.Status == audit.StatusPending || step.Call.Status == audit.StatusDenied || step.Call.Status == audit.StatusInvalid {
		return nil, nil
	}
	if step.Call.Tool != c.tool.Name || step.Call.ArgsDigest != c.digest {
		return nil, otherCall(c)
	}
	end := step.End()
	if end == nil || end.Status == audit.StatusInterrupted {
		return nil, &tools.Failure{
			Kind: tools.KindExecutionFailed, Class: tools.Fixable,
			Msg:    fmt.Sprintf("this call ran before (call %s) and was interrupted: whether it took effect is not known", step.Call.Call),
			Remedy: "look at the state first (git_status, read_file); to run it again make a new call",
		}
	}
	text := fmt.Sprintf("This call ran before (call %s, record %d) and ended %s; it was not run again. What was kept of its answer:\n", step.Call.Call, end.Seq, end.Status)
	for _, o := range end.Outputs {
		text += o.Preview
	}
	c.status = end.Status
	c.answer = tools.Answer{Text: text, IsError: end.Status != audit.StatusOK}
	return c, nil
}

func otherCall(c *call) error {
	return &tools.Failure{
		Kind: tools.KindInvalidParameters, Class: tools.Fixable,
		Msg:    fmt.Sprintf("the key %q belongs to another call with other arguments", c.key),
		Remedy: "use a fresh key for a new call",
	}
}

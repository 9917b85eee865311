package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"sallyport/policy"
)

// The resources tell an agent where it stands. Each shows the reader only what
// is its own.
const (
	uriWorkspace = "sallyport://workspace"
	uriPolicy    = "sallyport://policy"
	uriSession   = "sallyport://session"
	uriOutput    = "sallyport://output/{call}/{page}"
)

// Rule is a rule of policy as agents are told of it.
type Rule struct {
	ID      string         `json:"id"`
	Tier    policy.Tier    `json:"tier"`
	Verdict policy.Verdict `json:"verdict"`
	Title   string         `json:"title"`
	Remedy  string         `json:"remedy,omitempty"`
}

// templateName is the name of the one resource template.
const templateName = "output"

// historyLength is how many records sallyport://session shows.
const historyLength = 50

func (s *Server) addResources() {
	s.resource(uriWorkspace, "workspace", "Who you are and where you work: folder, branch, preset, highest tier, walls, the tools you may use", s.workspace)
	if s.o.Rules != nil {
		s.resource(uriPolicy, "policy", "The rules that judge your calls, with their tiers and remedies", func(context.Context, *Peer) (any, error) {
			return s.o.Rules(), nil
		})
	}
	if s.o.History != nil {
		s.resource(uriSession, "session", "What your session did so far, the newest first", s.history)
	}
	s.mcp.AddResourceTemplate(mcp.NewResourceTemplate(uriOutput, templateName,
		mcp.WithTemplateDescription("The whole output of one of your recent commands, page by page from 1"),
		mcp.WithTemplateMIMEType("text/plain")), s.output)
}

// resource adds a JSON document.
func (s *Server) resource(uri, name, about string, of func(context.Context, *Peer) (any, error)) {
	s.mcp.AddResource(mcp.NewResource(uri, name, mcp.WithResourceDescription(about), mcp.WithMIMEType("application/json")),
		func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			v, err := of(ctx, peerOf(ctx))
			if err != nil {
				return nil, err
			}
			b, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				return nil, err
			}
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "application/json", Text: s.o.Log.Redact(string(b))}}, nil
		})
}

func (s *Server) workspace(ctx context.Context, p *Peer) (any, error) {
	if p.Workspace == "" {
		return nil, errors.New("you work in no workspace")
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.who(ctx, p), nil
}

// past is a record as its own session sees it.
type past struct {
	Call   string    `json:"call"`
	Time   time.Time `json:"time"`
	Tool   string    `json:"tool"`
	Status string    `json:"status"`
	Tier   string    `json:"tier,omitempty"`
	Rules  []string  `json:"rules,omitempty"`
	Error  string    `json:"error,omitempty"`
	Paths  []string  `json:"changed,omitempty"`
}

func (s *Server) history(ctx context.Context, p *Peer) (any, error) {
	records, err := s.o.History(ctx, p.Session, historyLength)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	out := []past{}
	for _, r := range records {
		if r.Session != p.Session || r.Agent != p.Agent || r.Status == "" {
			continue
		}
		h := past{Call: r.Call, Time: r.Time, Tool: r.Tool, Status: string(r.Status), Tier: r.Tier, Rules: r.Rules, Error: r.Error}
		for _, c := range r.Changes {
			h.Paths = append(h.Paths, c.Path)
		}
		out = append(out, h)
	}
	return out, nil
}

const (
	// pageSize is how much of an output one page holds, in bytes.
	pageSize = 32 << 10
	// cutLeast is how much of an output an answer has to leave out, in bytes, for
	// the output to be kept.
	cutLeast = 1 << 10
	// pagesKept is how many bytes of outputs are kept for being read again.
	pagesKept = 32 << 20
)

// pages keeps the latest long outputs, redacted. The zero value is ready.
type pages struct {
	mu   sync.Mutex
	all  []kept // the oldest first
	size int
}

type kept struct{ call, session, text string }

// keep holds on to an output that the answer had to cut, and says in the answer
// where the rest is.
func (s *Server) keep(c *call) {
	total := len(c.result.Stdout.Data) + len(c.result.Stderr.Data)
	if !c.result.Ran || total < len(c.answer.Text)+cutLeast {
		return
	}
	text := s.o.Log.Redact(string(c.result.Stdout.Data))
	if len(c.result.Stderr.Data) > 0 {
		text += "\n--- stderr ---\n" + s.o.Log.Redact(string(c.result.Stderr.Data))
	}
	s.pages.add(kept{c.id, c.peer.Session, strings.ToValidUTF8(text, "\uFFFD")})
	c.answer.Text += fmt.Sprintf("\nthe whole output: resource sallyport://output/%s/1 (%d pages)", c.id, count(text))
}

func (p *pages) add(k kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, k)
	p.size += len(k.text)
	for p.size > pagesKept && len(p.all) > 1 {
		p.size -= len(p.all[0].text)
		p.all = p.all[1:]
	}
}

func (p *pages) find(call, session string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all {
		if k.call == call && k.session == session {
			return k.text, true
		}
	}
	return "", false
}

func count(text string) int { return (len(text) + pageSize - 1) / pageSize }

// output serves one page.
func (s *Server) output(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	call, page, _ := strings.Cut(strings.TrimPrefix(r.Params.URI, "sallyport://output/"), "/")
	text, ok := s.pages.find(call, peerOf(ctx).Session)
	if !ok {
		return nil, errors.New("that output is not kept (any more): run the command again, into a filter such as tail")
	}
	n, err := strconv.Atoi(page)
	if err != nil || n < 1 || n > count(text) {
		return nil, fmt.Errorf("page %q is not one of 1 to %d", page, count(text))
	}
	part := text[runeStart(text, (n-1)*pageSize):runeStart(text, n*pageSize)]
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: part}}, nil
}

// runeStart is the beginning of the character that byte i belongs to.
func runeStart(text string, i int) int {
	if i >= len(text) {
		return len(text)
	}
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

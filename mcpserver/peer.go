package mcpserver

import (
	"context"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sallyport/policy"
)

// Peer is who is at the other end of a connection, as the edge established it.
type Peer struct {
	Agent     string
	User      string
	Session   string // the agent's session; several connections may share one
	Conn      string // this connection, unique
	Workspace string // absolute, symlink-free
	MaxTier   policy.Tier
	Tools     []string // tools it may use; nil means all
	// Credential names what proved the identity ("token:4f…", "jwt:…"), where
	// something did; it is an identity of its own beside Agent and User.
	Credential string
	Sources    map[string]string // where each identity came from: "peercred", "token", "env", "client"
}

func (p *Peer) mayUse(tool string) bool {
	return p.Tools == nil || slices.Contains(p.Tools, tool)
}

// session is one connection as mcp-go sees it.
type session struct {
	peer  *Peer
	notes chan mcp.JSONRPCNotification

	mu     sync.Mutex
	ready  bool
	client mcp.Implementation
	caps   mcp.ClientCapabilities
}

var _ server.SessionWithClientInfo = (*session)(nil)

func newSession(p *Peer) *session {
	return &session{peer: p, notes: make(chan mcp.JSONRPCNotification, 64)}
}

func (s *session) SessionID() string { return s.peer.Conn }

func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }

func (s *session) Initialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

func (s *session) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *session) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *session) SetClientInfo(i mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = i
}

func (s *session) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps
}

func (s *session) SetClientCapabilities(c mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = c
}

type peerKey struct{}

func withPeer(ctx context.Context, p *Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// peerOf is the peer of a request. Without one nobody may do anything.
func peerOf(ctx context.Context) *Peer {
	if p, ok := ctx.Value(peerKey{}).(*Peer); ok {
		return p
	}
	return &Peer{Agent: "nobody", Tools: []string{}}
}

// clientOf is what the client calls itself, "name/version".
func clientOf(ctx context.Context) string {
	s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok || s.GetClientInfo().Name == "" {
		return ""
	}
	i := s.GetClientInfo()
	return i.Name + "/" + i.Version
}

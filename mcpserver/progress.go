package mcpserver

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// progressTime is how often a call that runs on says so. Hosts give up on a
// remote call that is silent for some minutes.
const progressTime = 10 * time.Second

// beat tells the client now and then that its call goes on, where it asked to be
// told. The function it returns ends that.
func (s *Server) beat(ctx context.Context, m *mcp.Meta) (end func()) {
	if m == nil || m.ProgressToken == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(s.every())
		defer t.Stop()
		for n := 1; ; n++ {
			select {
			case <-t.C:
				tellOf(ctx)(notification("notifications/progress", map[string]any{
					"progressToken": m.ProgressToken, "progress": n, "message": "still at it",
				}))
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (s *Server) every() time.Duration {
	if s.o.Progress > 0 {
		return s.o.Progress
	}
	return progressTime
}

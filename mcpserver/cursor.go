package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// The library pages its lists: sorted by name, filtered for the caller, with the
// last name of a page as the next one's cursor. It takes any name for a cursor;
// a client that makes one up, or keeps one over a change of its tools, would skip
// entries without knowing.

// errCursor answers a cursor that no page of this list ended with.
var errCursor = errors.New("this list has no such cursor: take nextCursor from the page before, or list again from the start")

// checkCursor refuses a list request whose cursor is none of the caller's list.
func (s *Server) checkCursor(ctx context.Context, method string, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" || !strings.HasSuffix(method, "/list") {
		return nil
	}
	var cursor string
	if json.Unmarshal(raw, &cursor) != nil {
		return errCursor
	}
	name, err := base64.StdEncoding.DecodeString(cursor)
	if err != nil || cursor == "" || !s.lists(ctx, mcp.MCPMethod(method), string(name)) {
		return errCursor
	}
	return nil
}

// lists reports whether a list shows the caller an entry of that name.
func (s *Server) lists(ctx context.Context, method mcp.MCPMethod, name string) bool {
	switch method {
	case mcp.MethodToolsList:
		t, ok := s.mcp.ListTools()[name]
		return ok && len(s.visible(ctx, []mcp.Tool{t.Tool})) > 0
	case mcp.MethodPromptsList:
		_, ok := s.mcp.ListPrompts()[name]
		return ok
	case mcp.MethodResourcesList:
		for _, r := range s.mcp.ListResources() {
			if r.Resource.Name == name {
				return true
			}
		}
	case mcp.MethodResourcesTemplatesList:
		return name == templateName
	}
	return false
}

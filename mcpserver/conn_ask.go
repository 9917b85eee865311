package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// ask is how the client of a connection is asked something. It waits for the
// answer until ctx ends; then the client is told that none is wanted any more.
type ask func(ctx context.Context, method string, params any) (json.RawMessage, error)

type askKey struct{}

func withAsk(ctx context.Context, a ask) context.Context { return context.WithValue(ctx, askKey{}, a) }

// askOf is how the client behind a request can be asked, nil where it cannot be.
func askOf(ctx context.Context) ask {
	a, _ := ctx.Value(askKey{}).(ask)
	return a
}

// ask sends the client one request of the server's own.
func (c *conn) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	ch := make(chan reply, 1)
	c.mu.Lock()
	c.asks++
	id := fmt.Sprintf("sallyport-%d", c.asks)
	key, err := json.Marshal(id)
	if c.asked == nil {
		c.asked = map[string]chan reply{}
	}
	c.asked[string(key)] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, string(key))
	}()
	if err != nil {
		return nil, err
	}
	c.send(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method, "params": params})
	select {
	case r := <-ch:
		if r.Error != nil {
			return nil, fmt.Errorf("%s: the client answered %d: %s", method, r.Error.Code, r.Error.Message)
		}
		return r.Result, nil
	case <-ctx.Done():
		c.send(notification("notifications/cancelled", map[string]any{"requestId": id, "reason": "no answer is needed any more"}))
		return nil, ctx.Err()
	}
}

// answered takes a message that answers something the client was asked.
func (c *conn) answered(id json.RawMessage, line []byte) bool {
	c.mu.Lock()
	ch := c.asked[string(id)]
	delete(c.asked, string(id))
	c.mu.Unlock()
	if ch == nil {
		return false
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return false
	}
	ch <- r
	return true
}

package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// Client is a small MCP client over a newline-delimited connection, for the
// command line's own calls through the gate. It is safe for concurrent use.
type Client struct {
	out     io.Writer
	nextID  atomic.Int64
	mu      sync.Mutex
	waiting map[int64]chan reply
	err     error
}

// Reply is the answer to a tools/call.
type Reply struct {
	Text       string
	IsError    bool
	Structured json.RawMessage // the Structured form, as MetaResult carried it
}

type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// NewClient reads replies from rw until it ends. name is what the client calls
// itself.
func NewClient(ctx context.Context, rw io.ReadWriter, name, version string) (*Client, error) {
	c := &Client{out: rw, waiting: map[int64]chan reply{}}
	go c.listen(rw)
	_, err := c.request(ctx, "initialize", map[string]any{
		"protocolVersion": mcp.LATEST_PROTOCOL_VERSION,
		"capabilities":    map[string]any{},
		"clientInfo":      map[string]string{"name": name, "version": version},
	})
	if err != nil {
		return nil, err
	}
	return c, c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// Call makes one tools/call that waits up to wait for a person. When ctx ends
// the call is cancelled at the server.
func (c *Client) Call(ctx context.Context, tool string, args any, wait time.Duration) (Reply, error) {
	raw, err := c.request(ctx, "tools/call", map[string]any{
		"name": tool, "arguments": args, "_meta": map[string]any{MetaStructured: true, MetaWait: wait.Milliseconds()},
	})
	if err != nil {
		return Reply{}, err
	}
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Reply{}, fmt.Errorf("read the answer of %s: %w", tool, err)
	}
	out := Reply{IsError: r.IsError, Structured: r.Meta[MetaResult]}
	for _, part := range r.Content {
		out.Text += part.Text
	}
	return out, nil
}

// Tools lists the names of the tools the caller may use.
func (c *Client) Tools(ctx context.Context) ([]string, error) {
	raw, err := c.request(ctx, "tools/list", map[string]any{})
	if err != nil {
		return nil, err
	}
	var r struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read the list of tools: %w", err)
	}
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}

func (c *Client) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := c.nextID.Add(1)
	ch := make(chan reply, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.waiting[id] = ch
	c.mu.Unlock()
	if err := c.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	select {
	case r, ok := <-ch:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %w", method, c.err)
		case r.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		return r.Result, nil
	case <-ctx.Done():
		_ = c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
		return nil, ctx.Err()
	}
}

func (c *Client) write(m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("send to sallyport: %w", err)
	}
	return nil
}

func (c *Client) listen(r io.Reader) {
	in := bufio.NewReader(r)
	var err error
	for {
		var line []byte
		if line, err = nextLine(in); err != nil {
			break
		}
		var m struct {
			ID int64 `json:"id"`
			reply
		}
		if json.Unmarshal(line, &m) != nil || m.ID == 0 {
			continue
		}
		c.mu.Lock()
		ch := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- m.reply
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("sallyport's daemon closed the connection: see its log, then try again")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, ch := range c.waiting {
		close(ch)
	}
}

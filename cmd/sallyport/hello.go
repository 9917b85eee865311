package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// hello is the first line a client sends on agent.sock; a welcome answers it,
// and from then on the connection carries MCP.
type hello struct {
	Sallyport int    `json:"sallyport"` // version of this handshake
	Version   string `json:"version"`   // of the client's binary
	Agent     string `json:"agent"`     // what the client says it is
	Workspace string `json:"workspace"` // absolute
	// Session names the client's session where it knows one, so that a
	// reconnecting shim keeps its pending approvals; empty for a new one.
	Session string `json:"session,omitempty"`
	PID     int    `json:"pid"`
	// Again means that this client was served before, by a daemon that has ended:
	// it is greeted before the policy is loaded, and its calls wait for that.
	Again bool `json:"again,omitempty"`
}

// helloVersion is the version of the handshake; a daemon refuses any other.
const helloVersion = 1

// welcome is the daemon's answer.
type welcome struct {
	OK      bool   `json:"ok"`
	Session string `json:"session,omitempty"`
	Version string `json:"version,omitempty"` // of the daemon's binary
	PID     int    `json:"pid,omitempty"`     // of the daemon, which need not be the socket's owner
	Error   string `json:"error,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// maxHello is the longest handshake line in bytes: two paths and some names.
const maxHello = 16 << 10

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// readHello reads one handshake line.
func readHello(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxHello {
			return errors.New("handshake line too long")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("read the handshake: %w", err)
	}
	return nil
}

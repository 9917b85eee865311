package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newMCP() *cobra.Command {
	var dir, agent, session string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Speak MCP on stdin and stdout (what an agent host starts)",
		Long: `Speak MCP over stdio. This is what Claude Code or another host starts; it connects to the
daemon, starting one if none runs, and relays. The workspace is --workspace, else
$CLAUDE_PROJECT_DIR, else the current directory.`,
		Example: "  claude mcp add sallyport -- sallyport mcp",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(cmd)
			if err != nil {
				return err
			}
			root, err := workspace(dir)
			if err != nil {
				return err
			}
			h := hello{Sallyport: helloVersion, Version: version, Agent: agent, Workspace: root, Session: session, PID: os.Getpid()}
			c, _, err := connect(cmd.Context(), p, h)
			if err != nil {
				return err
			}
			defer c.Close()
			return relay(cmd.Context(), c, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dir, "workspace", "", "folder the agent works in")
	cmd.Flags().StringVar(&agent, "agent", defaultAgent(), "name of the agent, for policy and the record")
	cmd.Flags().StringVar(&session, "session", defaultSession(), "name of the session, so that a restarted host keeps its approvals")
	return cmd
}

func defaultAgent() string {
	if os.Getenv("CLAUDE_CODE_SESSION_ID") != "" || os.Getenv("CLAUDE_PROJECT_DIR") != "" {
		return "claude-code"
	}
	return "agent"
}

func defaultSession() string {
	if s := os.Getenv("SALLYPORT_SESSION"); s != "" {
		return s
	}
	if s := os.Getenv("CLAUDE_CODE_SESSION_ID"); s != "" {
		return "cc-" + s
	}
	return ""
}

// cliSession is the session of a person's own commands: the same for one user
// and workspace, so that a repeated command finds its approval.
func cliSession(root string) string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Uid
	}
	sum := sha256.Sum256([]byte(name + "\x00" + root))
	return "cli-" + hex.EncodeToString(sum[:6])
}

// connect reaches the daemon, starting it if none runs, and shakes hands.
func connect(ctx context.Context, p place, h hello) (*relayConn, welcome, error) {
	c, err := reach(ctx, p)
	if err != nil {
		return nil, welcome{}, err
	}
	r := &relayConn{c, bufio.NewReaderSize(c, 64<<10)}
	if err := writeLine(c, h); err != nil {
		c.Close()
		return nil, welcome{}, fmt.Errorf("greet the daemon: %w", err)
	}
	if err := c.SetReadDeadline(time.Now().Add(15 * time.Second)); err != nil {
		c.Close()
		return nil, welcome{}, err
	}
	var w welcome
	if err := readHello(r.in, &w); err != nil {
		c.Close()
		return nil, welcome{}, fmt.Errorf("the daemon did not greet back: %w (see %s)", err, p.daemonLog())
	}
	if !w.OK {
		c.Close()
		return nil, welcome{}, errors.New(w.Error)
	}
	return r, w, c.SetReadDeadline(time.Time{})
}

// relayConn is the daemon's connection behind the handshake.
type relayConn struct {
	*net.UnixConn
	in *bufio.Reader
}

func (r *relayConn) Read(b []byte) (int, error) { return r.in.Read(b) }

// startTime is how long a started daemon may take to listen. Loading the policy
// and recovering the log take about 0.1 s; a loaded machine more.
const startTime = 20 * time.Second

// reach dials the daemon; if none listens it starts one and waits for it.
func reach(ctx context.Context, p place) (*net.UnixConn, error) {
	if err := p.make(); err != nil {
		return nil, err
	}
	c, err := dial(p.agentSock())
	if err == nil {
		return c, nil
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("reach the daemon: %w", err)
	}
	exited, err := startDaemon(p)
	if err != nil {
		return nil, err
	}
	deadline := time.After(startTime)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline:
			return nil, fmt.Errorf("the daemon did not start within %s: see %s", startTime, p.daemonLog())
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := dial(p.agentSock()); err == nil {
			return c, nil
		}
		select {
		case failed := <-exited:
			// Another shim's daemon may have won the election; else say why ours ended.
			if c, err := waitDial(ctx, p, 2*time.Second); err == nil {
				return c, nil
			}
			return nil, fmt.Errorf("the daemon ended at once (%s): %s", failed, lastLine(p.daemonLog()))
		default:
		}
	}
}

func waitDial(ctx context.Context, p place, patience time.Duration) (*net.UnixConn, error) {
	end := time.Now().Add(patience)
	for {
		c, err := dial(p.agentSock())
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startDaemon starts `sallyport serve` in a session of its own, so that it
// outlives this process. The channel tells when it has ended.
func startDaemon(p place) (<-chan string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find sallyport's own binary: %w", err)
	}
	log, err := os.OpenFile(p.daemonLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	proc, err := os.StartProcess(self, []string{self, "serve", "--idle-exit", "--state", p.state}, &os.ProcAttr{
		Dir: "/", Env: daemonEnv(os.Environ()), Files: []*os.File{null, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	exited := make(chan string, 1)
	go func() {
		if st, err := proc.Wait(); err == nil {
			exited <- st.String()
		}
	}()
	return exited, nil
}

// daemonEnv is the environment a started daemon keeps. A host hands its whole
// environment on, API keys included; the daemon needs none of that.
func daemonEnv(environ []string) []string {
	var out []string
	for _, kv := range environ {
		k, _, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains([]string{"HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GOROOT", "GOPATH", "GOMODCACHE", "GOCOVERDIR"}, k),
			strings.HasPrefix(k, "LC_"), strings.HasPrefix(k, "XDG_"), strings.HasPrefix(k, "SALLYPORT_"):
			out = append(out, kv)
		}
	}
	return out
}

func lastLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "no log at " + filepath.Base(file)
	}
	last := ""
	for line := range lines(string(b)) {
		if line != "" {
			last = line
		}
	}
	return last
}

// relay copies bytes both ways. When the host closes stdin the daemon is told
// and its last answers still go out; when the daemon hangs up the relay ends.
func relay(ctx context.Context, c *relayConn, in io.Reader, out io.Writer) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(c, in)
		_ = c.CloseWrite()
	}()
	_, err := io.Copy(out, c)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("relay to the host: %w", err)
	}
	return nil
}

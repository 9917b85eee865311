package cell

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxMessage bounds one message: an argument vector is at most 2 MiB (ARG_MAX
// at the default stack limit), JSON may double it.
const maxMessage = 8 << 20

// maxRights is the most descriptors one message carries.
const maxRights = 8

// Conn carries JSON messages with descriptors over a Unix stream socket. One
// goroutine may send while another receives; neither side may be shared.
type Conn struct {
	file *os.File
}

// inherited takes over the socket a parent left at SocketFD. It blocks in
// system calls and never wakes the poller, which keeps a cell at few threads.
func inherited() *Conn {
	unix.CloseOnExec(SocketFD)
	return &Conn{file: os.NewFile(SocketFD, "cell socket")}
}

// Pair makes a connected Conn and the descriptor of its other end, which the
// caller must hand over or close.
func Pair() (*Conn, int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, -1, fmt.Errorf("prepare the socket: %w", err)
	}
	return &Conn{file: os.NewFile(uintptr(fds[0]), "cell socket")}, fds[1], nil
}

// Close ends both directions; a blocked Receive returns.
func (c *Conn) Close() error { return c.file.Close() }

// Send writes v with the given descriptors, which stay the caller's.
func (c *Conn) Send(v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("message of %d bytes exceeds %d", len(body), maxMessage)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	frame = append(frame, body...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	for len(frame) > 0 {
		var n int
		var serr error
		err := raw.Write(func(fd uintptr) bool {
			n, serr = unix.SendmsgN(int(fd), frame, rights, nil, unix.MSG_NOSIGNAL)
			return serr != unix.EAGAIN
		})
		if err != nil {
			return err
		}
		if serr == unix.EINTR {
			continue
		}
		if serr != nil {
			return os.NewSyscallError("sendmsg", serr)
		}
		frame, rights = frame[n:], nil
	}
	return nil
}

// Receive reads the next message into v and returns the descriptors that came
// with it (close-on-exec, the caller's). io.EOF means the other side is gone.
func (c *Conn) Receive(v any) ([]int, error) {
	var head [4]byte
	fds, err := c.fill(head[:], nil)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxMessage {
		closeAll(fds)
		return nil, fmt.Errorf("message of %d bytes exceeds %d", n, maxMessage)
	}
	body := make([]byte, n)
	fds, err = c.fill(body, fds)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

func (c *Conn) fill(buf []byte, fds []int) ([]int, error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return fds, err
	}
	oob := make([]byte, unix.CmsgSpace(maxRights*4))
	for len(buf) > 0 {
		var n, oobn int
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
			return rerr != unix.EAGAIN
		})
		if err == nil && rerr == unix.EINTR {
			continue
		}
		if err == nil {
			err = rerr
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, rights(oob[:oobn])...)
		buf = buf[n:]
	}
	return fds, nil
}

func rights(oob []byte) []int {
	if len(oob) == 0 {
		return nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

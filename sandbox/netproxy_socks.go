package sandbox

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
)

// SOCKS5 as far as it is spoken here (RFC 1928): no authentication, CONNECT.
const (
	socksVersion  = 5
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	socksOK       = 0
	socksRefused  = 2 // not allowed by ruleset
	socksNoMethod = 0xff
	socksBadCmd   = 7
	socksBadAddr  = 8
)

func (p *netproxy) socks(c net.Conn, br *bufio.Reader) {
	reply := func(code byte) { _, _ = c.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}) }
	head := make([]byte, 2)
	if _, err := io.ReadFull(br, head); err != nil {
		return
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(br, methods); err != nil {
		return
	}
	if !slices.Contains(methods, 0) {
		_, _ = c.Write([]byte{socksVersion, socksNoMethod})
		return
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil {
		return
	}
	req := make([]byte, 4)
	if _, err := io.ReadFull(br, req); err != nil || req[0] != socksVersion {
		return
	}
	if req[1] != socksConnect {
		reply(socksBadCmd)
		return
	}
	to, err := socksTarget(br, req[3])
	if err != nil {
		reply(socksBadAddr)
		return
	}
	up, err := p.dial(to)
	if err != nil {
		reply(socksRefused)
		return
	}
	defer up.Close()
	reply(socksOK)
	p.relay(c, br, up, to)
}

func socksTarget(br *bufio.Reader, kind byte) (Endpoint, error) {
	size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]
	if kind == socksName {
		n, err := br.ReadByte()
		if err != nil {
			return Endpoint{}, err
		}
		size = int(n)
	}
	if size == 0 {
		return Endpoint{}, errors.New("no address")
	}
	raw := make([]byte, size+2)
	if _, err := io.ReadFull(br, raw); err != nil {
		return Endpoint{}, err
	}
	host := string(raw[:size])
	if kind != socksName {
		ip, _ := netip.AddrFromSlice(raw[:size])
		host = ip.String()
	}
	return endpoint(host, int(binary.BigEndian.Uint16(raw[size:])))
}

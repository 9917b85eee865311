package inspect

import (
	"net/url"
	"strconv"
	"strings"

	"sallyport/policy"
	"sallyport/sandbox"
)

// ports are the ones a scheme or a program means when it names none.
var ports = map[string]int{
	"http": 80, "https": 443, "ssh": 22, "git": 9418, "ftp": 21, "ftps": 990, "sftp": 22, "curl": 80, "wget": 80, "psql": 5432, "mysql": 3306,
	"mariadb": 3306, "redis-cli": 6379, "mongosh": 27017, "mongo": 27017, "telnet": 23, "scp": 22, "ssh-copy-id": 22, "git+ssh": 22, "ssh+git": 22, "rsync": 873,
	"ws": 80, "wss": 443, "mongodb": 27017, "postgres": 5432, "postgresql": 5432, "redis": 6379, "dig": 53, "nslookup": 53, "host": 53, "mosh": 22, "ldap": 389,
}

// reach records the endpoint that a program's operand names.
func (in *inspection) reach(program string, w word) {
	if w.opaque && !strings.Contains(w.s, "://") {
		in.net(policy.NetFact{})
		return
	}
	s := w.s
	if program == "git" && !strings.Contains(s, "://") {
		program = "ssh"
	}
	port := ports[program]
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		port = ports[strings.ToLower(scheme)]
		u, err := url.Parse(s)
		if err != nil || strings.ContainsAny(u.Host, "$`") {
			in.net(policy.NetFact{Port: port})
			return
		}
		s = u.Host
	}
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = s[i+1:]
	}
	s, _, _ = strings.Cut(s, "/")
	if host, p, ok := strings.Cut(s, ":"); ok && !strings.Contains(p, ":") {
		s = host
		if n, err := strconv.Atoi(p); err == nil {
			port = n
		}
	} else if strings.HasPrefix(s, "[") {
		if end := strings.IndexByte(s, ']'); end > 0 {
			s = s[1:end]
		}
	}
	if s == "" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") || strings.HasPrefix(s, "@") {
		return
	}
	in.net(policy.NetFact{Host: strings.TrimSuffix(strings.ToLower(s), "."), Port: port})
}

func (in *inspection) net(n policy.NetFact) {
	if in.nets == nil {
		in.nets = map[policy.NetFact]bool{}
	}
	if !in.nets[n] && len(in.nets) < 200 {
		in.nets[n] = true
		in.facts.Net = append(in.facts.Net, n)
	}
}

// devNet records bash's own sockets: /dev/tcp/host/port.
func (in *inspection) devNet(p string) {
	rest, ok := strings.CutPrefix(p, "/dev/tcp/")
	if !ok {
		rest, ok = strings.CutPrefix(p, "/dev/udp/")
	}
	if !ok {
		return
	}
	host, port, _ := strings.Cut(rest, "/")
	n, _ := strconv.Atoi(port)
	in.net(policy.NetFact{Host: host, Port: n})
}

// endpoints are what the plan itself asks to reach.
func (in *inspection) endpoints(es []sandbox.Endpoint) {
	for _, e := range es {
		in.net(policy.NetFact{Host: e.Host, Port: e.Port})
	}
}

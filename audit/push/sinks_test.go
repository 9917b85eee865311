package push

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/leodido/go-syslog/v4/rfc5424"
	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// requireStore reads the objects of a store and returns how many records are in
// them, in order and without a gap or a repetition.
func requireStore(t *testing.T, dir string) audit.Seq {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	slices.Sort(files)
	next := audit.Seq(0)
	for _, f := range files {
		require.True(t, strings.HasSuffix(f, ".jsonl"), f)
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		for line := range bytes.Lines(content) {
			r, err := audit.Decode(bytes.TrimSuffix(line, []byte("\n")))
			require.NoError(t, err)
			require.Equal(t, next, r.Seq, f)
			next++
		}
	}
	return next
}

func testBatch(t *testing.T, n int) Batch {
	t.Helper()
	l := openLog(t, filepath.Join(t.TempDir(), "audit"))
	defer l.Close()
	add(t, l, n-1) // and the start event
	entries, err := l.Entries(context.Background(), 0, n, 1<<30)
	require.NoError(t, err)
	require.Len(t, entries, n)
	b := Batch{Log: l.Origin(), From: 0, To: audit.Seq(n - 1), Entries: entries}
	for _, e := range entries {
		b.Lines = append(b.Lines, e.Raw)
	}
	return b
}

func TestFilesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := testBatch(t, 10)
	require.NoError(t, Files(dir).Send(context.Background(), b))
	require.NoError(t, Files(dir).Send(context.Background(), b), "again")
	require.Equal(t, audit.Seq(10), requireStore(t, dir))
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.Len(t, files, 1)
	st, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o440), st.Mode().Perm())
}

// bucket is an S3 store that checks signatures by signing anew what came.
type bucket struct {
	keys aws.Credentials
	mu   sync.Mutex
	objs map[string][]byte
	puts int
}

func (s *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	again, _ := http.NewRequest(r.Method, "http://"+r.Host+r.URL.EscapedPath(), bytes.NewReader(body))
	for _, h := range []string{"Content-Type", "If-None-Match", "X-Amz-Content-Sha256", "X-Amz-Checksum-Sha256", "X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date"} {
		if v := r.Header.Get(h); v != "" {
			again.Header.Set(h, v)
		}
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	serr := signer.SignHTTP(r.Context(), s.keys, again, hex.EncodeToString(sum[:]), "s3", "eu-1", at)
	if err != nil || serr != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		http.Error(w, "SignatureDoesNotMatch", http.StatusForbidden)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	_, there := s.objs[r.URL.Path]
	switch {
	case there && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.objs[r.URL.Path] = body
	}
}

func TestS3ObjectsAreSignedAndWrittenOnce(t *testing.T) {
	t.Parallel()
	store := &bucket{keys: aws.Credentials{AccessKeyID: "AK", SecretAccessKey: "SK"}, objs: map[string][]byte{}}
	srv := httptest.NewTLSServer(store)
	defer srv.Close()
	endpoint, err := url.Parse(srv.URL)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	make := func(secret string) *S3 {
		return NewS3(S3{Endpoint: endpoint, Region: "eu-1", Bucket: "b", Prefix: "host 1/ö", TLS: &tls.Config{RootCAs: pool},
			AccessKey: "AK", SecretKey: secret, Lock: time.Hour})
	}
	b := testBatch(t, 10)
	require.NoError(t, make("SK").Send(context.Background(), b))
	require.NoError(t, make("SK").Send(context.Background(), b), "again")
	require.Len(t, store.objs, 1)
	require.Equal(t, 2, store.puts)
	for name, content := range store.objs {
		require.True(t, strings.HasPrefix(name, "/b/host 1/ö/"), name)
		require.Equal(t, 10, bytes.Count(content, []byte("\n")))
	}
	require.ErrorContains(t, make("wrong").Send(context.Background(), b), "SignatureDoesNotMatch")
}

// requireMessages parses syslog messages with another implementation and holds
// them against the batch.
func requireMessages(t *testing.T, b Batch, got [][]byte) {
	t.Helper()
	require.Len(t, got, len(b.Entries))
	for i, m := range got {
		parsed, err := rfc5424.NewParser().Parse(m)
		require.NoError(t, err, "%s", m)
		msg := parsed.(*rfc5424.SyslogMessage)
		require.Equal(t, "sallyport", *msg.Appname)
		require.Equal(t, uint8(facilityAudit), *msg.Facility)
		require.Equal(t, strconv.Itoa(i), (*msg.StructuredData)[enterprise]["seq"])
		require.Equal(t, b.Entries[i].Record.Time.Truncate(time.Microsecond), *msg.Timestamp)
		if i > 0 {
			require.Equal(t, "call", *msg.MsgID)
			require.Equal(t, `a"]\b`, unescape((*msg.StructuredData)[enterprise]["agent"]))
		}
		r, err := audit.Decode([]byte(*msg.Message))
		require.NoError(t, err)
		require.Equal(t, audit.Seq(i), r.Seq)
	}
}

func unescape(s string) string {
	return strings.NewReplacer(`\"`, `"`, `\]`, `]`, `\\`, `\`).Replace(s)
}

// octets reads messages that are counted.
func octets(c io.Reader) (out [][]byte, err error) {
	in := bufio.NewReader(c)
	for {
		n, err := in.ReadString(' ')
		if err != nil {
			return out, err
		}
		size, err := strconv.Atoi(strings.TrimSpace(n))
		if err != nil {
			return out, err
		}
		m := make([]byte, size)
		if _, err := io.ReadFull(in, m); err != nil {
			return out, err
		}
		out = append(out, m)
	}
}

func TestSyslog(t *testing.T) {
	t.Parallel()
	b := testBatch(t, 10)
	cert, pool := certificate(t)
	for _, c := range []struct {
		name   string
		listen func(t *testing.T) (net.Listener, net.PacketConn)
		sink   func(addr string) Syslog
	}{
		{"udp", datagrams("udp", ""), func(a string) Syslog { return Syslog{Network: "udp", Address: a} }},
		{"unix datagram", datagrams("unixgram", "log"), func(a string) Syslog { return Syslog{Network: "unix", Address: a} }},
		{"unix stream", streams("unix", nil), func(a string) Syslog { return Syslog{Network: "unix", Address: a} }},
		{"tcp", streams("tcp", nil), func(a string) Syslog { return Syslog{Network: "tcp", Address: a} }},
		{"tls", streams("tcp", &tls.Config{Certificates: []tls.Certificate{cert}}), func(a string) Syslog {
			return Syslog{Network: "tls", Address: a, TLS: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, p := c.listen(t)
			if p != nil {
				defer p.Close()
				require.NoError(t, c.sink(p.LocalAddr().String()).Send(context.Background(), b))
				var got [][]byte
				for range b.Entries {
					m := make([]byte, 64<<10)
					require.NoError(t, p.SetReadDeadline(time.Now().Add(10*time.Second)))
					n, _, err := p.ReadFrom(m)
					require.NoError(t, err)
					got = append(got, m[:n])
				}
				requireMessages(t, b, got)
				return
			}
			defer l.Close()
			got := make(chan [][]byte, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				all, _ := octets(c)
				got <- all
			}()
			require.NoError(t, c.sink(l.Addr().String()).Send(context.Background(), b))
			requireMessages(t, b, <-got)
		})
	}
}

// A receiver that dies with messages unread has not got them.
func TestSyslogReceiverThatDiesIsNotBelieved(t *testing.T) {
	t.Parallel()
	l, _ := streams("tcp", nil)(t)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 10))
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}()
	require.Error(t, Syslog{Network: "tcp", Address: l.Addr().String()}.Send(context.Background(), testBatch(t, 500)))
}

func TestSyslogMessageThatIsTooLargeGoesWithoutItsText(t *testing.T) {
	t.Parallel()
	_, p := datagrams("udp", "")(t)
	defer p.Close()
	b := testBatch(t, 2)
	b.Lines[1] = bytes.Repeat([]byte("x"), 100<<10)
	require.NoError(t, Syslog{Network: "udp", Address: p.LocalAddr().String()}.Send(context.Background(), b))
	m := make([]byte, 64<<10)
	_, _, err := p.ReadFrom(m)
	require.NoError(t, err)
	n, _, err := p.ReadFrom(m)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(m[:n], []byte(`{"seq":1,"cut":true}`)), "%s", m[:n])
}

func datagrams(network, name string) func(t *testing.T) (net.Listener, net.PacketConn) {
	return func(t *testing.T) (net.Listener, net.PacketConn) {
		addr := "127.0.0.1:0"
		if name != "" {
			addr = filepath.Join(t.TempDir(), name)
		}
		p, err := net.ListenPacket(network, addr)
		require.NoError(t, err)
		return nil, p
	}
}

func streams(network string, conf *tls.Config) func(t *testing.T) (net.Listener, net.PacketConn) {
	return func(t *testing.T) (net.Listener, net.PacketConn) {
		addr := "127.0.0.1:0"
		if network == "unix" {
			addr = filepath.Join(t.TempDir(), "log")
		}
		l, err := net.Listen(network, addr)
		require.NoError(t, err)
		if conf != nil {
			l = tls.NewListener(l, conf)
		}
		return l, nil
	}
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestStartRefusesNamesThatAreNoFileNames(t *testing.T) {
	t.Parallel()
	l := openLog(t, filepath.Join(t.TempDir(), "audit"))
	defer l.Close()
	for _, names := range [][]string{{""}, {"../x"}, {"A"}, {"a", "a"}} {
		var targets []Target
		for _, n := range names {
			targets = append(targets, Target{Name: n, Sink: Files(t.TempDir()), Records: 1, Bytes: 1})
		}
		_, err := Start(Options{Log: l, Dir: t.TempDir(), Targets: targets, Logger: quietLog()})
		require.ErrorContains(t, err, "name of its own", fmt.Sprint(names))
	}
}

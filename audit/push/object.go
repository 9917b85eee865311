package push

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// object is a batch as a store keeps it: JSON lines, under a name that tells
// which records they are and what is in it. The same batch has the same name, so
// one that is there already needs no writing.
func (b Batch) object() (name string, content []byte) {
	content = append(bytes.Join(b.Lines, []byte("\n")), '\n')
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%s/%020d-%020d-%s.jsonl", fileName(b.Log), b.From, b.To, hex.EncodeToString(sum[:8])), content
}

// fileName is a log's origin as one component of a path.
func fileName(origin string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, origin)
}

// Files writes each batch to a file of its own beneath a folder, which is never
// written again.
type Files string

// Send implements Sink.
func (dir Files) Send(_ context.Context, b Batch) error {
	name, content := b.object()
	file := filepath.Join(string(dir), filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = writeOnce(file, content)
	}
	if err != nil {
		return fmt.Errorf("write the records to %s: %w", dir, err)
	}
	return nil
}

// writeOnce makes a file that did not exist, whole and durable. One that is there
// has the same content by its name.
func writeOnce(file string, content []byte) error {
	if _, err := os.Lstat(file); err == nil {
		if err := os.Remove(besideOf(file)); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try that was killed
			return err
		}
		return nil
	}
	tmp, err := writeBeside(file, content, 0o440)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(file))
}

// S3 writes each batch as an object of an S3-compatible store, by a PUT that
// fails where the object exists.
type S3 struct {
	Endpoint *url.URL // scheme and host
	Region   string
	Bucket   string
	Prefix   string
	// AccessKey, SecretKey and, for keys that expire, SessionToken sign.
	AccessKey, SecretKey, SessionToken string
	// Lock keeps each object from being deleted so long (object lock, compliance
	// mode); 0 sets none.
	Lock time.Duration
	TLS  *tls.Config
	Now  func() time.Time // time.Now

	client http.Client
}

// NewS3 completes an S3.
func NewS3(s S3) *S3 {
	s.client = plainClient(s.TLS)
	if s.Now == nil {
		s.Now = time.Now
	}
	return &s
}

// sendTime bounds one try over the network.
const sendTime = 30 * time.Second

// plainClient follows no redirects: a signature is for one address.
func plainClient(t *tls.Config) http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = t
	return http.Client{
		Transport: transport, Timeout: sendTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Send implements Sink.
func (s *S3) Send(ctx context.Context, b Batch) error {
	name, content := b.object()
	if err := s.put(ctx, path.Join(s.Prefix, name), content); err != nil {
		return fmt.Errorf("put the records into bucket %s: %w", s.Bucket, err)
	}
	return nil
}

func (s *S3) put(ctx context.Context, key string, content []byte) error {
	u := *s.Endpoint
	u.Path = "/" + s.Bucket + "/" + key
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), bytes.NewReader(content))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("If-None-Match", "*")
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	r.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
	now := s.Now().UTC()
	if s.Lock > 0 {
		r.Header.Set("X-Amz-Object-Lock-Mode", "COMPLIANCE")
		r.Header.Set("X-Amz-Object-Lock-Retain-Until-Date", now.Add(s.Lock).Format(time.RFC3339))
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(ctx, aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey, SessionToken: s.SessionToken}, r, hex.EncodeToString(sum[:]), "s3", s.Region, now); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPreconditionFailed: // it is there; its name tells what is in it
	case resp.StatusCode/100 != 2:
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("the store answered %s: %s", resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

package push

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/audit"
)

// childEnv makes the test binary a daemon that appends and pushes until it is
// killed: "DIR URL".
const childEnv = "SALLYPORT_PUSH_CHILD"

func TestMain(m *testing.M) {
	if at := os.Getenv(childEnv); at != "" {
		os.Exit(pushUntilKilled(at))
	}
	os.Exit(m.Run())
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openLog(t *testing.T, dir string) *audit.Log {
	t.Helper()
	l, err := audit.Open(dir, audit.Options{Logger: quietLog(), MinFree: -1, Ballast: -1})
	require.NoError(t, err)
	return l
}

func add(t *testing.T, l *audit.Log, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Append(context.Background(), audit.Record{Kind: audit.KindCall, Call: fmt.Sprint("c", i), Tool: "read_file", Tier: "L0", Status: audit.StatusOK, Agent: `a"]\b`})
		require.NoError(t, err)
	}
}

func signed(h http.Header, at time.Time, body []byte) {
	h.Set("Signed", fmt.Sprint(len(body), at.IsZero()))
}

func hookTarget(url string) Target {
	return Target{Name: "hook", URL: url, Format: "record", Sink: NewWebhook(Webhook{URL: url, Sign: signed}, nil), Records: 20, Bytes: 1 << 20}
}

// receiver is a webhook that is down while down is set, and keeps the order in
// which records came.
type receiver struct {
	t    *testing.T
	down atomic.Bool
	mu   sync.Mutex
	seqs []audit.Seq
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil { // the sender was killed
		return
	}
	if r.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if got, want := req.Header.Get("Signed"), fmt.Sprint(len(body), false); got != want {
		r.t.Errorf("signature %q, want %q", got, want)
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		r.t.Errorf("body: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, raw := range m.Records {
		rec, err := audit.Decode(raw)
		if err != nil {
			r.t.Errorf("record: %v", err)
		}
		r.seqs = append(r.seqs, rec.Seq)
	}
}

func (r *receiver) got() []audit.Seq {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]audit.Seq(nil), r.seqs...)
}

// requireAll checks that records 0 to end-1 came, in order but for repetitions.
func requireAll(t *testing.T, got []audit.Seq, end audit.Seq) (repeated int) {
	t.Helper()
	next := audit.Seq(0)
	for _, s := range got {
		require.LessOrEqual(t, s, next, "a record came before one that is missing")
		if s == next {
			next++
		} else {
			repeated++
		}
	}
	require.Equal(t, end, next)
	return repeated
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 5*time.Millisecond, what)
}

func TestOutageIsSurvived(t *testing.T) {
	t.Parallel()
	rec := &receiver{t: t}
	srv := httptest.NewServer(rec)
	defer srv.Close()
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "audit"))
	o := Options{Log: l, Dir: filepath.Join(dir, "push"), Targets: []Target{hookTarget(srv.URL)}, Logger: quietLog(), First: time.Millisecond, Most: 10 * time.Millisecond}
	p, err := Start(o)
	require.NoError(t, err)
	add(t, l, 50)
	_, end := l.Ends()
	waitFor(t, "the first records", func() bool { return len(rec.got()) == int(end) })

	rec.down.Store(true)
	add(t, l, 50) // no call waits
	_, end = l.Ends()
	waitFor(t, "the failure to show", func() bool { return p.Status()[0].Error != "" })
	s := p.Status()[0]
	require.Equal(t, int64(50), s.Behind)
	require.Contains(t, s.Error, "503")
	require.False(t, s.Failing.IsZero())

	// The daemon restarts during the outage.
	p.Close()
	require.NoError(t, l.Close())
	l = openLog(t, filepath.Join(dir, "audit"))
	defer l.Close()
	r, err := ReadStatus(&l.Reader, o.Dir, o.Targets)
	require.NoError(t, err)
	require.Equal(t, int64(51), r[0].Behind, "and the start event")
	o.Log = l
	p, err = Start(o)
	require.NoError(t, err)
	rec.down.Store(false)
	_, end = l.Ends()
	waitFor(t, "the rest", func() bool { return p.Status()[0].Behind == 0 })
	s = p.Status()[0]
	require.Empty(t, s.Error)
	require.True(t, s.Failing.IsZero())
	requireAll(t, rec.got(), end)
	add(t, l, 3)
	p.Close() // sends what is left
	_, end = l.Ends()
	requireAll(t, rec.got(), end)
}

func TestBatchThatIsTooLargeIsHalved(t *testing.T) {
	t.Parallel()
	rec := &receiver{t: t}
	refused := atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 2000 {
			refused.Add(1)
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		rec.ServeHTTP(w, r)
	}))
	defer srv.Close()
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "audit"))
	defer l.Close()
	add(t, l, 40)
	p, err := Start(Options{Log: l, Dir: filepath.Join(dir, "push"), Targets: []Target{hookTarget(srv.URL)}, Logger: quietLog()})
	require.NoError(t, err)
	defer p.Close()
	_, end := l.Ends()
	waitFor(t, "all records", func() bool { return len(rec.got()) == int(end) })
	requireAll(t, rec.got(), end)
	require.Positive(t, refused.Load())
}

// pushUntilKilled is the child.
func pushUntilKilled(at string) int {
	var dir, url string
	if _, err := fmt.Sscan(at, &dir, &url); err != nil {
		return 2
	}
	l, err := audit.Open(filepath.Join(dir, "audit"), audit.Options{Logger: quietLog(), MinFree: -1, Ballast: -1, SegmentBytes: 100 << 10})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = Start(Options{Log: l, Dir: filepath.Join(dir, "push"), Logger: quietLog(), First: time.Millisecond, Most: 5 * time.Millisecond,
		Targets: []Target{hookTarget(url), {Name: "files", Format: "record", Sink: Files(filepath.Join(dir, "store")), Records: 7, Bytes: 1 << 20}}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for n := 0; ; n++ {
		if _, err := l.Append(context.Background(), audit.Record{Kind: audit.KindCall, Call: fmt.Sprint("c", n)}); err != nil {
			return 1
		}
	}
}

func TestKilledDaemonLosesNoRecordOnItsWay(t *testing.T) {
	t.Parallel()
	rec := &receiver{t: t}
	srv := httptest.NewServer(rec)
	defer srv.Close()
	dir := t.TempDir()
	for n := range 8 {
		rec.down.Store(n%3 == 1)
		before := len(rec.got())
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+srv.URL)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		if n%3 != 1 {
			waitFor(t, "records", func() bool { return len(rec.got()) > before+30 })
		} else {
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	rec.down.Store(false)
	l := openLog(t, filepath.Join(dir, "audit"))
	defer l.Close()
	p, err := Start(Options{Log: l, Dir: filepath.Join(dir, "push"), Logger: quietLog(),
		Targets: []Target{hookTarget(srv.URL), {Name: "files", Format: "record", Sink: Files(filepath.Join(dir, "store")), Records: 7, Bytes: 1 << 20}}})
	require.NoError(t, err)
	waitFor(t, "everything", func() bool { return p.Status()[0].Behind == 0 && p.Status()[1].Behind == 0 })
	p.Close()
	_, end := l.Ends()
	repeated := requireAll(t, rec.got(), end)
	require.Equal(t, end, requireStore(t, filepath.Join(dir, "store")))
	t.Logf("%d records after 8 kills, none lost, %d came twice", end, repeated)
}

// Package webhook tells other systems what waits at the approvals desk and takes
// their answers. Messages are signed, retried and in order for each target;
// answers are signed, fresh, used once and given by a person the configuration
// knows. A target can be asked only after a while: that is how a request nobody
// answers climbs to the next channel.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// The defaults of Options.
const (
	DefaultPrefix  = "/webhook"
	DefaultWindow  = 5 * time.Minute
	DefaultTries   = 6
	DefaultBackoff = time.Second
	DefaultTimeout = 10 * time.Second
)

// Format is the form of the messages a target understands.
type Format string

// The formats. Plain is our own JSON and the only one with every detail.
const (
	Plain  Format = "plain"
	Slack  Format = "slack"  // incoming webhook; answers by Slack's interactivity request
	Feishu Format = "feishu" // custom bot of Feishu or Lark; answers through the console
)

// Target is one place that is told.
type Target struct {
	Name   string // letters, digits, "-", "_"; part of the callback's path
	URL    string
	Format Format // empty means Plain
	// Secret signs messages and answers: 16 bytes at least. For Slack it is the
	// app's signing secret, for Feishu the bot's.
	Secret []byte
	// After is how long a request waits before this target is told. Zero is at
	// once; anything else is an escalation.
	After time.Duration
	// MinTier leaves out requests below it.
	MinTier policy.Tier
	// People maps who the other system says answered (a name, a Slack user id) to
	// the person it is. Whoever is not in it cannot decide here.
	People map[string]approval.Person
	// MaxTier is the highest tier that can be decided here; zero means L2. The
	// secret's holder can speak for everybody in People, so L3 is a choice.
	MaxTier policy.Tier
}

// Options configure a Hook. Desk and Targets are needed.
type Options struct {
	Desk    *approval.Desk
	Targets []Target

	Prefix  string // path of the callbacks on this server
	Public  string // base URL other systems reach this server by; empty: no callbacks
	Console string // base URL of the console for links; empty: none

	Now     func() time.Time // nil: time.Now
	Client  *http.Client     // nil: one with DefaultTimeout; redirects are never followed
	Window  time.Duration    // how far a timestamp may be off, either way
	Tries   uint             // attempts for one message
	Backoff time.Duration    // wait after the first failed attempt; then twice as long each time
	Log     *slog.Logger     // nil: slog.Default

	// Dropped, when set, is told of a message that was not queued because its
	// target holds up too many.
	Dropped func(target, request string)

	// Redact is applied to every text before it leaves the machine; nil leaves
	// texts as they are.
	Redact func(string) string
}

// Hook tells targets and takes answers. It is the http.Handler of the callbacks,
// to be mounted at Prefix.
type Hook struct {
	o       Options
	targets map[string]*outbox
	order   []*outbox
	mux     *http.ServeMux

	mu       sync.Mutex
	used     map[string]time.Time // signatures of answers seen, until they are too old anyway
	refusals *rate.Limiter
}

// New checks the configuration and makes a hook.
func New(o Options) (*Hook, error) {
	if o.Desk == nil {
		return nil, errors.New("make the webhook: it needs a desk")
	}
	h := &Hook{o: o.withDefaults(), targets: map[string]*outbox{}, used: map[string]time.Time{}, refusals: rate.NewLimiter(1, 20)}
	for _, t := range o.Targets {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("make the webhook: target %q: %w", t.Name, err)
		}
		if h.targets[t.Name] != nil {
			return nil, fmt.Errorf("make the webhook: two targets are named %q", t.Name)
		}
		b := newOutbox(t)
		h.targets[t.Name] = b
		h.order = append(h.order, b)
	}
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("POST "+h.o.Prefix+"/{target}", h.answer)
	return h, nil
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	client := http.Client{Timeout: DefaultTimeout}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.Backoff <= 0 {
		o.Backoff = DefaultBackoff
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	o.Public, o.Console = strings.TrimSuffix(o.Public, "/"), strings.TrimSuffix(o.Console, "/")
	return o
}

const minSecret = 16

func (t *Target) check() error {
	u, err := url.Parse(t.URL)
	switch {
	case t.Name == "" || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
		return errors.New("give it a name of letters, digits, - and _")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("its URL is not an http or https address")
	case len(t.Secret) < minSecret:
		return fmt.Errorf("its secret has %d bytes; give it %d at least", len(t.Secret), minSecret)
	}
	switch t.Format {
	case "", Plain, Slack, Feishu:
		return nil
	}
	return fmt.Errorf("its format %q is not %s, %s or %s", t.Format, Plain, Slack, Feishu)
}

// maxTier is the highest tier the target may decide.
func (t Target) maxTier() policy.Tier {
	if t.MaxTier == policy.L0 {
		return policy.L2
	}
	return t.MaxTier
}

// ServeHTTP takes an answer.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Run tells the targets until ctx ends, and returns when every message under way
// has been given up. Requests that waited before are told again, under the same
// delivery name.
func (h *Hook) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, b := range h.order {
		wg.Go(func() { h.deliver(ctx, b) })
	}
	for ctx.Err() == nil {
		events, cancel := h.o.Desk.Subscribe()
		err := h.follow(ctx, events)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// follow queues what the desk's events and the passing of time ask for, until ctx
// or the subscription ends.
func (h *Hook) follow(ctx context.Context, events <-chan approval.Event) error {
	waiting := map[string]approval.Request{}
	all, err := h.o.Desk.List(approval.Filter{States: []approval.State{approval.StatePending}})
	if err != nil {
		return fmt.Errorf("tell webhooks: %w", err)
	}
	for _, r := range all {
		waiting[r.ID] = r
	}
	for {
		next := h.due(waiting)
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case e, ok := <-events:
			timer.Stop()
			if !ok {
				return nil
			}
			h.note(waiting, e)
		}
	}
}

// note takes one event into the picture of what waits.
func (h *Hook) note(waiting map[string]approval.Request, e approval.Event) {
	if e.Request == nil || e.Kind == approval.Refused {
		return
	}
	if e.Request.State == approval.StatePending {
		waiting[e.Request.ID] = *e.Request
		return
	}
	if _, ok := waiting[e.Request.ID]; !ok {
		return
	}
	delete(waiting, e.Request.ID)
	for _, b := range h.order {
		if b.told[e.Request.ID] {
			delete(b.told, e.Request.ID)
			h.queue(b, item{kind: kindDecided, request: *e.Request})
		}
	}
}

// due queues what a target is to be told now, and is the time until it is to be
// told more.
func (h *Hook) due(waiting map[string]approval.Request) time.Duration {
	now, next := h.o.Now(), time.Hour
	byAge := slices.SortedFunc(maps.Values(waiting), func(a, b approval.Request) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	for _, r := range byAge {
		id := r.ID
		if !now.Before(r.Expires) {
			continue // the desk's sweep says so soon
		}
		for _, b := range h.order {
			if b.told[id] || r.Tier < b.target.MinTier {
				continue
			}
			if left := r.Created.Add(b.target.After).Sub(now); left > 0 {
				next = min(next, left)
				continue
			}
			b.told[id] = true
			kind := kindWaiting
			if b.target.After > 0 {
				kind = kindStill
			}
			h.queue(b, item{kind: kind, request: r})
		}
	}
	return next
}

package terminal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// lookEvery is how often the view looks by itself, for ages and for changes that
// no event told of.
const lookEvery = 5 * time.Second

// settle is how long the keys that decide are deaf after another request came
// into view without the person's doing: a key on its way was meant for the one
// before.
const settle = 700 * time.Millisecond

// The messages.
type (
	listed struct {
		all  []approval.Request
		tips []approval.Suggestion
		err  error
	}
	loaded struct {
		request approval.Request
		err     error
	}
	decided struct {
		request approval.Request
		err     error
	}
	changed struct{}
	tick    struct{}
)

// mode is what keys mean at present.
type mode int

const (
	browsing mode = iota
	denying       // typing a reason
	sure          // asked whether an L3 call is really meant
	advised       // reading what would spare answers
)

// model is the state of the view. The selection is a request, not a line: what
// moves in the list never changes what a key is about.
type model struct {
	ctx context.Context //nolint:containedctx // bubbletea's commands take none
	o   Options

	all      []approval.Request
	tips     []approval.Suggestion
	selected string            // id
	shown    *approval.Request // the selected one, whole
	loadedAt time.Time         // when shown came into view unasked; zero when the person chose it

	mode   mode
	reason string // typed so far
	body   viewport.Model
	notice string
	bad    bool // notice is an error
	width  int
	height int
}

func newModel(ctx context.Context, o Options) model {
	m := model{ctx: ctx, o: o, body: viewport.New(), width: 80, height: 24}
	m.body.SoftWrap = true
	return m
}

func (m model) Init() tea.Cmd { return tea.Batch(m.list, m.wait, again()) }

func again() tea.Cmd { return tea.Tick(lookEvery, func(time.Time) tea.Msg { return tick{} }) }

func (m model) list() tea.Msg {
	l := listed{}
	if l.all, l.err = m.o.Source.Requests(m.ctx); l.err == nil && m.o.Suggest != nil {
		l.tips, l.err = m.o.Suggest(m.ctx)
	}
	return l
}

// wait blocks until something changed.
func (m model) wait() tea.Msg {
	if m.o.Changed == nil {
		return nil
	}
	select {
	case <-m.ctx.Done():
		return nil
	case _, ok := <-m.o.Changed:
		if !ok {
			return nil
		}
		return changed{}
	}
}

func (m model) load(id string) tea.Cmd {
	return func() tea.Msg {
		r, err := m.o.Source.Request(m.ctx, id)
		return loaded{r, err}
	}
}

// Update takes one message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.layout()
		m.fill()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.mode == denying {
			m.write(msg.Content)
		}
	case changed:
		return m, tea.Batch(m.list, m.wait)
	case tick:
		return m, tea.Batch(m.list, again())
	case listed:
		return m.take(msg)
	case loaded:
		if msg.err != nil {
			m.say(true, "%v", msg.err)
		} else if msg.request.ID == m.selected && m.mode == advised {
			m.shown = &msg.request
		} else if msg.request.ID == m.selected {
			same := m.shown != nil && m.shown.ID == msg.request.ID
			m.shown = &msg.request
			m.fill()
			if !same {
				m.body.GotoTop()
			}
		}
	case decided:
		if msg.err != nil {
			m.say(true, "%v", msg.err)
		} else {
			m.say(false, "%s is %s", msg.request.ID, msg.request.State)
		}
		return m, tea.Batch(m.list, m.load(m.selected))
	}
	return m, nil
}

// take puts a new list in place of the old one. The selected request stays, also
// when it does not wait any more; only an empty view takes up the first.
func (m model) take(msg listed) (tea.Model, tea.Cmd) {
	if msg.err != nil {
		m.say(true, "%v", msg.err)
		return m, nil
	}
	m.all, m.tips = msg.all, msg.tips
	slices.Reverse(m.all) // who waited longest is looked at first
	if m.selected == "" && len(m.all) > 0 {
		m.selected, m.loadedAt = m.all[0].ID, m.o.Now()
	}
	if m.selected == "" {
		return m, nil
	}
	return m, m.load(m.selected)
}

func (m *model) say(bad bool, format string, args ...any) {
	m.notice, m.bad = approval.Visible(fmt.Sprintf(format, args...)), bad
}

// layout gives the parts their sizes.
func (m *model) layout() {
	m.body.SetWidth(max(10, m.width-m.listWidth()))
	m.body.SetHeight(max(3, m.height-m.listHeight()-footer))
}

// fill writes the selected request into the right part.
func (m *model) fill() {
	if m.mode == advised {
		m.body.SetContent(m.advice())
		return
	}
	if m.shown == nil {
		return
	}
	var b bytes.Buffer
	o := approval.RenderOptions{Color: true, Width: m.body.Width() - 1, Now: m.o.Now()}
	if err := approval.Render(&b, *m.shown, o); err != nil {
		m.say(true, "%v", err)
	}
	m.body.SetContent(strings.TrimRight(b.String(), "\n"))
}

func (m model) key(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	if k.String() == "ctrl+c" {
		return m, tea.Quit
	}
	switch m.mode {
	case advised:
		return m.keyAdvised(k)
	case denying:
		return m.keyDenying(k)
	case sure:
		m.mode = browsing
		if k.String() == "y" {
			return m, m.approve(approval.Once)
		}
		m.say(false, "not approved")
		return m, nil
	}
	return m.keyBrowsing(k)
}

func (m model) keyBrowsing(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	m.notice = ""
	switch k.String() {
	case "q", "esc":
		return m, tea.Quit
	case "up", "k":
		return m.move(-1)
	case "down", "j":
		return m.move(1)
	case "r":
		return m, m.list
	case "g":
		if len(m.tips) > 0 {
			m.mode = advised
			m.fill()
			m.body.GotoTop()
		}
		return m, nil
	case "a", "s", "d":
		if why := m.deaf(); why != "" {
			m.say(true, "%s", why)
			return m, nil
		}
		return m.decide(k.String())
	}
	var cmd tea.Cmd
	m.body, cmd = m.body.Update(k)
	return m, cmd
}

// keyAdvised scrolls the suggestions; any key that does not scroll leads back.
func (m model) keyAdvised(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch k.String() {
	case "up", "down", "pgup", "pgdown", "k", "j":
		var cmd tea.Cmd
		m.body, cmd = m.body.Update(k)
		return m, cmd
	}
	m.mode = browsing
	m.fill()
	m.body.GotoTop()
	return m, nil
}

// advice are the suggestions in words.
func (m model) advice() string {
	var b strings.Builder
	for _, s := range m.tips {
		fmt.Fprintf(&b, "%s\n\n", title.Width(m.body.Width()-1).Render(approval.Visible(s.Text)))
		if s.Grant != nil {
			fmt.Fprintf(&b, "for a while:\n  %s\n\n", approval.Visible(approval.Quote(s.Command())))
		}
		fmt.Fprintf(&b, "for good, in the policy of its owner (%s):\n%s\n", s.Language, approval.VisibleText(s.Policy))
	}
	return strings.TrimRight(b.String(), "\n")
}

// deaf says why a deciding key does nothing now, "" when it does.
func (m model) deaf() string {
	switch {
	case m.shown == nil || m.shown.ID != m.selected:
		return "nothing is selected"
	case m.shown.State != approval.StatePending:
		return fmt.Sprintf("%s is %s; choose another with the arrow keys", m.shown.ID, m.shown.State)
	case !m.loadedAt.IsZero() && m.o.Now().Sub(m.loadedAt) < settle:
		return "this has only just come up; look at it first"
	}
	return ""
}

func (m model) decide(key string) (tea.Model, tea.Cmd) {
	switch {
	case key == "d":
		m.mode, m.reason = denying, ""
	case key == "s" && (m.shown.Tier >= policy.L3 || len(m.shown.Cut) > 0):
		m.say(true, "this can be approved once only")
	case key == "s":
		return m, m.approve(approval.Session)
	case m.shown.Tier >= policy.L3:
		m.mode = sure
	default:
		return m, m.approve(approval.Once)
	}
	return m, nil
}

// maxReason bounds a typed reason, in characters.
const maxReason = 2000

func (m model) keyDenying(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch k.String() {
	case "esc":
		m.mode = browsing
		m.say(false, "not denied")
	case "enter":
		m.mode = browsing
		id, advice, shown := m.selected, m.reason, ""
		if m.shown != nil && m.shown.ID == id {
			shown = m.shown.Shown
		}
		return m, func() tea.Msg {
			r, err := m.o.Decider.Deny(m.ctx, id, advice, shown)
			return decided{r, err}
		}
	case "backspace":
		if r := []rune(m.reason); len(r) > 0 {
			m.reason = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.reason = ""
	default:
		m.write(k.Key().Text)
	}
	return m, nil
}

// write adds typed or pasted text to the reason, as one line.
func (m *model) write(text string) {
	r := []rune(m.reason + strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' }), " "))
	m.reason = string(r[:min(len(r), maxReason)])
}

// approve answers yes to what is on the screen, and to nothing else.
func (m model) approve(scope approval.Reach) tea.Cmd {
	id, o := m.selected, approval.ApproveOptions{Scope: scope, Shown: m.shown.Shown}
	return func() tea.Msg {
		r, err := m.o.Decider.Approve(m.ctx, id, o)
		return decided{r, err}
	}
}

// move selects the next or previous waiting request.
func (m model) move(by int) (tea.Model, tea.Cmd) {
	if len(m.all) == 0 {
		return m, nil
	}
	i := slices.IndexFunc(m.all, func(r approval.Request) bool { return r.ID == m.selected })
	if i < 0 && by > 0 {
		i = -1
	}
	i = min(max(i+by, 0), len(m.all)-1)
	m.selected, m.loadedAt = m.all[i].ID, time.Time{}
	return m, m.load(m.selected)
}

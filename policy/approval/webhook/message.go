package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// message is what a target is told, before it takes a target's form. Its JSON is
// the plain format.
type message struct {
	Version  int    `json:"version"`
	Kind     string `json:"kind"`     // "waiting", "still_waiting", "decided"
	Delivery string `json:"delivery"` // the same for a message that is sent again
	Title    string `json:"title"`
	// Request lacks subject and show; Text is what a person is shown of it.
	Request approval.Request `json:"request"`
	Text    string           `json:"text"`
	Similar []similar        `json:"similar,omitempty"` // decided before, newest first; with still_waiting
	Console string           `json:"console,omitempty"` // page of the request
	Editor  string           `json:"editor,omitempty"`  // vscode:// link to the first file
	// Answer tells how to decide from outside; absent when the target may not.
	Answer *answerTo `json:"answer,omitempty"`
}

type answerTo struct {
	URL   string `json:"url"`
	Shown string `json:"shown"` // to be sent back
}

type similar struct {
	ID      string         `json:"id"`
	State   approval.State `json:"state"`
	Summary string         `json:"summary"`
	By      string         `json:"by"`
	Note    string         `json:"note,omitempty"`
}

// maxText bounds the text of a message, in bytes. A longer one cannot be decided
// from the message: a person would not see everything.
const maxText = 16 << 10

func (h *Hook) message(t Target, it item) (message, error) {
	r := it.request
	var text strings.Builder
	if err := approval.Render(&text, r, approval.RenderOptions{Now: h.o.Now()}); err != nil {
		return message{}, fmt.Errorf("write request %s: %w", r.ID, err)
	}
	m := message{
		Version: 1, Kind: it.kind, Delivery: r.ID + "." + t.Name + "." + it.kind,
		Text: h.o.Redact(text.String()), Request: h.outward(r),
	}
	if h.o.Console != "" {
		m.Console = h.o.Console + "/requests/" + r.ID
	}
	cut := len(m.Text) > maxText
	if cut {
		m.Text = strings.ToValidUTF8(m.Text[:maxText], "") + fmt.Sprintf("\n… cut here, %d bytes more; the console and `sallyport approvals show %s` show all\n", len(m.Text)-maxText, r.ID)
	}
	summary := approval.Visible(m.Request.Summary)
	switch it.kind {
	case kindDecided:
		m.Title = fmt.Sprintf("%s is %s: %s", r.ID, r.State, summary)
		return m, nil
	case kindStill:
		m.Title = fmt.Sprintf("%s %s waits for %s: %s", r.ID, r.Tier, approval.Ago(h.o.Now().Sub(r.Created)), summary)
		if err := h.similar(&m, r); err != nil {
			return message{}, err
		}
	default:
		m.Title = fmt.Sprintf("%s %s: %s", r.ID, r.Tier, summary)
	}
	m.Editor = editor(r)
	if h.o.Public != "" && !cut && len(r.Cut) == 0 && r.Tier <= t.maxTier() && len(t.People) > 0 && t.Format != Feishu {
		m.Answer = &answerTo{URL: h.o.Public + h.o.Prefix + "/" + t.Name, Shown: r.Shown}
	}
	return m, nil
}

// outward is a request as it may leave the machine: without the bulk, which Text
// has, and with its texts redacted.
func (h *Hook) outward(r approval.Request) approval.Request {
	r.Subject, r.Show = nil, nil
	r.Summary = h.o.Redact(r.Summary)
	rules := append([]policy.RuleHit{}, r.Rules...)
	for i := range rules {
		rules[i].Cmd = h.o.Redact(rules[i].Cmd)
	}
	r.Rules = rules
	return r
}

func (h *Hook) similar(m *message, r approval.Request) error {
	all, err := h.o.Desk.Similar(r, 3)
	if err != nil {
		return err
	}
	for _, s := range all {
		v := s.Votes[len(s.Votes)-1]
		m.Similar = append(m.Similar, similar{
			ID: s.ID, State: s.State, Summary: h.o.Redact(s.Summary), By: v.Person.Name, Note: h.o.Redact(v.Note),
		})
	}
	return nil
}

// editor is a link that opens the first file of a request.
func editor(r approval.Request) string {
	if r.Show == nil || len(r.Show.Files) == 0 {
		return ""
	}
	p := r.Show.Files[0].Path
	if !strings.HasPrefix(p, "/") {
		p = r.Workspace + "/" + p
	}
	return (&url.URL{Scheme: "vscode", Host: "file", Path: p}).String()
}

// encode gives a message a target's form.
func encode(t Target, m message, at time.Time) ([]byte, error) {
	switch t.Format {
	case Slack:
		return json.Marshal(slackMessage(m))
	case Feishu:
		return json.Marshal(feishuMessage(t, m, at))
	}
	return json.Marshal(m)
}

// object is a JSON object of a foreign API.
type object = map[string]any

// slackOpen is the action of the button that is only a link.
const slackOpen = "open"

// maxSlack is Slack's bound for the text of one block, in characters, with room
// for the words that say it was cut.
const maxSlack = 2800

// slackMessage uses block kit. Texts are plain_text and rich_text elements, in
// which nothing is markup: a command cannot become a link or a mention.
func slackMessage(m message) object {
	blocks := []any{
		object{"type": "section", "text": object{"type": "plain_text", "text": clip(m.Title, 290), "emoji": false}},
	}
	text, whole := m.Text, true
	if len([]rune(text)) > maxSlack {
		text, whole = clip(text, maxSlack)+"\n… cut here; open the console to see all", false
	}
	if m.Kind != kindDecided {
		blocks = append(blocks, object{"type": "rich_text", "elements": []any{
			object{"type": "rich_text_preformatted", "elements": []any{object{"type": "text", "text": text}}},
		}})
	}
	if before := m.before(); before != "" {
		blocks = append(blocks, object{"type": "section", "text": object{"type": "plain_text", "text": clip(before, maxSlack), "emoji": false}})
	}
	var buttons []any
	if m.Console != "" && m.Kind != kindDecided {
		buttons = append(buttons, object{"type": "button", "action_id": slackOpen, "url": m.Console, "text": object{"type": "plain_text", "text": "Open"}})
	}
	if m.Answer != nil && whole {
		for _, b := range []struct{ action, label, style string }{{"approve", "Approve once", "primary"}, {"deny", "Deny", "danger"}} {
			buttons = append(buttons, object{
				"type": "button", "action_id": b.action, "style": b.style, "value": m.Request.ID + " " + m.Answer.Shown,
				"text": object{"type": "plain_text", "text": b.label},
			})
		}
	}
	if len(buttons) > 0 {
		blocks = append(blocks, object{"type": "actions", "elements": buttons})
	}
	return object{"text": escapeSlack(clip(m.Title, 290)), "blocks": blocks}
}

// escapeSlack keeps Slack's notification text from reading mentions and links.
func escapeSlack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// before says in one line each how similar requests were decided, and where the
// file is: chats make no button of an editor's address.
func (m message) before() string {
	var lines []string
	if m.Editor != "" && m.Kind == kindStill {
		lines = append(lines, "the file: "+m.Editor)
	}
	for _, s := range m.Similar {
		l := fmt.Sprintf("before: %s %s by %s", approval.Visible(s.Summary), s.State, approval.Visible(s.By))
		if s.Note != "" {
			l += ": " + approval.Visible(s.Note)
		}
		lines = append(lines, l)
	}
	return strings.Join(lines, "\n")
}

// maxFeishu keeps a card well below Feishu's 20 KB for a request.
const maxFeishu = 8 << 10

// feishuMessage is an interactive card of plain_text elements, with the signature
// a custom bot checks: base64 of HMAC-SHA256 over nothing, keyed by
// "<timestamp>\n<secret>".
func feishuMessage(t Target, m message, at time.Time) object {
	div := func(text string) object {
		return object{"tag": "div", "text": object{"tag": "plain_text", "content": text}}
	}
	text := m.Text
	if len(text) > maxFeishu {
		text = strings.ToValidUTF8(text[:maxFeishu], "") + "\n… cut here; open the console to see all"
	}
	var elements []any
	if m.Kind != kindDecided {
		elements = append(elements, div(text))
	}
	if before := m.before(); before != "" {
		elements = append(elements, object{"tag": "hr"}, div(before))
	}
	if m.Console != "" && m.Kind != kindDecided {
		elements = append(elements, object{"tag": "action", "actions": []any{object{
			"tag": "button", "type": "primary", "url": m.Console, "text": object{"tag": "plain_text", "content": "Open in the console"},
		}}})
	}
	if len(elements) == 0 {
		elements = append(elements, div(m.Title))
	}
	color := "orange"
	switch {
	case m.Kind == kindDecided:
		color = "grey"
	case m.Request.Tier >= policy.L3:
		color = "red"
	}
	mac := hmac.New(sha256.New, fmt.Appendf(nil, "%d\n%s", at.Unix(), t.Secret))
	return object{
		"timestamp": fmt.Sprint(at.Unix()), "sign": base64.StdEncoding.EncodeToString(mac.Sum(nil)),
		"msg_type": "interactive",
		"card": object{
			"config":   object{"wide_screen_mode": true},
			"header":   object{"template": color, "title": object{"tag": "plain_text", "content": clip(m.Title, 290)}},
			"elements": elements,
		},
	}
}

// clip is s cut to n characters; an ellipsis tells that there is more.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
